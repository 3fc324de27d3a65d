"""Options that choose messages, for commands that give many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from rmqtool.cli.completion.values import queues, topics
from rmqtool.cli.declaration import Option
from rmqtool.cli.showing import TIMES
from rmqtool.errors import UsageError

if TYPE_CHECKING:
    from rmqtool.clock import Clock
    from rmqtool.tables.selection import Selection


AROUND: Final = "Stored around a time: 14:32±5m, or 14:32+-5m; 5m by default."


@dataclass(frozen=True, slots=True)
class Choosing:
    """Which messages are wanted."""

    topic: Annotated[
        tuple[str, ...],
        Option("--topic", "Only this topic; may be repeated.", "TOPIC", completes=topics),
    ] = ()
    queue: Annotated[
        int | None, Option("--queue", "Only this queue number.", "ID", completes=queues)
    ] = None
    tag: Annotated[str | None, Option("--tag", "Only messages with this tag.", "TAG")] = None
    key: Annotated[
        str | None, Option("--key", "Only messages with this key or unique key.", "KEY")
    ] = None
    where_property: Annotated[
        tuple[str, ...],
        Option(
            "--where-property",
            "Only messages with this property; may be repeated, all must match.",
            "NAME=VALUE",
        ),
    ] = ()
    from_: Annotated[
        str | None,
        Option("--from", f"Stored at or after: {TIMES}", "TIME"),
    ] = None
    to: Annotated[str | None, Option("--to", "Stored before this time.", "TIME")] = None
    since: Annotated[
        str | None,
        Option("--since", "Stored in the time until now: 90s, 1h, 2d; or since a TIME.", "LENGTH"),
    ] = None
    around: Annotated[str | None, Option("--around", AROUND, "TIME±LENGTH")] = None
    offsets: Annotated[
        str | None,
        Option(
            "--offsets",
            "Physical offsets from A up to but not B, such as 0x1000:64KiB; A or B may be "
            "left out.",
            "A:B",
        ),
    ] = None
    queue_offsets: Annotated[
        str | None,
        Option("--queue-offsets", "Queue offsets from A up to but not B.", "A:B"),
    ] = None

    def selection(self, clock: Clock) -> Selection:
        """Give them as the tables want them.

        Args:
            clock: reads times.

        Raises:
            UsageError: an option cannot be meant.
        """
        from rmqtool.ranges import number_range
        from rmqtool.tables.selection import Selection

        return Selection(
            topics=self.topic,
            queue_id=self.queue,
            tag=self.tag,
            key=self.key,
            properties=tuple(map(_property, self.where_property)),
            store_time=self._store_time(clock),
            offsets=number_range("--offsets", self.offsets),
            queue_offsets=number_range("--queue-offsets", self.queue_offsets),
        )

    def _store_time(self, clock: Clock) -> tuple[int | None, int | None]:
        """Give the times between which messages were stored.

        Raises:
            UsageError: an option cannot be meant, or contradicts another.
        """
        if self.around is not None:
            others = {"--from": self.from_, "--to": self.to, "--since": self.since}
            for option, text in others.items():
                if text is not None:
                    raise UsageError(option="--around", reason=f"cannot be combined with {option}")
            return clock.around("--around", self.around)
        if self.since is not None and self.from_ is not None:
            raise UsageError(option="--since", reason="cannot be combined with --from")
        start = None if self.from_ is None else clock.ms("--from", self.from_)
        if self.since is not None:
            start = clock.since("--since", self.since)
        return start, None if self.to is None else clock.ms("--to", self.to)


def _property(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise UsageError(option="--where-property", reason=f"{text!r} is not NAME=VALUE")
    return name, value
