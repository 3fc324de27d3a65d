"""Edits of a queue: patches that follow each other are one, and it says of how many units."""

from __future__ import annotations

from rmqtool.check.queues.queue_state import UNIT
from rmqtool.findings.registry_consume_queue import CQ_GAP, CQ_TAG
from rmqtool.repair.patches import Patch
from rmqtool.repair.queues.queue_files import joined

REASON = "tags code of {units} of these records"


def _patches(*numbers_and_counts: tuple[int, int]) -> list[tuple[int, Patch]]:
    return [
        (number * UNIT, Patch(number, b"\1" * UNIT * count, CQ_TAG, REASON))
        for number, count in numbers_and_counts
    ]


def test_joined_patches_are_counted() -> None:
    """The reason is that of all units, not of the first patch."""
    ((position, patch),) = joined(_patches((3, 1), (4, 1), (5, 94)))
    assert (position, patch.number, len(patch.raw)) == (3 * UNIT, 3, 96 * UNIT)
    assert patch.sentence == "tags code of 96 units of these records"


def test_one_unit() -> None:
    """A single unit is named as one."""
    ((_, patch),) = joined(_patches((7, 1)))
    assert patch.sentence == "tags code of the unit of these records"


def test_others_stay_apart() -> None:
    """Patches with a gap between them, or for another reason, are not joined."""
    apart = [*_patches((0, 1), (2, 1)), (3 * UNIT, Patch(3, b"\1" * UNIT, CQ_GAP, REASON))]
    assert joined(apart) == apart


def test_the_later_counts() -> None:
    """Where two patches are for one unit, the count is of what is left."""
    (_, before), (_, after) = joined(
        [*_patches((0, 3)), (2 * UNIT, Patch(2, b"\2" * UNIT * 2, CQ_GAP, REASON))]
    )
    assert before.sentence == "tags code of 2 units of these records"
    assert after.sentence == "tags code of 2 units of these records"
