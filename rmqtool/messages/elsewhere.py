"""What is in another store, and which half messages are open: what a choice of messages asks for.

Messages are the same by topic and unique key, else by topic, queue, queue offset, store time and
checksum of the body, as `rebuild-log` has it.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rmqtool.machine.arrays import distinct
from rmqtool.relog import fields as at
from rmqtool.relog import kernels
from rmqtool.relog.chunk import KEY_ROWS
from rmqtool.relog.order import concatenated
from rmqtool.relog.sources import source_of
from rmqtool.relog.take import TakeOptions
from rmqtool.tables.undecided import undecided_transactions
from rmqtool.times import iso_time, ms_of
from rmqtool.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.relog.sources import LogSource
    from rmqtool.rows import Row
    from rmqtool.scan.batch import Batch
    from rmqtool.store.tree import Store

    Int64s: TypeAlias = npt.NDArray[np.int64]


def hashes(batch: Batch, columns: Int64s) -> Int64s:
    """Give what tells records of a batch apart from those of other stores: int64, shape (n,)."""
    found = np.empty(columns.shape[1], np.int64)
    kernels.hash_keys(batch.window, np.ascontiguousarray(columns[KEY_ROWS]), found)
    return found


def open_other(path: str) -> LogSource:
    """Open the store, or the file of records, that messages may be in.

    Raises:
        StoreError: it is not one, or cannot be read.
    """
    return source_of(path, None)


def known_in(
    other: LogSource, advance: Callable[[int], None], jobs: int | None
) -> tuple[Int64s, int]:
    """Give the hashes of its undamaged messages, sorted, and how many bytes are no record.

    Raises:
        UnreadablePath: it cannot be read to its end: what is lost in it is then unknown.
    """
    keys, gap_bytes = [], 0
    for chunk in other.chunks(TakeOptions(keys=True, copies=False), advance, jobs):
        if chunk.unread is not None:
            raise chunk.unread
        keys.append(chunk.fields[at.KEY])
        gap_bytes += sum(gap.length for gap in chunk.gaps)
    return distinct(concatenated(keys)), gap_bytes


def open_transactions(store: Store) -> list[Row]:
    """Give the transactions that nobody decided; see `undecided_transactions`."""
    return list(undecided_transactions(store))


def places_of(transactions: Sequence[Row]) -> Int64s:
    """Give the physical offsets of their half messages, the newest record of each, sorted."""
    found = [transaction["last_physical_offset"] for transaction in transactions]
    return np.array(sorted(one for one in found if isinstance(one, int)), np.int64)


def decisions(transactions: Sequence[Row]) -> Iterator[str]:
    """Say what a person has to decide, a sentence for each producer group."""
    groups: dict[str, list[Row]] = {}
    for transaction in transactions:
        groups.setdefault(str(transaction["producer_group"] or "unknown"), []).append(transaction)
    for group, some in sorted(groups.items()):
        moments = [one["first_store_time"] for one in some]
        times = [ms_of(moment) for moment in moments if isinstance(moment, datetime)]
        since = f", the oldest of {iso_time(min(times))}" if times else ""
        what = counted(len(some), "open transaction")
        yield f"producer group {group}: {what}{since}; its application knows: commit or roll back"
