"""One task of an export: what an executor runs. Reads a part of a store and writes its files.

The same task writes the same files, so one that is tried again does no harm. Needs no pyspark.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqtool.errors import WriteFailed
from rmqtool.findings.in_rows import damaged_rows
from rmqtool.reads.export_options import DATE, ExportFormat, ExportOptions
from rmqtool.reads.fleet import batches
from rmqtool.reads.options import TableName
from rmqtool.reads.readers import UNREAD
from rmqtool.reads.tables import TABLES, chosen, schema_of
from rmqtool.store.place import metered
from rmqtool.tables.arrow import plain_rows
from rmqtool.tables.fleet import FLEET
from rmqtool.tables.json_lines import json_lines
from rmqtool.tables.record_tables import MESSAGES
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import IO

    import numpy.typing as npt

    from rmqtool.reads.export_options import ExportOptions
    from rmqtool.reads.fleet import AnyTask
    from rmqtool.writing.dataset import Dataset

    Int64s: TypeAlias = npt.NDArray[np.int64]


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

    def __call__(self, numbered: NumberedTask) -> Receipt:
        """Write the files of a task, then its receipt.

        Raises:
            WriteFailed: they could not be written.
        """
        with metered() as meter:
            receipt = self._written(numbered)
        receipt = receipt._replace(read=meter.bytes)
        self.target.write(receipt.name, _json(receipt._asdict()))
        return receipt

    def _written(self, numbered: NumberedTask) -> Receipt:
        files = _Files(self, numbered.number)
        rows = damaged = 0
        unread: list[str] = []
        expired: set[str] = set()
        try:
            for table in self._tables(numbered.tasks, expired):
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
            numbered.number,
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
        paths = (
            [path or "" for path in unread[where].to_pylist()] if where else [""] * unread.num_rows
        )
        if "store" in table.column_names:
            stores = unread["store"].to_pylist()
            pairs = zip(stores, paths, strict=True)
            return [path if path.startswith(store) else f"{store}: {path}" for store, path in pairs]
        return paths


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


# The files of an export: Parquet, CSV or JSON lines, split by the values of some columns.
#
# Directories are named as Hive does, `topic=orders/date=2026-11-21`, and hold what is in neither:
# partition columns are left out of the files. Whatever a store says, a name is one name: characters
# that mean something to a file system or a reader are `%` and two hexadecimal digits.


NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
DAY_US: Final = 86_400_000_000
NO_DAY: Final = -(2**63)  # of a row without a time; no broker's clock says so
_ESCAPED: Final = frozenset("\"#%'*/:=?\\{}[]^\x7f") | {chr(code) for code in range(32)}
_LONGEST_NAME: Final = 255  # bytes
_DIGITS: Final = 16
# Columns with few values: a dictionary of any other is built and then thrown away.
FEW_VALUES: Final = frozenset(
    column.name
    for columns in (FLEET, *(table.columns for table in TABLES.values()))
    for column in columns
    if column.has_few
)
# Columns that grow by about as much from row to row: as differences they take next to nothing.
DIFFERENCES: Final = "DELTA_BINARY_PACKED"
GROWING: Final = frozenset({"physical_offset", "position"})
# Columns whose least and largest values readers use to leave out parts of files.
LIMITED: Final = frozenset(
    {"physical_offset", "topic", "queue_id", "queue_offset", "born_time", "store_time", "code"}
)


class FileWriter(Protocol):
    """Writes batches of one schema to one file."""

    def write(self, rows: pa.Table) -> None:
        """Append rows."""

    def close(self) -> None:
        """Write what ends the file."""


def split(rows: pa.Table, by: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """Yield (directory, rows) for each combination of values, rows in the order that they had.

    Args:
        rows: with the columns that `by` needs.
        by: names of partition columns; `date` is that of `store_time`.
    """
    if not by:
        yield "", rows
        return
    keys = [_key(rows, name) for name in by]
    numbers = np.zeros(rows.num_rows, np.int64)  # of combinations, in the order of their values
    for codes, texts in keys:
        numbers = numbers * len(texts) + codes
    if rows.num_rows and int(numbers.max()) < 1 << 16:
        numbers = numbers.astype(np.uint16)  # sorted by counting, ten times as fast
    order = np.argsort(numbers, kind="stable")
    few, starts = np.unique(numbers[order], return_index=True)
    left = rows.drop_columns([name for name in by if name in rows.column_names])
    left = left.take(pa.array(order))
    for number, start, end in zip(few.tolist(), starts, [*starts[1:], order.size], strict=True):
        names, rest = [], number
        for name, (_, texts) in reversed(list(zip(by, keys, strict=True))):
            rest, code = divmod(rest, len(texts))
            names.append(f"{name}={directory_name(name, texts[code])}")
        yield "/".join(reversed(names)), left.slice(int(start), int(end - start))


def _key(rows: pa.Table, name: str) -> tuple[Int64s, list[object]]:
    """Give a number for each row's value of a partition column, and the values."""
    if name == DATE:
        times = rows["store_time"].cast(pa.int64())
        days = pc.fill_null(times, NO_DAY).to_numpy() // DAY_US
        few, codes = np.unique(days, return_inverse=True)
        is_none = few == NO_DAY // DAY_US
        dates = [iso_time(day * DAY_US // 1000).partition("T")[0] for day in few.tolist()]
        return codes.reshape(-1), [
            None if none else date for none, date in zip(is_none.tolist(), dates, strict=True)
        ]
    column = rows[name].combine_chunks()
    if pa.types.is_dictionary(column.type):
        texts = column.dictionary.to_pylist()
        numbers = pc.fill_null(column.indices, len(texts)).to_numpy().astype(np.int64)
        return numbers, [*texts, None]
    encoded = column.dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def directory_name(column: str, value: object) -> str:
    """Give the text that stands for a value in the name of a directory.

    One that is too long for a name is cut, and a digest tells it apart from others.
    """
    text = "" if value is None else str(value)
    name = (
        "".join(
            f"%{ord(character):02X}" if character in _ESCAPED else character for character in text
        )
        or NO_VALUE
    )
    room = _LONGEST_NAME - len(column.encode()) - 1
    raw = name.encode("utf-8", "replace")
    if len(raw) <= room:
        return raw.decode()
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGITS]
    return f"{raw[: room - _DIGITS - 1].decode('utf-8', 'ignore')}~{digest}"


def open_writer(file: IO[bytes], schema: pa.Schema, options: ExportOptions) -> FileWriter:
    """Give the writer of a file.

    Args:
        file: empty; stays open.
        schema: of the rows.
        options: the format, and how values are written.
    """
    if options.form is ExportFormat.PARQUET:
        return _Parquet(file, schema)
    if options.form is ExportFormat.JSONL:
        return _JsonLinesFile(file, schema)
    return _CsvFile(file, schema, options.cell)


class _Parquet:
    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        from pyarrow.parquet import ParquetWriter

        few = [name for name in schema.names if name in FEW_VALUES]
        limits = [name for name in schema.names if name in LIMITED]
        # Without Arrow's own copy of the schema: every reader sees the same types.
        self._writer = ParquetWriter(
            file,
            schema,
            compression="zstd",
            use_dictionary=few,
            write_statistics=limits,
            column_encoding=dict.fromkeys(
                GROWING.intersection(schema.names), "DELTA_BINARY_PACKED"
            ),
            store_schema=False,
        )

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    def close(self) -> None:
        self._writer.close()


class _JsonLinesFile:
    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file, self._names = file, schema.names

    def write(self, rows: pa.Table) -> None:
        for batch in rows.combine_chunks().to_batches():
            self._file.write(bytes(json_lines(batch, self._names).text))

    def close(self) -> None:
        pass  # each row is written already


class _CsvFile:
    def __init__(self, file: IO[bytes], schema: pa.Schema, cell: Callable[[object], str]) -> None:
        self._file = file
        self._names, self._cell = schema.names, cell
        self._put([schema.names])

    def write(self, rows: pa.Table) -> None:
        for batch in rows.to_batches():
            self._put([self._cell(row[name]) for name in self._names] for row in plain_rows(batch))

    def close(self) -> None:
        pass  # each row is written already

    def _put(self, rows: Iterable[Sequence[str]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        self._file.write(text.getvalue().encode())
