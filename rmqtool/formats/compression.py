"""Compressed bodies: zlib, LZ4 frames, zstd frames; never more out than was allowed.

The ceiling holds while inflating, so that a small body cannot ask for gigabytes; nothing is
allocated by a size that the data names.
Source: ZlibCompressor, Lz4Compressor, ZstdCompressor, 4.9.4 to 5.5.0; UtilAll#uncompress before.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.formats import sys_flag

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_CEILING_BYTES: Final = 64 << 20  # brokers refuse bodies of more than 4 MiB by default
_STEP_BYTES: Final = 256 << 10
# zstd gives all that a piece of input holds at once, at worst 128 KiB for 4 bytes.
_ZSTD_INPUT_BYTES: Final = 128
# What zstd itself allows by default; a frame names its window, so this is the bound on memory.
_ZSTD_WINDOW_BYTES: Final = 1 << 27


class Decompressed(NamedTuple):
    """A body as the client gave it, or why there is not one."""

    body: bytes | None  # the bytes; None when they cannot be had
    reason: str = ""  # what stood in the way; empty with a body


def decompress(body: bytes, flags: int, ceiling: int = DEFAULT_CEILING_BYTES) -> Decompressed:
    """Give a record's body as the client gave it.

    Args:
        body: as stored.
        flags: the record's `sys_flag`; without the compression bit the body is given back.
        ceiling: most bytes to give.
    """
    kind = sys_flag.compression(flags)
    if kind == "none":
        return Decompressed(body)
    if kind == "unknown":
        number = flags & sys_flag.SysFlag.COMPRESSION_TYPE_COMPARATOR
        return Decompressed(None, f"unknown compression type {number:#x}")
    return _READERS[kind](body, ceiling)


def _zlib(body: bytes, ceiling: int) -> Decompressed:
    """Read one zlib stream; bytes after it are ignored, as Java's InflaterInputStream does."""
    reader = zlib.decompressobj()
    try:
        text = reader.decompress(body, ceiling + 1)
    except zlib.error as error:
        return Decompressed(None, f"zlib: {error}")
    if len(text) > ceiling:
        return above(ceiling)
    return Decompressed(text) if reader.eof else Decompressed(None, "zlib: ends too early")


def _lz4(body: bytes, ceiling: int) -> Decompressed:
    """Read LZ4 frames until the body ends."""
    from lz4.frame import LZ4FrameDecompressor

    text, left = bytearray(), body
    try:
        while left:
            reader = LZ4FrameDecompressor()
            piece = reader.decompress(left, max_length=_STEP_BYTES)
            while piece and len(text) <= ceiling:
                text += piece
                piece = b"" if reader.eof else reader.decompress(b"", max_length=_STEP_BYTES)
            if len(text) > ceiling:
                return above(ceiling)
            if not reader.eof:
                return Decompressed(None, "lz4: ends too early")
            left = reader.unused_data or b""
    except (RuntimeError, EOFError) as error:
        return Decompressed(None, f"lz4: {error}")
    return Decompressed(bytes(text))


def _zstd(body: bytes, ceiling: int) -> Decompressed:
    """Read zstd frames until the body ends."""
    from zstandard import ZstdDecompressor, ZstdError

    text, position = bytearray(), 0
    try:
        while position < len(body):
            reader = ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES).decompressobj()
            while position < len(body) and not reader.eof:
                text += reader.decompress(body[position : position + _ZSTD_INPUT_BYTES])
                position = min(position + _ZSTD_INPUT_BYTES, len(body))
                if len(text) > ceiling:
                    return above(ceiling)
            if not reader.eof:
                return Decompressed(None, "zstd: ends too early")
            position -= len(reader.unused_data)
    except ZstdError as error:
        return Decompressed(None, f"zstd: {error}")
    return Decompressed(bytes(text))


def above(ceiling: int) -> Decompressed:
    """Give what is said of a body of more bytes than were allowed."""
    return Decompressed(None, f"inflates to more than {ceiling:,} bytes")


_READERS: Final[dict[str, Callable[[bytes, int], Decompressed]]] = {
    "zlib": _zlib,
    "lz4": _lz4,
    "zstd": _zstd,
}
