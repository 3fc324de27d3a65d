"""The files of an export: Parquet, CSV or JSON lines, split by the values of some columns.

Directories are named as Hive does, `topic=orders/date=2026-11-21`, and hold what is in neither:
partition columns are left out of the files. Whatever a store says, a name is one name: characters
that mean something to a file system or a reader are `%` and two hexadecimal digits.
"""

from __future__ import annotations

import csv
import hashlib
import io
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqtool.spark.export_options import DATE, ExportFormat
from rmqtool.spark.tables import TABLES
from rmqtool.tables.arrow import plain_rows
from rmqtool.tables.fleet import FLEET
from rmqtool.tables.json_lines import json_lines
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import IO

    import numpy.typing as npt

    from rmqtool.spark.export_options import ExportOptions

    Int64s: TypeAlias = npt.NDArray[np.int64]

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
    name = "".join(f"%{ord(one):02X}" if one in _ESCAPED else one for one in text) or NO_VALUE
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
