"""What brokers keep of damaged stores, alone and repaired: the table of docs/comparison.md.

python -m tests.repair.broker.kept
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.broker.jars import VERSIONS
from tests.broker.jvm import Jvm
from tests.repair.broker import survivors
from tests.repair.broker.survivors import DAMAGES, Damage, Truth

SCENARIO: Final = "traffic"
SHOWN: Final = (
    "one bit of a body",
    "first record of a segment",
    "twenty sectors of zeros",
    "blank gone",
    "segment cut to half",
)
ADVISED: Final = ", and queues deleted"
"""What is often advised: `consumequeue` and `checkpoint` go, so that the broker starts afresh."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Messages of queues: those that were not damaged, and what a broker delivers of them.

    `alone` is what the broker of a version does on its own, `repaired` what it does after a repair.
    """

    damage: Damage
    version: str
    undamaged: int
    alone: int
    repaired: int


def advised(damage: Damage) -> Damage:
    """Give the damage on a store whose broker was killed, and its owner badly advised."""

    def inflict(store: Path) -> None:
        damage.inflict(store)
        shutil.rmtree(store / "consumequeue")
        (store / "checkpoint").unlink()
        (store / "abort").touch()

    return Damage(f"{damage}{ADVISED}", inflict)


def kept(jvm: Jvm, damage: Damage, into: Path) -> Kept:
    """Open a damaged store as it is, and one that was repaired."""
    name = f"rocketmq-{jvm.version}-{SCENARIO}"
    counts = []
    undamaged = 0
    for is_repaired in (False, True):
        home = into / str(is_repaired)
        home.mkdir()
        truth, root = survivors.damaged_store(name, home, damage)
        expected = truth.expected(root)
        undamaged = sum(len(queue) for queue in expected.values())
        if is_repaired:
            survivors.repair_in_place(name, root, jvm.version, damage)
        counts.append(_delivered(jvm, root, name, truth, expected))
    return Kept(damage, jvm.version, undamaged, *counts)


def _delivered(
    jvm: Jvm, root: Path, name: str, truth: Truth, expected: dict[survivors.QueueKey, list[int]]
) -> int:
    opened = survivors.open_store(jvm, root, name)
    found = sum(len({*got} & {*expected[key]}) for key, got in survivors.delivered(opened, truth))
    opened.close_later()
    return found


def table(rows: list[Kept]) -> Iterator[str]:
    """Yield the lines of a Markdown table: kept by the broker alone → after `repair`."""
    yield f"| damage | {' | '.join(VERSIONS)} |"
    yield f"|---|{'---|' * len(VERSIONS)}"
    for damage in dict.fromkeys(str(row.damage) for row in rows):
        cells = [
            f"{row.alone:,} → {row.repaired:,} of {row.undamaged:,}"
            for row in rows
            if str(row.damage) == damage
        ]
        yield f"| {damage} | {' | '.join(cells)} |"


def rows() -> list[Kept]:
    """Try all versions and damages of the table."""
    damages = [damage for damage in DAMAGES if str(damage) in SHOWN]
    damages += [advised(damage) for damage in damages[:-1]]
    found: list[Kept] = []
    with tempfile.TemporaryDirectory() as work:
        for version in VERSIONS:
            with Jvm(version, Path(work), options=("-Xmx1g",)) as jvm:
                for number, damage in enumerate(damages):
                    home = Path(work, version, str(number))
                    home.mkdir(parents=True)
                    found.append(kept(jvm, damage, home))
    return found


def main() -> None:
    """Print the table."""
    sys.stdout.write("\n".join([*table(rows()), ""]))


if __name__ == "__main__":
    main()
