"""The table of a campaign: what was wanted, in how many of how many cases."""

from __future__ import annotations

from collections import Counter
from typing import Final, TextIO

WANTED: Final = (  # what is counted, and of what; the rest of them are failures
    ("starts predicted exactly", "starts judged"),
    ("not said to be sound, or is", "starts judged"),
    ("second repair empty", "repaired"),
    ("what stays is in the plan", "repaired"),
    ("starts after repair", "opened after repair"),
    ("all undamaged messages delivered", "starts after repair"),
    ("new message appended and read back", "starts after repair"),
    ("as sound after the broker has run on", "run on after repair"),
    ("no key gives a message of another", "run on after repair"),
    ("delivered without repair", "undamaged messages"),
    ("delivered after repair", "undamaged messages"),
)


def write_table(counts: Counter[str], stream: TextIO) -> None:
    """Write a line for each count: those that are wanted, then the others, by name."""
    for name, whole in WANTED:
        if not counts[whole]:
            continue
        share = counts[name] / counts[whole]
        stream.write(f"{counts[name]:>10,}  {name}, of {counts[whole]:,} {whole}: {share:.2%}\n")
    named = {name for names in WANTED for name in names}
    rest = sorted(item for item in counts.items() if item[0] not in named)
    stream.writelines(f"{count:>10,}  {name}\n" for name, count in rest)
    stream.flush()
