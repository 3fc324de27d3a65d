"""Entries of the key index in RocksDB, as the log implies them, a record at a time.

Source: IndexRocksDBStore#buildIndex, 5.4.0 and 5.5.0; observed, 5.5.0.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rmqtool.errors import UnreadablePath
from rmqtool.formats.rocksdb_store import INDEX_TIME, IndexKey, index_key
from rmqtool.machine.arrays import is_in
from rmqtool.scan.batch import Extent
from rmqtool.store.segment import SegmentPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from rmqtool.scan.batch import Batch
    from rmqtool.store.tree import Store
    from rmqtool.tables.messages import MessageOptions

INDEXED: Final = frozenset(
    {"physical_offset", "topic", "transaction", "tags", "keys", "unique_key"}
)
ROLLBACK: Final = "rollback"
Record = dict[str, Any]


def log_records(
    store: Store, columns: frozenset[str], refused: Callable[[str, UnreadablePath], None]
) -> Iterator[Record]:
    """Yield some columns of each record of the log, in order; see `records_of`.

    Args:
        store: whose log.
        columns: of `tables/messages.py`.
        refused: told of a segment that cannot be read.
    """
    from rmqtool.tables.messages import MessageOptions, batches_of  # few need it

    options = MessageOptions(is_dledger=store.is_dledger)
    for log in (store.old_commitlog, store.commitlog):
        for segment in log:
            part = SegmentPart(segment, 0, segment.size)
            try:
                for batch in batches_of(part, options, start=None):
                    yield from records_of(batch, options, columns)
            except UnreadablePath as error:
                refused(segment.path, error)


def records_of(batch: Batch, options: MessageOptions, columns: frozenset[str]) -> Iterator[Record]:
    """Yield some columns of each record of a batch, and `store_timestamp`, in order.

    That is in ms since 1970, whatever was stored: not all of it is a time that a calendar has.

    Args:
        batch: of a scan.
        options: which select nothing.
        columns: of `tables/messages.py`.

    Raises:
        UnreadablePath: a body that is longer than the window cannot be read.
    """
    from rmqtool.scan import columns as row
    from rmqtool.tables.messages import message_rows

    if batch.kind is not Extent.RECORD:
        return
    stored = iter(batch.columns[row.STORE_TIMESTAMP, : batch.count].tolist())
    for rows in message_rows(batch, options, columns):
        for record in rows.select(sorted(columns)).to_pylist():
            yield {**record, "store_timestamp": next(stored)}


def index_entries(record: Record) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and value of each entry of the index that a record has."""
    unique = record["unique_key"]
    if not unique or record["transaction"] == ROLLBACK:
        return
    time = record["store_timestamp"]
    pairs = {(b"U", unique), *((b"K", key) for key in record["keys"] or ())}
    if record["tags"]:
        pairs.add((b"T", record["tags"]))
    for kind, key in pairs:
        entry = IndexKey(record["topic"].encode(), kind, key.encode(), unique.encode())
        yield (
            index_key(entry, time, record["physical_offset"]),
            INDEX_TIME["store_timestamp"].build(time),
        )


def hashes(pairs: Iterable[tuple[bytes, bytes]]) -> npt.NDArray[np.int64]:
    """Give a hash of each row, int64, shape (n,): 8 bytes each, for this process alone."""
    return np.frombuffer(array("q", map(hash, pairs)), np.int64)


def only_in(some: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> set[int]:
    """Give the hashes that only the first have."""
    return {*some[~is_in(some, np.sort(others))].tolist()}
