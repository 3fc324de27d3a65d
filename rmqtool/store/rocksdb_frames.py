"""What passes between rmqtool and the process that runs RocksDB: messages, and rows, in frames.

The process reads what a stranger wrote, and may be made to say anything. So whoever reads a frame
takes a bounded number of bytes for it, and checks that its lengths add up.
"""

from __future__ import annotations

import json
from array import array
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NoReturn

from rmqtool.formats.rocksdb_row import LongValue
from rmqtool.plural import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    from typing_extensions import Buffer

    Read = Callable[[int], bytes]  # gives that many bytes

HEAD: Final = Struct("<IQQ")  # rows, bytes of keys, bytes of values; no rows: a message
ITEM: Final = "I"  # lengths in a frame: unsigned, 4 bytes, little-endian on all platforms we read
LONG: Final = 1 << 31  # of the length of a value: its eight bytes say how long it is
LENGTH: Final = Struct("<Q")
ROWS: Final = 8192  # of a frame, at most
BYTES: Final = 4 << 20  # of a frame that is full
LARGEST_KEY: Final = 1 << 16
LARGEST_FRAME: Final = 8 << 20  # more than one that was not full and then got the largest row
LARGEST_MESSAGE: Final = 16 << 20


class BadFrame(ValueError):
    """A frame that nobody of ours writes; its text says why."""


class RowBatch:
    """Some rows of a family, in the order of their keys."""

    __slots__ = ("joined_keys", "joined_values", "key_lengths", "long_values", "value_lengths")

    def __init__(
        self,
        joined: tuple[bytes, bytes],
        lengths: tuple[Sequence[int], Sequence[int]],
        long_values: dict[int, LongValue],
    ) -> None:
        self.joined_keys, self.joined_values = joined  # one after another; nothing of long values
        self.key_lengths, self.value_lengths = lengths  # bytes of each
        self.long_values = long_values  # those that are too long, by the number of the row

    def __len__(self) -> int:
        return len(self.key_lengths)

    @property
    def keys(self) -> list[bytes]:
        """Key of each row."""
        return _cut(self.joined_keys, self.key_lengths)

    @property
    def values(self) -> list[bytes]:
        """Value of each row."""
        values = _cut(self.joined_values, self.value_lengths)
        for number, value in self.long_values.items():
            values[number] = value
        return values

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield key and value of each row."""
        return zip(self.keys, self.values, strict=True)


def send(out: BinaryIO, content: dict[str, Any]) -> None:
    """Write a message, and all that waits before it."""
    out.write(message(content))
    out.flush()


def message(content: dict[str, Any]) -> bytes:
    """Give the frame of a message."""
    raw = json.dumps(content).encode()
    return HEAD.pack(0, len(raw), 0) + raw


def rows(
    keys: Sequence[bytes], values: Sequence[bytes], long_values: dict[int, int]
) -> list[Buffer]:
    """Give the parts of a frame of rows.

    Args:
        keys: of the rows.
        values: of the rows; nothing of one that is too long.
        long_values: by the number of the row, how long a value is that is too long.
    """
    lengths = array(ITEM, map(len, values))
    if long_values:
        values = [*values]
    for number, length in long_values.items():
        lengths[number] = LONG | LENGTH.size
        values[number] = LENGTH.pack(length)  # type: ignore[index] # a list by now
    joined_keys, joined_values = b"".join(keys), b"".join(values)
    head = HEAD.pack(len(keys), len(joined_keys), len(joined_values))
    return [head, array(ITEM, map(len, keys)), lengths, joined_keys, joined_values]


def alike(count: int, keys: Buffer, values: Buffer) -> list[Buffer]:
    """Give the parts of a frame of rows whose keys have one length, and whose values have one.

    Args:
        count: how many rows.
        keys: their bytes, one after another.
        values: likewise.
    """
    sizes = [memoryview(keys).nbytes, memoryview(values).nbytes]
    lengths = [array(ITEM, [size // count]) * count for size in sizes]
    return [HEAD.pack(count, *sizes), *lengths, keys, values]


def read_frame(read: Read, longest: int = LONG) -> RowBatch | dict[str, Any]:
    """Read a message, or rows.

    Args:
        read: gives so many bytes, or raises.
        longest: bytes that a value may have, for what is said of one that is too long.

    Raises:
        BadFrame: it is neither.
    """
    count, key_bytes, value_bytes = HEAD.unpack(read(HEAD.size))
    if not count:
        if key_bytes > LARGEST_MESSAGE:
            _refuse(f"a message of {key_bytes:,} bytes")
        return _message_of(read(key_bytes))
    if count > ROWS or key_bytes + value_bytes > LARGEST_FRAME:
        _refuse(f"{counted(count, 'row')} of {key_bytes + value_bytes:,} bytes")
    lengths = memoryview(read(2 * count * 4)).cast(ITEM).tolist()
    of_keys, of_values = lengths[:count], lengths[count:]
    joined_keys, joined_values = read(key_bytes), read(value_bytes)
    long_values: dict[int, LongValue] = {}
    if sum(of_values) != value_bytes:
        joined_values, long_values = _without_long(joined_values, of_values, longest)
    if sum(of_keys) != key_bytes or sum(of_values) != len(joined_values):
        _refuse("lengths that do not add up")
    return RowBatch((joined_keys, joined_values), (of_keys, of_values), long_values)


def _message_of(raw: bytes) -> dict[str, Any]:
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        _refuse("a message that is not a JSON object")
    return content


def _without_long(
    joined: bytes, lengths: list[int], longest: int
) -> tuple[bytes, dict[int, LongValue]]:
    """Take out the values that are too long; their lengths become 0."""
    parts, long_values, position = [], {}, 0
    for number, length in enumerate(lengths):
        part = joined[position : position + (length & ~LONG)]
        position += len(part)
        if length & LONG:
            if len(part) != LENGTH.size:
                _refuse("a value whose length is not told")
            long_values[number] = LongValue(LENGTH.unpack(part)[0], longest)
            lengths[number] = 0
        else:
            parts.append(part)
    if position != len(joined):
        _refuse("lengths that do not add up")
    return b"".join(parts), long_values


def _refuse(what: str) -> NoReturn:
    raise BadFrame(what)


def _cut(joined: bytes, lengths: Sequence[int]) -> list[bytes]:
    parts, position = [], 0
    for length in lengths:
        parts.append(joined[position : position + length])
        position += length
    return parts
