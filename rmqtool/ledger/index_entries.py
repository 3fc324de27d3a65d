"""Entries of the key index held against those that the log wants: judged here, by columns.

Entries are in the order of the log, so a sound file is proven by going along both at once. Where
they differ the shortest explanation is taken. Entries of expired records come before all others:
one that points into the log and has expired ones after it was damaged.
Source: IndexService#buildIndex, #deleteExpiredFile, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.formats.index import FIRST_ENTRY, INDEX_ENTRY, entry_position
from rmqtool.store.index_files import is_destroyed

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from rmqtool.store.index_files import IndexInUse
    from rmqtool.store.tree import Store

    Pairs = npt.NDArray[np.int64]

MOST_WILD: Final = 8  # damaged entries before those of expired records that do not hide them
LOOK_AHEAD: Final = 256  # entries in which an explanation is looked for; ten torn sectors
FAR: Final = LOOK_AHEAD + 1
NEARBY: Final = 9  # entries whose offsets tell whether one of them is out of order
ANYWHERE: Final = (1 << 63) - 1


class EntryVerdict(enum.Enum):
    """What is wrong with the next entries."""

    EXPIRED = enum.auto()  # nothing: their records have expired
    UNTAGGED = enum.auto()  # nothing: releases before 5.4.0 write no entries for tags
    DAMAGED = enum.auto()  # they are not those that the log wants in their places
    UNASKED = enum.auto()  # the log wants none of them
    MISSING = enum.auto()  # entries before them are missing
    LATER = enum.auto()  # they are of a later record: all entries before it are missing


class EntryStretch(NamedTuple):
    """Why the next entries are not those that the log wants."""

    kind: EntryVerdict
    entries: int  # how many of the file are explained
    wanted: int  # how many that the log wants


def explain(
    want: Pairs, have: Pairs, log_start: int | None, *, has_tags: bool, limit: int = ANYWHERE
) -> EntryStretch:
    """Find the shortest explanation why entries differ, of which the first ones do.

    Args:
        want: int64, shape (2, n), n <= LOOK_AHEAD: hashes and physical offsets that the log wants.
        have: likewise, of the next entries of the file.
        log_start: physical offset of the log's first byte; None where a live entry was before.
        has_tags: whether the release indexes tags.
        limit: physical offset up to which an entry of the file may lie.
    """
    if has_tags and (count := _untagged(want, have)):
        return EntryStretch(EntryVerdict.UNTAGGED, 0, count)
    length = min(want.shape[1], have.shape[1])
    counts = {
        EntryVerdict.DAMAGED: _first(have[:, :length] == want[:, :length]),
        EntryVerdict.UNASKED: _first(have == want[:, :1]),
        EntryVerdict.MISSING: _first(want == have[:, :1]),
    }
    is_unknown = counts[EntryVerdict.DAMAGED] == counts[EntryVerdict.MISSING] == FAR
    if is_unknown and log_start is not None:
        expired = are_expired(have[1], log_start)
        if expired.any():
            count = int(np.argmin(np.append(expired, False)))
            return EntryStretch(
                EntryVerdict.EXPIRED if count else EntryVerdict.UNASKED, count or 1, 0
            )
    kind = min(counts, key=counts.__getitem__)
    if (count := counts[kind]) == FAR:
        return _far_apart(want, have, limit)
    entries = 0 if kind is EntryVerdict.MISSING else count
    return EntryStretch(kind, entries, 0 if kind is EntryVerdict.UNASKED else count)


def _far_apart(want: Pairs, have: Pairs, limit: int) -> EntryStretch:
    """Explain where nothing nearby fits, by the order in which offsets must rise."""
    offset, following = int(have[1, 0]), have[1, 1:NEARBY]
    rises = offset <= int(following.min(initial=limit))
    if rises and offset > want[1, 0]:
        return EntryStretch(EntryVerdict.LATER, 0, int(np.searchsorted(want[1], offset)))
    return EntryStretch(EntryVerdict.DAMAGED, 1, int(not rises or offset == want[1, 0]))


def _untagged(want: Pairs, have: Pairs) -> int:
    """Count the entries that are missing if all of them are the last one of their record."""
    same = (want == have[:, :1]).all(axis=0)
    if same.any():
        count = int(np.argmax(same))
        is_last = want[1, :count] != want[1, 1 : count + 1]
        return count if is_last.all() else 0
    ends_here = want.shape[1] < LOOK_AHEAD and have[1, 0] > want[1, -1]
    return want.shape[1] if ends_here and (np.diff(want[1]) != 0).all() else 0


def _first(same: npt.NDArray[np.bool_]) -> int:
    """Give the first column whose two rows are the same; FAR for none."""
    both = same.all(axis=0)
    return int(np.argmax(both)) if both.any() else FAR


def entries(held: IndexInUse) -> npt.NDArray[np.void]:
    """Give the entries in use of an index file: shape (n,), as `INDEX_ENTRY` has them.

    Raises:
        UnreadablePath: the disk refused.
    """
    raw = np.empty((held.end - FIRST_ENTRY) * INDEX_ENTRY.size, np.uint8)
    with held.file.open() as opened:
        read = opened.read_into(raw.data, entry_position(held.file.slots, FIRST_ENTRY))
    return raw[: read // INDEX_ENTRY.size * INDEX_ENTRY.size].view(INDEX_ENTRY.dtype)


def is_doomed(store: Store, header: Mapping[str, int]) -> bool:
    """Tell whether a start after a crash deletes an index file, as no checkpoint covers its end.

    A checkpoint that cannot be read keeps no file: a finding of its own says so.
    """
    try:
        checkpoint = store.checkpoint() or {}
    except (UnreadablePath, DecodeError):
        return True
    return is_destroyed(header["end_timestamp"], checkpoint.get("index_msg_timestamp", 0))


def are_expired(physical_offsets: npt.NDArray[np.int64], log_start: int) -> npt.NDArray[np.bool_]:
    """Tell which entries are of expired records: bool, shape (n,).

    Args:
        physical_offsets: int64, shape (n,): of entries in a row, before which no live one is.
        log_start: physical offset of the first byte of the log.
    """
    expired: npt.NDArray[np.bool_] = physical_offsets < log_start
    expired &= np.cumsum(~expired) <= MOST_WILD
    return expired
