"""Compare two commitlogs byte by byte, by physical offset, whatever their files are called.

Equal bytes are compared in large chunks and never looked at record by record.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.engine import run
from rmqtool.errors import UnreadablePath

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.store.place import OpenFile
    from rmqtool.store.record_heads import LogReader
    from rmqtool.store.segment import Segment


CHUNK: Final = 256 << 10  # bytes that are compared at once: two of them stay in the cache
PIECE: Final = 64 << 20  # bytes that one task compares


class Relation(enum.StrEnum):
    """What a stretch of physical offsets is to both logs."""

    SAME = "same"
    DIFFERENT = "different"
    ONLY_A = "only-A"  # no file of B holds it
    ONLY_B = "only-B"
    UNREAD_A = "unread-A"  # the file of A cannot be read
    UNREAD_B = "unread-B"


class LogStretch(NamedTuple):
    """A stretch of both logs, physical offsets, half open."""

    begin: int
    end: int
    relation: Relation


@dataclass(frozen=True, slots=True)
class LogPair:
    """What one task compares: physical offsets [begin, end) of one file of each log. Picklable."""

    begin: int  # first byte
    end: int  # past the last byte
    a: Segment | None  # the file of A; None where no file holds the bytes
    b: Segment | None  # likewise


class Compared(NamedTuple):
    """What one task found."""

    stretches: list[LogStretch]  # they tile the piece
    # what could not be read of A and of B
    unread: tuple[UnreadablePath | None, UnreadablePath | None] = (None, None)


def compare_logs(
    a: LogReader, b: LogReader, begin: int, ends: tuple[int, int], jobs: int | None = None
) -> Iterator[Compared]:
    """Compare two logs up to the end of the longer one; neighbours may have the same relation.

    What a file holds past the end of its log counts as nothing: a running broker writes there.

    Args:
        a: a log; only its list of files is used.
        b: likewise.
        begin: first physical offset.
        ends: past the last one of A and of B.
        jobs: threads; None is one for each processor.
    """
    yield from run(compare_piece, _pieces(a, b, begin, ends), jobs=jobs)


def _pieces(a: LogReader, b: LogReader, begin: int, ends: tuple[int, int]) -> Iterator[LogPair]:
    end = max(ends)
    edges = {begin, *(end for end in ends if begin < end)}
    for reader in (a, b):
        for segment in (segment for log in reader.logs for segment in log):
            edges |= {edge for edge in (segment.start, segment.end) if begin < edge < end}
    for low, high in pairwise(sorted(edges)):
        files = (
            a.segment_at(low) if low < ends[0] else None,
            b.segment_at(low) if low < ends[1] else None,
        )
        if None in files:
            yield LogPair(low, high, *files)
            continue
        for start in range(low, high, PIECE):
            yield LogPair(start, min(start + PIECE, high), *files)


def compare_piece(piece: LogPair) -> Compared:
    """Compare a piece of two logs."""
    begin, end = piece.begin, piece.end
    if piece.a is None or piece.b is None:
        if piece.a is piece.b:
            return Compared([])
        only = Relation.ONLY_A if piece.b is None else Relation.ONLY_B
        return Compared([LogStretch(begin, end, only)])
    try:
        with piece.a.open() as a:
            try:
                with piece.b.open() as b:
                    return _compare(piece, piece.a, piece.b, (a, b))
            except UnreadablePath as error:
                return Compared([LogStretch(begin, end, Relation.UNREAD_B)], (None, error))
    except UnreadablePath as error:
        return Compared([LogStretch(begin, end, Relation.UNREAD_A)], (error, None))


def _compare(piece: LogPair, a: Segment, b: Segment, files: tuple[OpenFile, OpenFile]) -> Compared:
    """Compare chunk by chunk; a chunk that one disk refuses does not hide the others."""
    stretches: list[LogStretch] = []
    unread: list[UnreadablePath | None] = [None, None]
    buffers = bytearray(CHUNK), bytearray(CHUNK)
    for start in range(piece.begin, piece.end, CHUNK):
        length = min(CHUNK, piece.end - start)
        if length < CHUNK:
            buffers = bytearray(length), bytearray(length)
        relation = Relation.SAME
        for number, (segment, file) in enumerate(zip((a, b), files, strict=True)):
            try:
                count = file.read_into(buffers[number], start - segment.start)
            except UnreadablePath as error:
                unread[number] = error
                relation = (Relation.UNREAD_A, Relation.UNREAD_B)[number]
                continue
            if count < length:  # the file was cut meanwhile
                buffers[number][count:] = bytes(length - count)
        if relation is Relation.SAME and buffers[0] != buffers[1]:
            relation = Relation.DIFFERENT
        stretches.append(LogStretch(start, start + length, relation))
    return Compared(list(joined(stretches)), (unread[0], unread[1]))


def joined(stretches: Iterable[LogStretch]) -> Iterator[LogStretch]:
    """Join neighbours of one relation."""
    last: LogStretch | None = None
    for stretch in stretches:
        if last and last.end == stretch.begin and last.relation is stretch.relation:
            last = last._replace(end=stretch.end)
            continue
        if last:
            yield last
        last = stretch
    if last:
        yield last
