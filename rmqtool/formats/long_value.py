"""A value of a RocksDB row that is too long to be read; apart from `rocksdb_row`, to be light."""

from __future__ import annotations

from typing import Self


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
