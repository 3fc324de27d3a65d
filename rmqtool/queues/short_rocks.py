"""Queues of a small RocksDB database, read at once into columns, as `short` does with files.

They have units at all numbers from their first one to their last one. Where a row of the database
is of no known shape, or the rows are not kept in memory, there are none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats.rocksdb_databases import DEFAULT
from rmqtool.queues.kept_units import VALUE, kept_units
from rmqtool.queues.short import ShortQueues, ShortRows

if TYPE_CHECKING:
    from rmqtool.queues.rocks import RocksQueues


def short_rocks(source: RocksQueues) -> ShortQueues | None:
    """Give the queues whose units have no gap, each unit with its store time; None where unknown.

    Raises:
        DamagedDatabase: the names of its queues cannot be read.
    """
    return source.database.once("short queues", lambda: _read(source))


def _read(source: RocksQueues) -> ShortQueues | None:
    kept = source.database.kept(DEFAULT) if len(source.ends) else None  # they are, of many queues
    units = kept_units(kept)
    if kept is None or units is None:
        return None
    firsts, numbers = units.firsts, units.numbers
    counts = np.diff(np.append(firsts, len(kept)))
    next_ = numbers[firsts + counts - 1] + 1
    is_whole = (next_ - numbers[firsts] == counts) & (numbers[firsts] >= 0)
    of_names = units.rows_in(source.names)[is_whole]
    if (of_names < 0).any():  # a queue that is not listed
        return None
    firsts, next_ = firsts[is_whole], next_[is_whole]
    values = np.frombuffer(kept.values, np.uint8).reshape(-1, VALUE)
    return ShortQueues(ShortRows(source.names, of_names), numbers[firsts], next_, firsts, values)
