"""Messages as a Parquet file: batches of rows, collected into row groups."""

from __future__ import annotations

import io
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from rmqtool.messages.sent import SENT
from rmqtool.times import ms_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import BinaryIO

    from typing_extensions import Buffer

GROUP_BYTES: Final = 32 << 20  # of a row group, before it is compressed


class ParquetMessages:
    """Writes messages to a Parquet file; what is in memory is one row group.

    Args:
        file: empty; stays open.
        columns: of the file, in their order.
    """

    def __init__(self, file: BinaryIO, columns: Sequence[str]) -> None:
        from pyarrow.parquet import ParquetWriter

        self._schema = pa.schema([SENT.arrow.field(name) for name in columns])
        few = [name for name in columns if SENT[name].has_few]
        # Without Arrow's own copy of the schema: every reader sees the same types.
        self._sink = _GrowingFile(file)
        self._writer = ParquetWriter(
            self._sink, self._schema, compression="zstd", use_dictionary=few, store_schema=False
        )
        self._rows: list[pa.RecordBatch] = []
        self._bytes = 0

    def put(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take rows; columns that are not wanted are left out."""
        for batch in batches:
            rows = batch.select(self._schema.names).cast(self._schema)
            self._rows.append(rows)
            self._bytes += rows.nbytes
            if self._bytes >= GROUP_BYTES:
                self._flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write what is left, and the end of the file; after an error nothing more."""
        if kind is not None:
            self._sink.is_ended = True  # the writer ends when it is forgotten, at the latest
            with suppress(Exception):
                self._writer.close()
            return
        self._flush()
        self._writer.close()

    @property
    def length(self) -> int:
        """Bytes that were written."""
        return self._sink.tell()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_batches(self._rows, self._schema))
        self._rows, self._bytes = [], 0


class _GrowingFile(io.RawIOBase):
    """A file that only grows, and knows how long it is."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file, self._length, self.is_ended = file, 0, False

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        length = memoryview(data).nbytes
        if not self.is_ended:
            self._file.write(data)
        self._length += length
        return length

    def tell(self) -> int:
        return self._length


def batch_of(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Give rows of JSON values as a batch; a damaged time that no calendar has is null."""
    arrays = []
    for field in SENT.arrow:
        values = [row.get(field.name) for row in rows]
        if pa.types.is_timestamp(field.type):
            values = [_microseconds(value) for value in values]
        elif pa.types.is_map(field.type):
            values = [None if value is None else [*value.items()] for value in values]
        arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SENT.arrow)


def _microseconds(text: str | None) -> int | None:
    try:
        return None if text is None else ms_of(datetime.fromisoformat(text)) * 1000
    except ValueError:
        return None
