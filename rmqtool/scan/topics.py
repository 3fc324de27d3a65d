"""Topics as small numbers: the table into which kernels intern the topic of each record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.scan.columns import (
    FACTS,
    TEXT_LENGTH,
    TEXT_START,
    TOPICS,
    TOPICS_TEXT,
    WORD_SLACK,
)

if TYPE_CHECKING:
    import numpy.typing as npt

FIRST_SLOTS: Final = 1 << 10
FIRST_TEXT: Final = 1 << 15
LONGEST_TOPIC: Final = 1 << 15  # a V2 record counts its topic in 2 bytes, signed
MOST_KNOWN: Final = 4096  # names at hand as bytes objects


class TopicTable:
    """The topics of the records that one scan has met, numbered in the order of their coming.

    A number means something within one scan only. The table grows with the number of different
    topics in the bytes that were scanned, so hostile names cost no more than the bytes they fill.
    KEY_SEED keeps the Java hash of `topic#`, from which the hashes of keys go on.

    Attributes:
        slots: int64, shape (power of two,); number of a topic, -1 where empty.
        facts: int64, shape (slots / 2, FACTS).
        text: uint8, shape (n,); the names, one after the other.
        counts: int64, shape (2,); topics, and bytes of `text` in use.
    """

    __slots__ = ("_known", "counts", "facts", "slots", "text")

    def __init__(self) -> None:
        self.slots: npt.NDArray[np.int64] = np.full(FIRST_SLOTS, -1, np.int64)
        self.facts: npt.NDArray[np.int64] = np.zeros((FIRST_SLOTS // 2, FACTS), np.int64)
        self.text: npt.NDArray[np.uint8] = np.zeros(FIRST_TEXT, np.uint8)
        self.counts: npt.NDArray[np.int64] = np.zeros(2, np.int64)
        self._known: dict[int, bytes] = {}  # of those that were asked for last, some

    def __len__(self) -> int:
        return int(self.counts[TOPICS])

    def __getitem__(self, number: int) -> bytes:
        """Give the bytes of a topic."""
        topic = self._known.get(number)
        if topic is None:
            if not 0 <= number < len(self):
                raise IndexError(number)
            start = int(self.facts[number, TEXT_START])
            topic = self.text[start : start + int(self.facts[number, TEXT_LENGTH])].tobytes()
            if len(self._known) >= MOST_KNOWN:  # hostile names are many
                self._known.clear()
            self._known[number] = topic
        return topic

    @property
    def state(
        self,
    ) -> tuple[
        npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.int64]
    ]:
        """Give the arrays in the order in which kernels take them."""
        return self.slots, self.facts, self.text, self.counts

    def grow(self) -> None:
        """Make room for twice as many topics, or for longer ones, whichever is short."""
        from rmqtool.scan.kernels_text import place_topics

        if 4 * len(self) >= self.slots.size:  # half of the half that is ever used
            self.slots = np.full(2 * self.slots.size, -1, np.int64)
            self.facts = np.concatenate([self.facts, np.zeros_like(self.facts)])
            place_topics(self.slots, self.facts, len(self))
        if self.text.size < 2 * int(self.counts[TOPICS_TEXT]) + LONGEST_TOPIC + WORD_SLACK:
            self.text = np.concatenate([self.text, np.zeros_like(self.text)])
