"""A table of a store as DuckDB reads it: asked for columns and a filter each time.

DuckDB reads what Arrow calls a dataset, and asks it for a scanner with the columns and the filter
of one query. The filter is applied here, to the rows; what it says about topics, queues, offsets
and times is a limit of the read, too. Tasks are read by threads of this process, a few at a time,
in order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset

from rmqtool import engine
from rmqtool.findings.in_rows import damaged_rows
from rmqtool.reads.fleet import FleetTask, batches, tasks
from rmqtool.reads.limits import columns_of, conditions, limited
from rmqtool.reads.options import TableName
from rmqtool.reads.questions import ReadSoFar
from rmqtool.reads.tables import CODE, DAMAGE_COLUMNS, chosen, schema_of, unread_rows
from rmqtool.reads.tasks import FilesTask, LogTask, RocksTask
from rmqtool.store.place import metered
from rmqtool.tables.bodies import BodyMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.reads.fleet import AnyTask
    from rmqtool.reads.options import SourceOptions

PART_BYTES: Final = 16 << 20  # of the log; the rows of one part a thread are in memory


class Tally:
    """What the scans of a question have read.

    Attributes:
        error: what stopped a scan; DuckDB passes on its text only.
        advance: takes bytes as they are read.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.advance: Callable[[int], None] = lambda _: None
        self._read = ReadSoFar(0)

    def add(self, read: ReadSoFar) -> None:
        """Count what was read of a task."""
        self.advance(read.bytes)
        self._read = ReadSoFar(*(a + b for a, b in zip(self._read, read, strict=True)))

    def take(self) -> ReadSoFar:
        """Give what was counted since the last call."""
        taken, self._read = self._read, ReadSoFar(0)
        return taken


class ScannedTable(pyarrow.dataset.Dataset):  # type: ignore[misc]  # of an untyped package
    """One table of a store, or of several.

    Args:
        source: the store, the table, and the columns that there are.
        tally: counts what is read.
    """

    def __init__(self, source: SourceOptions, tally: Tally) -> None:
        self._source, self._tally = source, tally
        whole = schema_of(source)
        self._columns = chosen(whole, source.columns or whole.names)

    @property
    def schema(self) -> pa.Schema:
        """The columns that a query may name."""
        return self._columns

    def scanner(
        self,
        columns: list[str] | None = None,
        filter: pyarrow.compute.Expression | None = None,  # noqa: A002 - Arrow's name
        **_: Any,  # noqa: ANN401 - sizes that DuckDB may wish for
    ) -> Scan:
        """Give what reads the rows of one query."""
        names = self._columns.names if columns is None else columns
        return Scan(self._source, tuple(names), filter, self._tally)


@dataclass(frozen=True, slots=True)
class Scan:
    """One read of a table."""

    source: SourceOptions
    names: tuple[str, ...]  # columns that are given, in order
    filter: pyarrow.compute.Expression | None  # rows that it leaves out are not given
    tally: Tally  # counts what is read

    def to_reader(self) -> pa.RecordBatchReader:
        """Give the rows, read while they are taken."""
        schema = chosen(schema_of(self.source), self.names)
        return pa.RecordBatchReader.from_batches(schema, self._kept(schema))

    def _kept(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the filter leaves."""
        try:
            for batch in self._rows():
                kept = batch if self.filter is None else batch.filter(self.filter)
                if kept.num_rows:
                    yield kept.select(self.names).cast(schema)
        except GeneratorExit:
            raise
        except BaseException as error:
            self.tally.error = error
            raise

    def _rows(self) -> Iterator[pa.RecordBatch]:
        options = limited(self.source, conditions(self.filter))
        if options.table is TableName.MESSAGES:
            # With topics, all queues are asked for each part: a segment is one.
            split = 0 if options.selection.is_indexed else PART_BYTES
            options = replace(options, split=split)
        names = self._read_names()

        def read(task: AnyTask) -> tuple[list[pa.RecordBatch], ReadSoFar]:
            rows: list[pa.RecordBatch] = []
            with metered() as meter:
                rows.extend(batches(task, options, names, expired=set()))
                return rows, _counted(rows, meter.bytes)

        # Bodies may be many times as long unpacked: these rows come one batch at a time, as those
        # of a whole segment do.
        is_long = options.body.mode is not BodyMode.NONE and "body" in names
        is_long |= options.table is TableName.MESSAGES and not options.split
        for is_bulk, some in groupby(_single(tasks(options)), _is_bulk):
            if is_bulk and not is_long:
                for rows, count in engine.run(read, some):
                    self.tally.add(count)
                    yield from rows
            else:
                for task in some:
                    yield from self._one_by_one(task, options, names)

    def _one_by_one(
        self, task: AnyTask, options: SourceOptions, names: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task as they are read."""
        read = batches(task, options, names, expired=set())
        while True:
            with metered() as meter:  # not while somebody else works with the rows
                batch = next(read, None)
            self.tally.add(_counted([] if batch is None else [batch], meter.bytes))
            if batch is None:
                return
            yield batch

    def _read_names(self) -> tuple[str, ...]:
        """Give the columns to read: those that tell of damage, too, which is counted."""
        wanted = {*self.names, *columns_of(self.filter)}
        known = schema_of(self.source).names
        telling = DAMAGE_COLUMNS.get(self.source.table, CODE)
        if telling in known and self.source.table is not TableName.SEGMENTS:
            wanted.add(telling)
        return tuple(name for name in known if name in wanted) or (known[0],)


def _single(some: Iterable[AnyTask]) -> Iterator[AnyTask]:
    """Give the files of queues one by one: the rows of a task wait in memory."""
    for any_task in some:
        task = any_task.task if isinstance(any_task, FleetTask) else any_task
        if not isinstance(task, FilesTask):
            yield any_task
            continue
        for file in task.files:
            single = FilesTask((file,))
            yield replace(any_task, task=single) if isinstance(any_task, FleetTask) else single


def _is_bulk(fleet_task: AnyTask) -> bool:
    task = fleet_task.task if isinstance(fleet_task, FleetTask) else fleet_task
    return isinstance(task, LogTask | FilesTask | RocksTask)


def _counted(rows: Iterable[pa.RecordBatch], read_bytes: int) -> ReadSoFar:
    damaged = unread = 0
    for batch in rows:
        damaged += damaged_rows(batch)
        unread += unread_rows(batch)
    return ReadSoFar(read_bytes, damaged, unread)
