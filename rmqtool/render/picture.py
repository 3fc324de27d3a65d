"""Pictures made of characters: what is in a file of the log, and when the log was written.

Each kind has its own character, so that colour alone says nothing.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rmqtool.findings.registry_commitlog import BRIDGE_NOTE
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.rows import Row

RECORDS: Final = "▒"
UNUSED: Final = "·"
# Kinds of marks, and their characters; where several are in one cell, the last one is shown.
MARKS: Final = {"note": "i", "bridge": "=", "warning": "!", "unread": "?", "damage": "X"}
LEGEND: Final = "▒ records  · unused  X damage  ! warning  = bridge  ? unread  i note"
BARS: Final = "▁▂▃▄▅▆▇█"


def segment_cells(row: Row, used: int, marks: Iterable[tuple[str, int, int]], width: int) -> str:
    """Draw a file of the log.

    Args:
        row: of the file, as `info --section segments` has it.
        used: bytes of it that hold the log.
        marks: kind, position and length of what is marked.
        width: characters.
    """
    size = max(int(str(row["size"])), 1)
    drawn = [RECORDS if number * size < used * width else UNUSED for number in range(width)]
    for kind, position, length in sorted(marks, key=lambda mark: [*MARKS].index(mark[0])):
        first = min(position * width // size, width - 1)
        last = min((position + max(length, 1) - 1) * width // size, width - 1)
        drawn[first : last + 1] = MARKS[kind] * (last + 1 - first)
    return "".join(drawn)


def marks_of(
    row: Row, findings: Iterable[Row], unread: Iterable[Row]
) -> Iterator[tuple[str, int, int]]:
    """Yield what is marked in a file: kind, position and length.

    Args:
        row: of the file.
        findings: of a diagnosis.
        unread: paths that could not be read, with the reasons.
    """
    for finding in findings:
        if finding["path"] == row["path"]:
            kind = "bridge" if finding["message"] == BRIDGE_NOTE else str(finding["severity"])
            position, length = (int(str(finding[name] or 0)) for name in ("position", "length"))
            yield kind, position, length
    if any(problem["path"] == row["path"] for problem in unread):
        yield "unread", 0, int(str(row["size"]))


def traffic(samples: Sequence[tuple[int, int]], width: int) -> list[str]:
    """Draw bytes over time: a line of bars, and a line that says what they mean.

    Args:
        samples: store times and physical offsets of records, in the order of the log.
        width: bars.
    """
    times = [time for time, _ in samples]
    low, high = min(times, default=0), max(times, default=0)
    if high <= low or width < 1:
        return []
    step = (high - low) / width
    stored = [0.0] * width
    for (before, start), (after, end) in pairwise(samples):
        first, last = sorted(min(int((time - low) / step), width - 1) for time in (before, after))
        for number in range(first, last + 1):
            stored[number] += (end - start) / (last + 1 - first)
    most = max(stored) or 1.0
    heights = (min(int(amount / most * len(BARS)), len(BARS) - 1) for amount in stored)
    bars = "".join(
        BARS[height] if amount else " " for height, amount in zip(heights, stored, strict=True)
    )
    rate = most / step / 1000  # bytes a millisecond are KB/s
    return [bars, f"{iso_time(low)} to {iso_time(high)}, {rate:.2f} MB/s at most (samples)"]
