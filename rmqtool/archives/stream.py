"""An open place as the standard library wants a file: for gzip and zstd."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from rmqtool.store.place import OpenFile


class Stream(io.RawIOBase):
    """A file that is read at positions, and no more than so many bytes at once.

    Args:
        source: stays open; its owner closes it.
        most: bytes of one read; numbers in an archive are a stranger's.
        skips_hole: whether a hole that goes on to the end is no part of it, as gzip has it with
            zeros: a terabyte of them costs nothing to make.
    """

    def __init__(self, source: OpenFile, most: int, *, skips_hole: bool = False) -> None:
        super().__init__()
        self._source, self._most, self._skips_hole = source, most, skips_hole
        self._position = 0

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def seekable(self) -> bool:
        """Say that positions count."""
        return True

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position. Raises ValueError: it is before the beginning."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._source.size}[whence]
        if base + position < 0:
            message = "a position before the beginning"
            raise ValueError(message)
        self._position = base + position
        return self._position

    def tell(self) -> int:
        """Give the position."""
        return self._position

    def read(self, count: int = -1) -> bytes:
        """Read so many bytes; fewer at the end. Raises ValueError: it is too much at once."""
        if count < 0:
            count = max(self._source.size - self._position, 0)
        if count > self._most:
            message = f"{count:,} bytes at once"
            raise ValueError(message)
        data = self._source.read_at(self._position, count)
        if self._is_last_hole(data):
            return b""
        self._position += len(data)
        return data

    def readinto(self, buffer: Buffer) -> int:
        """Fill a buffer; return the bytes read."""
        count = self._source.read_into(buffer, self._position)
        if self._is_last_hole(memoryview(buffer)[:count]):
            return 0
        self._position += count
        return count

    def _is_last_hole(self, data: bytes | memoryview) -> bool:
        """Tell whether what was read here, and all that follows, is a hole."""
        if not self._skips_hole or any(data[:1]) or bytes(data).count(0) != len(data):
            return False
        return self._source.next_data(self._position) is None
