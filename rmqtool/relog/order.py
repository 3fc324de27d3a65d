"""One order over several sources, and messages that more than one of them has.

Each source keeps its own order: a clock that was set back moves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from rmqtool.machine.arrays import is_in
from rmqtool.relog import fields as at
from rmqtool.relog import kernels
from rmqtool.relog.chunk import Chunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    Int64s: TypeAlias = npt.NDArray[np.int64]
    Bools: TypeAlias = npt.NDArray[np.bool_]

_ODD: Final = np.int64(0x9E3779B97F4A7C15 - (1 << 64))  # spreads small numbers over all bits


class _Head:
    """A source with the chunk that is next, and how much of it has been taken."""

    def __init__(self, chunks: Iterator[Chunk], key: int) -> None:
        self._chunks, self._key = chunks, key
        self._last = np.iinfo(np.int64).min
        self.begin = 0
        self.chunk: Chunk | None = None
        self.keys: Int64s = np.empty(0, np.int64)
        self.load()

    def load(self) -> None:
        """Take the next chunk that has records; None at the end."""
        self.begin = 0
        self.chunk = next((chunk for chunk in self._chunks if chunk.count), None)
        if self.chunk is not None:
            keys = np.maximum.accumulate(self.chunk.fields[self._key])
            self.keys = np.maximum(keys, self._last)
            self._last = int(self.keys[-1])


def merged(sources: Sequence[Iterator[Chunk]], key: int) -> Iterator[Chunk]:
    """Yield the records of several sources in one order.

    Args:
        sources: chunks of each; topics have the same numbers in all.
        key: row of the fields that orders them; of equal ones an earlier source comes first.
    """
    heads = [head for head in (_Head(chunks, key) for chunks in sources) if head.chunk is not None]
    while heads:
        bound = min(int(head.keys[-1]) for head in heads)
        keys, fields, raws, size = [], [], [], 0
        for head in heads:
            chunk = head.chunk
            assert chunk is not None  # noqa: S101 - those without are left out below
            end = int(np.searchsorted(head.keys, bound, side="right"))
            if head.begin < end:
                some = chunk.fields[:, head.begin : end].copy()
                some[at.START] += size
                keys.append(head.keys[head.begin : end])
                fields.append(some)
                raws.append(chunk.raw)
                size += chunk.raw.size
                head.begin = end
            if head.begin == chunk.count:
                head.load()
        heads = [head for head in heads if head.chunk is not None]
        order = np.argsort(np.concatenate(keys), kind="stable")
        together = np.concatenate(fields, axis=1)[:, order]
        yield gathered(together, np.concatenate(raws))


def gathered(fields: Int64s, raw: npt.NDArray[np.uint8]) -> Chunk:
    """Give a chunk whose bytes lie in the order of its records."""
    sizes = fields[at.SIZE]
    starts = np.cumsum(sizes) - sizes
    out = np.empty(int(sizes.sum()), np.uint8)
    moves = np.ascontiguousarray(np.stack([fields[at.START], sizes, starts]))
    kernels.gather(raw, moves, out)
    fields = np.ascontiguousarray(fields)
    fields[at.START] = starts
    return Chunk(fields, out)


def repeated(keys: Sequence[Int64s]) -> list[Bools]:
    """Mark the records that an earlier source has, too.

    A source may have a message several times, as when it was retried: the n-th one of a key is a
    repetition where an earlier source has n of them.

    Args:
        keys: int64, shape (n,), of each source, in its order.
    """
    seen: Int64s = np.empty(0, np.int64)
    is_repeated = []
    for source in keys:
        counted = _counted(source)
        is_repeated.append(is_in(counted, seen))
        seen = np.sort(np.concatenate([seen, counted]))
    return is_repeated


def _counted(keys: Int64s) -> Int64s:
    """Mix into each key how many equal ones come before it; most come once."""
    in_order = np.sort(keys)
    often = in_order[1:][in_order[1:] == in_order[:-1]]
    if not often.size:
        return keys
    numbers = np.flatnonzero(is_in(keys, often))
    some = keys[numbers]
    order = np.argsort(some, kind="stable")
    in_order = some[order]
    is_first = np.ones(some.size, np.bool_)
    is_first[1:] = in_order[1:] != in_order[:-1]
    places = np.arange(some.size)
    before = np.empty(some.size, np.int64)
    before[order] = places - np.maximum.accumulate(np.where(is_first, places, 0))
    mixed = keys.copy()
    mixed[numbers] = some ^ (before * _ODD)
    return mixed


def concatenated(keys: Iterable[Int64s]) -> Int64s:
    """Join the keys of chunks."""
    return np.concatenate([np.empty(0, np.int64), *keys])
