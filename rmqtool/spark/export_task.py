"""One task of an export: what an executor runs. Reads a part of a store and writes its files.

The same task writes the same files, so one that is tried again does no harm. Needs no pyspark.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from rmqtool.errors import WriteFailed
from rmqtool.spark.export_files import FileWriter, open_writer, split
from rmqtool.spark.export_options import DATE, ExportFormat, ExportOptions
from rmqtool.spark.fleet import batches
from rmqtool.spark.options import TableName
from rmqtool.spark.readers import UNREAD
from rmqtool.spark.tables import chosen, damaged_rows, schema_of
from rmqtool.store.meter import metered
from rmqtool.tables.record_tables import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.spark.fleet import AnyTask
    from rmqtool.writing.dataset import Dataset

BUFFER_BYTES: Final = 64 << 20  # rows that wait to be written, of all partitions of a task
ROWS_A_GROUP: Final = 1 << 18
OPEN_FILES: Final = 256  # of one task
FEW_TEXTS: Final = frozenset(
    column.name
    for column in MESSAGES.columns
    if column.source is not None and column.source.is_encoded
)
RECEIPTS: Final = "_receipts"
PLACES: Final = ("segment", "file", "path", "reason")  # columns that say what cannot be read


@dataclass(frozen=True, slots=True)
class NumberedTask:
    """A task and its place among all. Picklable."""

    number: int  # from 0
    tasks: tuple[AnyTask, ...]  # what to read; of several stores, small ones together

    @property
    def length(self) -> int:
        """Bytes to read, about: so many go to one Spark task."""
        return max(sum(task.length for task in self.tasks), 1)


class Receipt(NamedTuple):
    """What a task wrote."""

    number: int  # of the task
    files: tuple[str, ...] = ()  # their names
    rows: int = 0  # in all of them
    damaged: int = 0  # rows that tell of damage
    bytes: int = 0  # of the files
    unread: tuple[str, ...] = ()  # what could not be read, relative to the store root
    expired: tuple[str, ...] = ()  # files that a running broker deleted before they were read
    read: int = 0  # bytes of the store that were read

    @property
    def name(self) -> str:
        """Where it is kept."""
        return f"{RECEIPTS}/{self.number:06}.json"


@dataclass(frozen=True, slots=True)
class ExportTask:
    """The per-task function. Picklable."""

    options: ExportOptions  # what is asked
    target: Dataset  # where the files go

    def __call__(self, one: NumberedTask) -> Receipt:
        """Write the files of a task, then its receipt.

        Raises:
            WriteFailed: they could not be written.
        """
        with metered() as meter:
            receipt = self._written(one)
        receipt = receipt._replace(read=meter.bytes)
        self.target.write(receipt.name, _json(receipt._asdict()))
        return receipt

    def _written(self, one: NumberedTask) -> Receipt:
        files = _Files(self, one.number)
        rows = damaged = 0
        unread: list[str] = []
        expired: set[str] = set()
        try:
            for table in self._tables(one.tasks, expired):
                rows += table.num_rows
                damaged += damaged_rows(table)
                unread += self._unread(table)
                files.put(table.select(self._read_names(needed_only=True)))
            files.close()
        except OSError as error:
            if isinstance(error, WriteFailed):
                raise
            raise WriteFailed.of(self.target, error) from error
        finally:
            files.discard()
        return Receipt(
            one.number,
            tuple(files.names),
            rows,
            damaged,
            files.bytes,
            tuple(dict.fromkeys(unread)),
            tuple(sorted(expired)),
        )

    @property
    def schema(self) -> pa.Schema:
        """The columns of the files."""
        return chosen(schema_of(self.options.source), self.options.names, self._encoded)

    @property
    def _encoded(self) -> frozenset[str]:
        """Columns whose texts come as numbers of a dictionary, which Parquet takes as they are."""
        options = self.options
        is_plain = options.form is not ExportFormat.PARQUET or options.by
        is_other = options.source.table is not TableName.MESSAGES
        return frozenset() if is_plain or is_other else FEW_TEXTS

    def _read_names(self, *, needed_only: bool) -> tuple[str, ...]:
        """Give the columns to read: those of the files, of partitions, and what tells of damage."""
        wanted = dict.fromkeys(self.options.names)
        wanted |= dict.fromkeys("store_time" if name == DATE else name for name in self.options.by)
        if not needed_only:
            known = set(schema_of(self.options.source).names)
            telling = ("store", "code", "severity", *PLACES, "unread")
            wanted |= dict.fromkeys(name for name in telling if name in known)
        return tuple(wanted)

    def _tables(self, tasks: tuple[AnyTask, ...], expired: set[str]) -> Iterator[pa.Table]:
        """Yield the rows of tasks, some hundred thousand at a time."""
        names = self._read_names(needed_only=False)
        kept: list[pa.RecordBatch] = []
        rows = size = 0
        source = self.options.source
        read = (batches(task, source, names, self._encoded, expired) for task in tasks)
        for batch in chain.from_iterable(read):
            kept.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= ROWS_A_GROUP or size >= BUFFER_BYTES:
                yield pa.Table.from_batches(kept).unify_dictionaries()
                kept, rows, size = [], 0, 0
        if kept:
            yield pa.Table.from_batches(kept).unify_dictionaries()

    def _unread(self, table: pa.Table) -> list[str]:
        """Give what rows say could not be read."""
        import pyarrow.compute as pc

        if "unread" in table.column_names:
            unread = table.filter(pc.is_valid(table["unread"]))
        else:
            unread = table.filter(pc.fill_null(pc.equal(table["code"], UNREAD), fill_value=False))
        where = next((name for name in PLACES if name in table.column_names), None)
        found = (
            [one or "" for one in unread[where].to_pylist()] if where else [""] * unread.num_rows
        )
        if "store" in table.column_names:
            stores = unread["store"].to_pylist()
            pairs = zip(stores, found, strict=True)
            return [one if one.startswith(store) else f"{store}: {one}" for store, one in pairs]
        return found


class _Files:
    """The open files of a task, one a partition; rows wait until some are together.

    Attributes:
        names: of files that were written.
        bytes: of them.
    """

    def __init__(self, task: ExportTask, number: int) -> None:
        self._task, self._number, self._options = task, number, task.options
        self._waiting: dict[str, list[pa.Table]] = {}
        self._waiting_bytes = 0
        self._open: dict[str, _File] = {}
        self._pieces = count()
        self.names: list[str] = []
        self.bytes = 0

    def put(self, rows: pa.Table) -> None:
        """Take rows."""
        for path, some in split(rows, self._options.by):
            self._waiting.setdefault(path, []).append(some.select(self._options.names))
            self._waiting_bytes += some.nbytes
        if self._waiting_bytes >= BUFFER_BYTES or not self._options.by:
            self._flush()

    def close(self) -> None:
        """Write what waits, and give all files their names."""
        self._flush()
        while self._open:
            self._end(next(iter(self._open)))

    def discard(self) -> None:
        """Drop what was not closed."""
        for file in self._open.values():
            file.discard()
        self._open.clear()

    def _flush(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, {}, 0
        for path, tables in waiting.items():
            if path not in self._open:
                if len(self._open) >= OPEN_FILES:
                    self._end(next(iter(self._open)))
                self._open[path] = _File(self._task, self._name(path))
            file = self._open[path]
            file.writer.write(pa.concat_tables(tables))
            if file.length >= self._options.target_file_size:
                self._end(path)

    def _end(self, path: str) -> None:
        self.bytes += self._open[path].close()
        self.names.append(self._open[path].name)
        del self._open[path]

    def _name(self, path: str) -> str:
        name = f"part-{self._number:06}-{next(self._pieces):04}.{self._options.form}"
        return f"{path}/{name}" if path else name


class _File:
    """One file while it is written."""

    def __init__(self, task: ExportTask, name: str) -> None:
        self.name = name
        self._new = task.target.new_file(name)
        self.writer: FileWriter = open_writer(self._new.stream, task.schema, task.options)

    @property
    def length(self) -> int:
        """Bytes that were written so far."""
        self._new.stream.flush()
        return os.fstat(self._new.stream.fileno()).st_size

    def close(self) -> int:
        """Give the file its name; return its length."""
        self.writer.close()
        return self._new.commit()

    def discard(self) -> None:
        """Remove it."""
        with suppress(OSError):
            self.writer.close()
        self._new.discard()


def _json(value: Any) -> bytes:  # noqa: ANN401 - whatever JSON knows
    import orjson

    return orjson.dumps(value, option=orjson.OPT_INDENT_2)
