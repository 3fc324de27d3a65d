"""Which rows are wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Range: TypeAlias = tuple[int | None, int | None]  # start and end, half open; None is open
EVERYTHING: Range = (None, None)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows are wanted; what is None or open does not select.

    Attributes:
        topics: any of these.
        queue_id: number of the queue.
        tag: the whole tag string.
        key: one of the user's keys, or the unique key.
        properties: names with their values, all of them.
        store_time: ms since 1970.
        offsets: physical offsets.
        queue_offsets: numbers of units of a queue.
    """

    topics: tuple[str, ...] = ()
    queue_id: int | None = None
    tag: str | None = None
    key: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    store_time: Range = EVERYTHING
    offsets: Range = EVERYTHING
    queue_offsets: Range = EVERYTHING

    @property
    def reads_texts(self) -> bool:
        """Whether the content of messages decides, which a queue or an index does not hold."""
        return bool(self.tag is not None or self.key is not None or self.properties)


def contains(wanted: Range, value: int) -> bool:
    """Say whether a value lies in a range."""
    start, end = wanted
    return (start is None or value >= start) and (end is None or value < end)
