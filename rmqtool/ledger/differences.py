"""How units differ from those that the log wants in their places: judged here, nowhere else.

One table names the kinds of differences, for queues in files, batch queues and queues in RocksDB.
`validate` takes the code of its findings from it, and a plan of `repair` code and reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.derive.delays import tags_fit
from rmqtool.findings.registry_consume_queue import (
    BQ_UNIT,
    CQ_EXTADDR,
    CQ_GAP,
    CQ_HOLE,
    CQ_MISMATCH,
    CQ_PREBLANK,
    CQ_TAG,
)
from rmqtool.findings.registry_rocksdb import RQ_UNIT
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue_ext import LARGEST_ADDRESS
from rmqtool.queues.kinds import RECOVERED, UnitKind, kinds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from rmqtool.findings.catalogue import Code
    from rmqtool.ledger.extensions import ExtUnits
    from rmqtool.queues.kinds import Units

    Numbers = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


class UnitDifference(NamedTuple):
    """A way in which units differ from what the log wants."""

    code: Code  # of queues in files
    fixed: str  # what a repair writes, with {units} for how many
    batch_code: Code = BQ_UNIT
    rocksdb_code: Code = RQ_UNIT


# The fields that alone differ. A kind that is added here is found, and repaired, in every queue.
BY_FIELDS: Final[dict[tuple[str, ...], UnitDifference]] = {
    ("tags_code",): UnitDifference(CQ_TAG, "tags code of {units} of these records"),
}
ADDRESS: Final = UnitDifference(CQ_EXTADDR, BY_FIELDS["tags_code",].fixed)
MISSING: Final = UnitDifference(CQ_GAP, "{units} of these records, missing until now")
PRE_BLANK: Final = UnitDifference(CQ_PREBLANK, "{units} of these records, in place of pre-blank")
INVALID: Final = UnitDifference(CQ_HOLE, "{units} of these records, invalid until now")
OTHER: Final = UnitDifference(CQ_MISMATCH, "{units} of these records, in place of others")


def by_fields(names: Iterable[str]) -> UnitDifference:
    """Name what is wrong where some fields of a unit differ, and all others are right."""
    return BY_FIELDS.get(tuple(names), OTHER)


def differing_fields(want: Units | np.void, have: Units | np.void) -> tuple[str, ...]:
    """Give the names of the fields that differ in any of some units.

    Args:
        want: units as the log wants them, shape (n,), or one of them.
        have: as they are, likewise.
    """
    return tuple(name for name in want.dtype.names or () if (want[name] != have[name]).any())


def difference_of(want: Units, have: Units) -> UnitDifference:
    """Name what is wrong with a stretch of units, of which each differs.

    Args:
        want: units as the log wants them, shape (n,).
        have: as they are, shape (n,).
    """
    alone = by_fields(differing_fields(want, have))
    if alone is not OTHER:
        is_tags = alone is BY_FIELDS["tags_code",] and want.dtype != BATCH_CQ_UNIT.dtype
        return ADDRESS if is_tags and (have["tags_code"] <= LARGEST_ADDRESS).any() else alone
    kinds = kinds_of(have)
    for kind, difference in ((UnitKind.EMPTY, MISSING), (UnitKind.PRE_BLANK, PRE_BLANK)):
        if (kinds == kind).all():
            return difference
    return INVALID if (~np.isin(kinds, RECOVERED)).any() else OTHER


def wrong_units(
    topic: str, want: Units, have: Units, extension: Callable[[], ExtUnits | None] = lambda: None
) -> Mask:
    """Tell which units are not as the log wants them: bool, shape (n,).

    Tags codes may be right though they differ: see `tags_right`.

    Args:
        topic: of the queue.
        want: units as the log wants them, shape (n,).
        have: as they are, shape (n,).
        extension: gives the extension of the queue; asked where a unit leads to one.

    Raises:
        UnreadablePath: the extension cannot be read.
    """
    wrong: Mask = want != have
    if want.dtype == BATCH_CQ_UNIT.dtype:
        return wrong
    alike = np.flatnonzero(wrong & point_alike(want, have))
    if alike.size:
        wanted, codes = (units["tags_code"][alike].astype(np.int64) for units in (want, have))
        ext = extension() if (codes <= LARGEST_ADDRESS).any() else None
        wrong[alike] = ~tags_right(topic, wanted, codes, ext)
    return wrong


def point_alike(want: Units, have: Units) -> Mask:
    """Tell which units lead to the record that the log wants: bool, shape (n,)."""
    same: Mask = (want["physical_offset"] == have["physical_offset"]) & (
        want["size"] == have["size"]
    )
    return same


def tags_right(topic: str, want: Numbers, have: Numbers, extension: ExtUnits | None) -> Mask:
    """Tell which tags codes are right, as such or by the extension they lead to: bool, shape (n,).

    Args:
        topic: of the queue.
        want: int64, shape (n,): tags codes as the log wants them.
        have: int64, shape (n,): as they are, or addresses of units of the extension.
        extension: of the queue; None for none.
    """
    is_address = have <= LARGEST_ADDRESS
    right: Mask = ~is_address & tags_fit(topic, want, have)
    if extension is not None and is_address.any():
        right[is_address] = extension.match(topic, have[is_address], want[is_address])
    return right
