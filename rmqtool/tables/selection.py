"""Which rows are wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rmqtool.errors import UsageError

Range: TypeAlias = tuple[int | None, int | None]  # start and end, half open; None is open
EVERYTHING: Range = (None, None)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows are wanted; what is None or open does not select."""

    topics: tuple[str, ...] = ()  # any of these
    queue_id: int | None = None  # number of the queue
    tag: str | None = None  # the whole tag string
    key: str | None = None  # one of the user's keys, or the unique key
    properties: tuple[tuple[str, str], ...] = ()  # names with their values, all of them
    store_time: Range = EVERYTHING  # ms since 1970
    offsets: Range = EVERYTHING  # physical offsets
    queue_offsets: Range = EVERYTHING  # numbers of units of a queue

    @property
    def is_indexed(self) -> bool:
        """Whether queues or the key index can say which records are wanted."""
        return bool(self.topics) or self.key is not None

    def refuse_impossible(self) -> None:
        """Refuse what selects nothing, or by accident. Raises UsageError: there is such a thing."""
        if self.key == "":  # an unset variable, mostly: it would select what has no key
            raise UsageError(option="--key", reason="is empty: no message has an empty key")
        ranges = {
            "--from": self.store_time,
            "--offsets": self.offsets,
            "--queue-offsets": self.queue_offsets,
        }
        for option, (start, end) in ranges.items():
            if start is not None and end is not None and end < start:
                raise UsageError(option=option, reason=f"ends at {end}, before it begins")

    def options(self) -> list[str]:
        """Give the options of the command line that were used."""
        used = {
            "--topic": bool(self.topics),
            "--queue": self.queue_id is not None,
            "--tag": self.tag is not None,
            "--key": self.key is not None,
            "--where-property": bool(self.properties),
            "--from": self.store_time[0] is not None,
            "--to": self.store_time[1] is not None,
            "--offsets": self.offsets != EVERYTHING,
            "--queue-offsets": self.queue_offsets != EVERYTHING,
        }
        return [option for option, is_used in used.items() if is_used]
