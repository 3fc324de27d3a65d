"""Stage 6: what consumers would not get any more, and why.

Each whole message of the log is asked: would its bytes stay, and would a queue point to it, now and
then?
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.formats.consume_queue import PRE_BLANK_SIZE
from rmqtool.startup.prediction import Loss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from rmqtool.startup.census import Census, SegmentCensus
    from rmqtool.startup.model import Model

    Mask = NDArray[np.bool_]


@dataclass(slots=True)
class Tally:
    """Adds up one kind of loss."""

    topics: Counter[int] = field(default_factory=Counter)
    first: int | None = None
    last: int | None = None

    def add(self, segment: SegmentCensus, mask: Mask) -> None:
        """Add the messages of a segment that a mask chooses."""
        if not mask.any():
            return
        for topic in np.unique(segment.topics[mask]):
            self.topics[int(topic)] += int(segment.messages[mask & (segment.topics == topic)].sum())
        times = segment.store_timestamps[mask]
        first, last = int(times.min()), int(times.max())
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)

    def loss(self, names: list[str]) -> Loss:
        """Give the sum."""
        topics = {names[number]: count for number, count in self.topics.most_common()}
        return Loss(topics, self.first, self.last)


@dataclass(frozen=True, slots=True)
class Losses:
    """The four kinds of loss; see `Prediction`."""

    lost: Loss
    cut: Loss
    unlisted: Loss
    deleted_topics: Loss


@dataclass(slots=True)
class LossCount:
    """Counts losses.

    Attributes:
        model: the store as the broker would hold it.
        units_now: physical offsets that queues point to now, int64, sorted.
        is_known: tells whether a topic is configured or has a queue.
    """

    model: Model
    units_now: NDArray[np.int64]
    is_known: Callable[[str], bool]

    def count(self, census: Census, files: Iterable[Any]) -> Losses:
        """Ask each message.

        Args:
            census: names its topics while it counts.
            files: the files of the log as it lies there now.

        Raises:
            UnreadablePath: a file may not be read.
        """
        lost, cut, unlisted, gone = Tally(), Tally(), Tally(), Tally()
        units_then = physical_offsets(queue.units() for queue in self.model.all_queues())
        positions = {file.path: file.wrote_position for file in self.model.commitlog.files}
        newest_kept = -1
        for segment in census.segments(files):
            end = positions.get(segment.path, 0)
            stays = segment.positions + segment.sizes <= end
            if stays.any():
                newest_kept = int(segment.store_timestamps[stays][-1])
            # What an earlier cut left behind is older than the record that it was cut after.
            lost.add(segment, ~stays & (segment.store_timestamps >= newest_kept))
            offsets = segment.start + segment.positions
            had, has = is_in(offsets, self.units_now), is_in(offsets, units_then)
            cut.add(segment, stays & ~has & had)
            none = stays & ~has & ~had
            known = self._known(segment, census.topics)
            unlisted.add(segment, none & known)
            gone.add(segment, none & ~known)
        names = census.topics
        return Losses(lost.loss(names), cut.loss(names), unlisted.loss(names), gone.loss(names))

    def _known(self, segment: SegmentCensus, names: list[str]) -> Mask:
        numbers = [number for number, name in enumerate(names) if self.is_known(name)]
        return np.isin(segment.topics, numbers)


def physical_offsets(queues: Iterable[Iterable[tuple[int, NDArray[Any]]]]) -> NDArray[np.int64]:
    """Give where all units point to, sorted; unused and pre-blank ones left out."""
    found = [
        units["physical_offset"][real_units(units)].astype(np.int64)
        for queue in queues
        for _, units in queue
    ]
    return np.sort(np.concatenate([np.empty(0, np.int64), *found]))


def real_units(units: NDArray[Any]) -> Mask:
    """Tell which units stand for a record."""
    offsets, sizes = units["physical_offset"], units["size"]
    real: Mask = (offsets >= 0) & (sizes > 0) & ~((offsets == 0) & (sizes == PRE_BLANK_SIZE))
    return real


def is_in(wanted: NDArray[np.int64], there: NDArray[np.int64]) -> Mask:
    """Tell which numbers are among sorted ones."""
    if not there.size:
        return np.zeros(wanted.shape, np.bool_)
    places = np.minimum(np.searchsorted(there, wanted), there.size - 1)
    found: Mask = there[places] == wanted
    return found
