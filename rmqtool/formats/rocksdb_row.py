"""Rows of the broker's RocksDB databases: what a key and its value say, field by field.

Keys hold names of any length, so they are read from left to right; fixed parts are Layouts. What
is in which database stands in `rocksdb_queue`, `rocksdb_store`, `rocksdb_config`, `rocksdb_pop`;
which family of which database has which rows, in `rocksdb_families`. RocksDB's own files are read
in `store`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

from rmqtool.errors import BadLength, DecodeError
from rmqtool.formats import java
from rmqtool.formats.annotate import Span, layout_spans

if TYPE_CHECKING:
    from rmqtool.formats.layout import Layout


class RocksdbRow(NamedTuple):
    """One row."""

    kind: str  # which of the kinds of rows of its family it is, such as `unit`
    values: dict[str, Any]  # what key and value say, by field; names are bytes as they are stored
    key_spans: tuple[Span, ...]  # what each byte of the key is; they tile it
    value_spans: tuple[Span, ...]  # the same of the value


class RowReader:
    """Takes a key, or a value, apart from left to right.

    Attributes:
        spans: of what was taken.
        values: of what was taken, by field.
    """

    def __init__(self, raw: bytes, what: str) -> None:
        """Begin. Raises BadLength: it is too long to be read."""
        self.spans: list[Span] = []
        self.values: dict[str, Any] = {}
        self._raw, self._what, self._position = raw, what, 0
        if isinstance(raw, LongValue):
            raise self._bad(what, raw.reason)

    @property
    def left(self) -> int:
        """Bytes that were not taken yet."""
        return len(self._raw) - self._position

    def take(self, layout: Layout) -> dict[str, Any]:
        """Take a fixed part. Raises Truncated: fewer bytes are left."""
        raw = self._raw[self._position : self._position + layout.size]
        values = layout.parse(raw, path=self._what, position=self._position)
        self.spans += layout_spans(layout, raw, self._position)
        self.values.update(values)
        self._position += layout.size
        return values

    def text(self, name: str, length: int) -> bytes:
        """Take a name or a text of known length.

        Raises:
            BadLength: the length is negative, or fewer bytes are left.
        """
        if not 0 <= length <= self.left:
            raise self._bad(name, f"length {length}, and {self.left:,} bytes are left")
        raw = self._raw[self._position : self._position + length]
        if length:
            self.spans.append(Span(name, self._position, length, java.text(raw)))
        self.values[name] = raw
        self._position += length
        return raw

    def mark(self, name: str, expected: bytes) -> None:
        """Take bytes that must be there: a separator or a fixed word.

        Raises:
            BadLength: others are there.
        """
        raw = self._raw[self._position : self._position + len(expected)]
        if raw != expected:
            raise self._bad(name, f"{raw.hex() or 'nothing'}, expected {expected.hex()}")
        self.spans.append(Span(name, self._position, len(raw), java.text(raw)))
        self._position += len(raw)

    def finish(self) -> None:
        """Make sure that nothing is left. Raises BadLength: there is."""
        if self.left:
            raise self._bad(self._what, f"{self.left:,} bytes more than it has fields")

    def _bad(self, name: str, reason: str) -> DecodeError:
        return BadLength(path=self._what, position=self._position, field=name, reason=reason)


def row(kind: str, key: RowReader, value: RowReader) -> RocksdbRow:
    """Put a key and a value together; nothing of either may be left.

    Raises:
        BadLength: bytes are left.
    """
    key.finish()
    value.finish()
    return RocksdbRow(kind, {**key.values, **value.values}, tuple(key.spans), tuple(value.spans))


# A value of a RocksDB row that is too long to be read; apart from `rocksdb_row`, to be light.


class LongValue(bytes):
    """What stands for a value that is longer than any of its family: none of its bytes was read."""

    reason: str  # what to say of it

    def __new__(cls, length: int, most: int) -> Self:
        """Make one.

        Args:
            length: bytes that the value has.
            most: bytes that one of its family may have.
        """
        made = super().__new__(cls)
        made.reason = f"this value is too long: {length:,} bytes; at most {most:,} are read"
        return made
