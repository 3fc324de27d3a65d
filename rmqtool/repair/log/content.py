"""New bytes of an edit: mostly zeros, with some pieces that are not."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ZERO_RUN: Final = re.compile(rb"\0{64,}")
_CHUNK: Final = 1 << 20
_COMPRESSED: Final = 1 << 10  # longer pieces are compressed in a plan's file


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes that an edit brings.

    Attributes:
        size: bytes.
        pieces: (position, bytes), in order, apart; all else is zero.
    """

    size: int
    pieces: tuple[tuple[int, bytes], ...] = ()

    @classmethod
    def of(cls, raw: bytes) -> Content:
        """Take bytes; long runs of zeros in them take no space."""
        pieces, position = [], 0
        for run in _ZERO_RUN.finditer(raw):
            if run.start() > position:
                pieces.append((position, raw[position : run.start()]))
            position = run.end()
        if position < len(raw):
            pieces.append((position, raw[position:]))
        return cls(len(raw), tuple(pieces))

    @classmethod
    def joined(cls, parts: Sequence[Content]) -> Content:
        """Put contents one behind the other."""
        pieces: list[tuple[int, bytes]] = []
        size = 0
        for part in parts:
            pieces += [(size + position, raw) for position, raw in part.pieces]
            size += part.size
        return cls(size, tuple(pieces))

    def raw(self) -> bytes:
        """Give all bytes at once."""
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """Give all bytes, some at a time."""
        position = 0
        for start, raw in self.pieces:
            yield from _zeros(start - position)
            yield raw
            position = start + len(raw)
        yield from _zeros(self.size - position)

    @property
    def sha256(self) -> str:
        """Digest of all bytes."""
        digest = hashlib.sha256()
        for chunk in self.chunks():
            digest.update(chunk)
        return digest.hexdigest()

    def as_json(self) -> dict[str, Any]:
        """Give the form that a plan's file has."""
        return {"size": self.size, "pieces": [_piece(*piece) for piece in self.pieces]}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Content:
        """Read that form.

        Raises:
            LookupError, TypeError, ValueError: it is no such form.
        """
        pieces = [_read_piece(piece) for piece in document["pieces"]]
        content = cls(int(document["size"]), tuple(pieces))
        end = 0
        for position, raw in pieces:
            if position < end:
                raise ValueError(position)
            end = position + len(raw)
        if end > content.size:
            raise ValueError(end)
        return content


def _piece(position: int, raw: bytes) -> dict[str, Any]:
    is_long = len(raw) > _COMPRESSED
    data = base64.b64encode(zlib.compress(raw, 1) if is_long else raw).decode()
    return {"position": position, "length": len(raw), "zlib_b64" if is_long else "b64": data}


def _read_piece(document: dict[str, Any]) -> tuple[int, bytes]:
    length = int(document["length"])
    if "b64" in document:
        raw = base64.b64decode(document["b64"], validate=True)
    else:
        inflater = zlib.decompressobj()
        packed = base64.b64decode(document["zlib_b64"], validate=True)
        try:
            raw = inflater.decompress(packed, max(length, 1))
        except zlib.error as error:
            raise ValueError(length) from error
    if len(raw) != length:
        raise ValueError(length)
    return int(document["position"]), raw


def _zeros(count: int) -> Iterator[bytes]:
    while count > 0:
        yield bytes(min(count, _CHUNK))
        count -= _CHUNK
