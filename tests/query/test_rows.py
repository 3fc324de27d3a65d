"""A message that was looked up has the fields that `dump` gives it."""

from __future__ import annotations

from itertools import chain

from rmqtool.query import ByOffset, Lookup, message_row
from rmqtool.rows import rows_of
from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump
from rmqtool.tables.selection import Selection
from tests.query.expected import Expected
from tests.stores import broker_conf


def test_same_as_dump(expected: Expected, lookup: Lookup) -> None:
    """Each field of the first records is the same through scan and through lookup."""
    records = expected.fixture.records[:100]
    end = records[-1].physical_offset + 1
    options = DumpOptions(
        (str(expected.fixture.store),),
        broker_conf=str(broker_conf(expected.fixture.name)),
        selection=Selection(offsets=(None, end)),
    )
    (rows,) = dump(options, DumpOutcome())
    dumped = {
        row["physical_offset"]: row
        for row in chain.from_iterable(map(rows_of, rows))
        if not row.get("extent")
    }
    for record in records:
        hit = lookup.find(ByOffset(record.physical_offset)).hits[0]
        row = message_row(hit.record)
        known = dumped[record.physical_offset]
        assert {name: known.get(name) for name in row} == row
