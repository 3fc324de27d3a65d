"""Cut the files of a log into parts of the work; a hole is one, however long it is."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from rmqtool.errors import UnreadablePath
from rmqtool.store.segment import SegmentPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.store.segment import Segment


def parts(segments: Iterable[Segment], size: int) -> list[SegmentPart]:
    """Split files into stretches of about `size` bytes, in order; an empty file gives none.

    A hole is one part, however long it is: nothing of it is read.
    """
    cut: list[SegmentPart] = []
    for segment in segments:
        cut.extend(
            SegmentPart(segment, begin, end)
            for begin, end in pairwise(_edges(segment, max(1, round(segment.size / size))))
            if end > begin
        )
    return cut


@contextmanager
def data_of(segment: Segment) -> Iterator[Callable[[int], int]]:
    """Give what says where a file has data from a position on; its end where only a hole follows.

    Of a file that is no hole for the most part, or cannot be opened, it says that all is data.
    """
    with ExitStack() as keep:
        file = None
        if segment.allocated < segment.size // 2:
            with suppress(UnreadablePath):
                file = keep.enter_context(segment.open())

        def data_from(position: int) -> int:
            if file is None:
                return position
            data_at = file.next_data(position)
            return segment.size if data_at is None else min(data_at, segment.size)

        yield data_from


def _edges(segment: Segment, count: int) -> list[int]:
    """Give the borders between so many parts of a file, but for those in a hole."""

    def edge(number: int) -> int:
        return segment.size * number // count

    edges = [0]
    with data_of(segment) as data_from:
        while (data := data_from(edges[-1])) < segment.size:
            number = data * count // segment.size
            number += int(edge(number + 1) <= data)
            edges += [edge(number), edge(number + 1)]
    return sorted({*edges, segment.size})
