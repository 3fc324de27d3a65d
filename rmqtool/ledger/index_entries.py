"""Entries of the key index that the log has no record for: which have expired, which files go.

Entries are in the order of the log, so those of expired records come before all others. One that
points into the log and has expired ones after it was damaged.
Source: IndexService#buildIndex, #deleteExpiredFile, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.formats.index import FIRST_ENTRY, INDEX_ENTRY, entry_position
from rmqtool.store.index_files import is_destroyed

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from rmqtool.store.index_files import IndexInUse
    from rmqtool.store.tree import Store

MOST_WILD: Final = 8  # damaged entries before those of expired records that do not hide them


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
