"""New bytes of an edit: mostly zeros, with some pieces that are not.

A piece is bytes, or a stretch of a file of another store (`repair --from`): that one is read only
when it is needed, some at a time, so that a plan does not hold segments.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rmqtool.store.names import relative_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.store.place import Place

_ZERO_RUN: Final = re.compile(rb"\0{64,}")
_CHUNK: Final = 1 << 20
_COMPRESSED: Final = 1 << 10  # longer pieces are compressed in a plan's file


@dataclass(frozen=True, slots=True)
class LentBytes:
    """A stretch of a file of another store; it is read when it is needed."""

    root: Place  # of the other store
    path: str  # of the file, relative to that root
    position: int  # first byte in the file
    length: int  # bytes

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, part: slice) -> LentBytes:
        begin, end, _ = part.indices(self.length)
        return LentBytes(self.root, self.path, self.position + begin, max(end - begin, 0))

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes, some at a time; zeros where the file has none any more.

        Raises:
            UnreadablePath: the file cannot be read.
        """
        first, *rest = self.path.split("/")
        place = self.root.child(first).resolved()  # as a broker is led elsewhere
        for name in rest:
            place = place.child(name)
        with place.open() as file:
            for begin in range(0, self.length, _CHUNK):
                length = min(_CHUNK, self.length - begin)
                yield file.read_at(self.position + begin, length).ljust(length, b"\0")

    def as_json(self, position: int) -> dict[str, Any]:
        """Give the form that a plan's file has; the other store is named on the command line."""
        at = {"from": self.path, "from_position": self.position}
        return {"position": position, "length": self.length} | at


Piece = bytes | LentBytes


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes that an edit brings."""

    size: int  # bytes
    # (position, bytes), in order, apart; all else is zero
    pieces: tuple[tuple[int, Piece], ...] = ()

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
        """Put contents one after the other."""
        pieces: list[tuple[int, Piece]] = []
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
        for start, raw in self.written():
            yield from _zeros(start - position)
            yield raw
            position = start + len(raw)
        yield from _zeros(self.size - position)

    def written(self) -> Iterator[tuple[int, bytes]]:
        """Yield (position, bytes) of what is not zero, in order; what is lent is read now."""
        for start, raw in self.pieces:
            position = start
            for chunk in raw.chunks() if isinstance(raw, LentBytes) else (raw,):
                yield position, chunk
                position += len(chunk)

    @property
    def is_lent(self) -> bool:
        """Whether some of it lies in another store."""
        return any(isinstance(raw, LentBytes) for _, raw in self.pieces)

    def part(self, begin: int, end: int) -> Content:
        """Give the bytes [begin, end)."""
        pieces = [
            (max(at - begin, 0), raw[max(begin - at, 0) : end - at])
            for at, raw in self.pieces
            if at < end and begin < at + len(raw)
        ]
        return Content(max(end - begin, 0), tuple(pieces))

    def overlaid(self, position: int, other: Content) -> Content:
        """Give the same with other bytes from a position on."""
        before, after = self.part(0, position), self.part(position + other.size, self.size)
        return Content.joined([before, other, after])

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
    def from_json(cls, document: dict[str, Any], replica: Place | None = None) -> Content:
        """Read that form.

        Args:
            document: of a plan's file.
            replica: the store that lends; None where none is named.

        Raises:
            LookupError, TypeError, ValueError: it is no such form.
            RepairError: a path could lead out of the store that lends.
        """
        pieces = [_read_piece(piece, replica) for piece in document["pieces"]]
        content = cls(int(document["size"]), tuple(pieces))
        end = 0
        for position, raw in pieces:
            if position < end:
                raise ValueError(position)
            end = position + len(raw)
        if end > content.size:
            raise ValueError(end)
        return content


def _piece(position: int, raw: Piece) -> dict[str, Any]:
    if isinstance(raw, LentBytes):
        return raw.as_json(position)
    is_long = len(raw) > _COMPRESSED
    data = base64.b64encode(zlib.compress(raw, 1) if is_long else raw).decode()
    return {"position": position, "length": len(raw), "zlib_b64" if is_long else "b64": data}


def _read_piece(document: dict[str, Any], replica: Place | None) -> tuple[int, Piece]:
    length = int(document["length"])
    if "from" in document:
        if replica is None or length < 0 or document["from_position"] < 0:
            raise ValueError(length)
        path = relative_path(tuple(str(document["from"]).split("/")))
        lent = LentBytes(replica, path, int(document["from_position"]), length)
        return int(document["position"]), lent
    raw: bytes
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
