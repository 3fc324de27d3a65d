"""Put the parts of segments together: where one part ends, the next must begin.

A part in the middle of a segment begins at the first record that says of itself that it lies
there. That is nearly always where the part before ended; when it is not (damage lies across the
border, or a body holds a copy of a record that happens to lie where it says), the part is read
again from where the part before ended. So parts give exactly what one scan of the segment gives.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol, TypeVar

from rmqtool.engine import run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.store.segment import SegmentPart


class Joinable(Protocol):
    """What a per-part function gives back.

    Attributes:
        first: position at which the first extent of the part begins; None when it found none.
        end: position after the last extent, in this part or after it.
    """

    @property
    def first(self) -> int | None: ...  # noqa: D102

    @property
    def end(self) -> int: ...  # noqa: D102


Result = TypeVar("Result", bound=Joinable)
Result_co = TypeVar("Result_co", bound=Joinable, covariant=True)


class PerPart(Protocol[Result_co]):
    """A per-part function: picklable, opens and closes its own files."""

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> Result_co:
        """Work on a part; on [start, part.end) when `start` is given, where an extent begins."""
        ...


def run_joined(
    function: PerPart[Result], parts: Iterable[SegmentPart], *, jobs: int | None = None
) -> Iterator[tuple[SegmentPart, Result]]:
    """Run a function over parts and yield results that tile the segments, in order.

    A part that an extent of an earlier part covers altogether (a tail of zeros, a long gap) gives
    no result.

    Args:
        function: what to do with a part.
        parts: parts of one or more segments, in order, without holes inside a segment.
        jobs: threads; None is one for each processor.
    """
    # Parts are given back as they came, not as they return from another machine: segments are told
    # apart by their identity, too.
    given: deque[SegmentPart] = deque()

    def noted() -> Iterator[SegmentPart]:
        for part in parts:
            given.append(part)
            yield part

    results = run(function, noted(), jobs=jobs)
    return join(((given.popleft(), result) for result in results), function)


def join(
    results: Iterable[tuple[SegmentPart, Result]], again: PerPart[Result]
) -> Iterator[tuple[SegmentPart, Result]]:
    """Yield results that tile the segments, working again on those that do not begin right.

    Args:
        results: each part with what was found in it, in order.
        again: the per-part function, called with the right start where need be.
    """
    before: SegmentPart | None = None
    cursor = 0
    for part, scanned in results:
        result = scanned
        if before is None or before.segment != part.segment:
            cursor = part.begin if result.first is None else result.first
        elif cursor >= part.end:
            continue
        elif result.first != cursor:
            result = again(part, start=cursor)
        before, cursor = part, result.end
        yield part, result
