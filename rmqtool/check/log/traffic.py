"""Count records and bytes of each topic over time, in the pass that judges them anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.scan import columns as row

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.scan.batch import Batch

FIRST_TOPICS: Final = 16
# A series costs 2 kB: topics that come later than so many are counted together.
MOST_TOPICS: Final = 4096
BEFORE, AFTER = 0, -1  # places of a series for what lies outside of the grid


class TimeGrid(NamedTuple):
    """Stretches of time of the same length. Picklable."""

    begin_ms: int  # where the first one begins, ms since 1970
    step_ms: int  # how long each is
    steps: int  # how many there are

    @property
    def end_ms(self) -> int:
        """After the last stretch."""
        return self.begin_ms + self.step_ms * self.steps


class LogTraffic:
    """What one scan counted. Belongs to one thread; picklable when it is done.

    Attributes:
        grid: the time axis.
        counts: int64, shape (topics, 2, steps + 2): records and bytes of each topic in front of
            the grid, in each of its stretches, and after it.
        topics: names, in the order of `counts`; None stands for all topics that came too late.
    """

    def __init__(self, grid: TimeGrid) -> None:
        self.grid = grid
        self.topics: list[bytes | None] = []
        self.counts: npt.NDArray[np.int64] = np.zeros((FIRST_TOPICS, 2, grid.steps + 2), np.int64)

    def add(self, batch: Batch) -> None:
        """Count the records of a batch."""
        if not batch.has_texts or not batch.count:
            return
        self._know_topics(batch)
        grid, columns = self.grid, batch.columns
        numbers = np.minimum(columns[row.TOPIC_NUMBER], MOST_TOPICS)
        # Clipped first: the difference of hostile times has no room in 64 bits.
        times = np.clip(columns[row.STORE_TIMESTAMP], grid.begin_ms - 1, grid.end_ms)
        places = (times - grid.begin_ms) // grid.step_ms + 1
        width = grid.steps + 2
        at = numbers * (2 * width) + places
        flat = self.counts.reshape(-1)
        np.add.at(flat, at, 1)
        np.add.at(flat, at + width, columns[row.SIZE])

    def _know_topics(self, batch: Batch) -> None:
        known = len(self.topics)
        for number in range(known, min(len(batch.topics), MOST_TOPICS)):
            self.topics.append(batch.topics[number])
        if len(batch.topics) > MOST_TOPICS == len(self.topics):
            self.topics.append(None)
        while len(self.topics) > len(self.counts):
            self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)])


def total(totals: dict[bytes | None, npt.NDArray[np.int64]], more: LogTraffic) -> None:
    """Add what one scan counted to the sums of all scans.

    Args:
        totals: int64, shape (2, steps + 2) for each topic; changed.
        more: to be added.
    """
    for topic, counts in zip(more.topics, more.counts, strict=False):
        if topic in totals:
            totals[topic] = totals[topic] + counts
        elif counts.any():
            totals[topic] = counts
