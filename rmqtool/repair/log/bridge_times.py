"""Store times of bridges: each is that of a record beside it, found without reading all again."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from rmqtool.repair.survey import last_sound

if TYPE_CHECKING:
    from rmqtool.repair.log.stretches import Stretches
    from rmqtool.store.record_heads import LogReader
    from rmqtool.store.segment import MappedFiles, Segment


class BridgeTimes:
    """Finds the store time of a bridge; a log may be full of bridges, and of records without time.

    Args:
        log: reads the log as it is.
        files: of the log.
        damaged: the stretches of it that hold no sound record.
    """

    def __init__(self, log: LogReader, files: MappedFiles, damaged: Stretches) -> None:
        self._log, self._files, self._damaged = log, files, damaged
        self._known = (-1, 0)  # an offset, and the time of the last sound record before it

    def around(self, segment: Segment, position: int, end: int) -> int:
        """Give the time of the record before a bridge, else of the one after it, in ms.

        Args:
            segment: of the bridge.
            position: of the bridge in it; bridges are best asked for in order.
            end: physical offset of the end of the bridge.
        """
        return self._before(segment, position) or self._after(end) or segment.mtime_ms

    def _before(self, segment: Segment, position: int) -> int:
        """Give the time of the last sound record, as far as files follow each other; 0: none."""
        asked = segment.start + position
        known, known_time = self._known if self._known[0] <= asked else (-1, 0)
        time_ms, before = 0, segment
        while True:
            lowest = max(known - before.start, 0)
            head = last_sound(self._log, before, position, self._damaged, lowest)
            if head is not None:
                time_ms = head.store_timestamp
                break
            if before.start <= known:
                time_ms = known_time
                break
            file = self._files.at(before.start - 1) if before.start > self._files.start else None
            if file is None:
                break
            before, position = file, file.size
        self._known = asked, time_ms
        return time_ms

    def _after(self, end: int) -> int:
        """Give the time of the first record at or after an offset that has one; 0: none."""
        segments, length = self._files.segments, self._files.file_length
        number = bisect_right(segments, end - length, key=lambda one: one.start)
        if number == len(segments):
            return 0
        first = segments[number]
        found = self._log.first_from(first, max(end - first.start, 0))
        if found is not None and found.store_timestamp > 0:
            return found.store_timestamp
        return self._from_file_on[number + 1]

    @cached_property
    def _from_file_on(self) -> list[int]:
        """Give, for each file and for none, the first time that begins it or a later one; 0: none.

        Read once, from the last file on.
        """
        times = [0]
        for segment in reversed(self._files.segments):
            found = self._log.first_from(segment)
            has_time = found is not None and found.store_timestamp > 0
            times.append(found.store_timestamp if found is not None and has_time else times[-1])
        return times[::-1]
