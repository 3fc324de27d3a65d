"""Find units of expired messages that damage has changed, and give others in their place.

No record tells what they were. But units point forward through the log, and a unit that does not
keeps brokers from finding what lies after it: recovery ends at one without a size, searches by
time go astray. So one that points between its neighbours takes the place.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats.consume_queue import CQ_UNIT, PRE_BLANK
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.queues.kinds import UnitKind, are_recovered, kinds_of

if TYPE_CHECKING:
    import numpy.typing as npt


class ExpiredOrder:
    """Goes over the units of one queue, chunk by chunk.

    Args:
        log_start: physical offset of the log's first byte.
        is_over: whether nothing follows the expired units. Then no pre-blank is given unless one
            of them follows: a broker that finds it at the end of a queue believes that all messages
            up to 2 GiB are dispatched, and skips new ones.
    """

    def __init__(self, log_start: int = 0, *, is_over: bool = False) -> None:
        self._last = log_start - 1
        self._before = -1  # physical offset of the last unit that may be right, or was put right
        self._is_over = is_over

    def wild(
        self,
        units: npt.NDArray[np.void],
        bound: int,
        foreign: npt.NDArray[np.bool_] | None = None,
        blank_end: int | None = None,
    ) -> dict[int, bytes]:
        """Give the rows that cannot be right, each with the unit to put there.

        Args:
            units: the next ones, shape (n,).
            bound: largest physical offset that they may have; their messages end after it at most.
            foreign: rows that cannot be right, as other queues have their records, shape (n,) or
                longer.
            blank_end: row from which on no pre-blank may stand, as the queue's first file ends
                there; None for none.
        """
        offsets, sizes = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
        rows = kinds_of(units) != UnitKind.PRE_BLANK
        numbers = np.flatnonzero(rows)
        possible = are_recovered(units) & (offsets <= bound + 1 - sizes)
        if foreign is not None:
            possible &= ~foreign[: len(units)]
        seen = offsets[numbers]
        if possible[numbers].all() and (np.diff(seen, prepend=self._before) >= 0).all():
            self._before = int(seen[-1]) if seen.size else self._before
            return {}
        end = len(units) if blank_end is None else blank_end
        return dict(self._one_by_one(numbers.tolist(), offsets.tolist(), possible, end))

    def _one_by_one(
        self,
        numbers: list[int],
        offsets: list[int],
        possible: npt.NDArray[np.bool_],
        blank_end: int,
    ) -> list[tuple[int, bytes]]:
        found = []
        candidates = [number for number in numbers if possible[number]]
        following = dict(zip(candidates, pairwise(candidates[1:]), strict=False))
        for number in numbers:
            offset, at = offsets[number], bisect_right(candidates, number)
            then = [offsets[one] for one in following.get(number, ())]
            is_too_late = bool(then) and self._before <= min(then) and max(then) < offset
            if possible[number] and offset >= self._before and not is_too_late:
                self._before = offset
            elif (
                self._before < 0
                and number < blank_end
                and (at < len(candidates) or not self._is_over)
            ):
                found.append((number, PRE_BLANK))
            else:
                behind = candidates[at : at + 1]
                limits = [offsets[one] for one in behind if offsets[one] >= self._before]
                if self._before < self._last:
                    limits.append(self._last)
                # Not 0: brokers take that for the begin of the oldest file, and hand it out.
                self._before = min([max(self._before, 0) + 1, *limits])
                found.append((number, CQ_UNIT.packer.pack(self._before, SMALLEST_RECORD, 0)))
        return found
