"""How two commitlogs relate: their ends, the first difference, and what only one of them has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.diff.log_bytes import LogStretch, Relation, compare_logs, joined
from rmqtool.diff.log_records import AFTER, BEFORE, SHARED, RecordTask, own_records
from rmqtool.engine import run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.diff.log_records import Damage, OwnTally, QueueKey, RecordReport
    from rmqtool.diff.side import Side
    from rmqtool.store.segment import Segment

# What the bytes of a stretch are to the records of A and to those of B.
_OWN: Final = (
    {Relation.DIFFERENT, Relation.ONLY_A, Relation.UNREAD_B},
    {Relation.DIFFERENT, Relation.ONLY_B, Relation.UNREAD_A},
)
_UNREAD: Final = (Relation.UNREAD_A, Relation.UNREAD_B)


class LogSpan(NamedTuple):
    """Physical offsets, half open; empty without a commitlog."""

    begin: int
    end: int

    @property
    def length(self) -> int:
        """Bytes."""
        return max(self.end - self.begin, 0)


@dataclass(slots=True)
class OwnMessages:
    """What one log has and the other has not."""

    tallies: dict[QueueKey, OwnTally] = field(default_factory=dict)  # by range and queue
    # physical offset of the first own record or damage in the shared range
    first: int | None = None
    unknown: int = 0  # messages that could not be compared
    # stretches without a sound record in the files that were scanned
    damage: list[Damage] = field(default_factory=list)

    def messages(self, *ranges: str) -> int:
        """Count the messages of some ranges."""
        return sum(one.messages for key, one in self.tallies.items() if key.range in ranges)

    @property
    def own_damage(self) -> list[Damage]:
        """Damage that the other log does not have."""
        return [one for one in self.damage if not one.is_shared]

    def take(self, report: RecordReport) -> None:
        """Add what was found in one file."""
        for key, tally in report.tallies.items():
            known = self.tallies.get(key)
            self.tallies[key] = known | tally if known else tally
        if report.first is not None:
            self.first = report.first if self.first is None else min(self.first, report.first)
        self.unknown += report.unknown
        self.damage += report.damage


@dataclass(frozen=True, slots=True)
class LogDifference:
    """Two logs side by side."""

    a: LogSpan  # what A holds
    b: LogSpan  # what B holds
    own: tuple[OwnMessages, OwnMessages]  # what only A has, and what only B has
    first: int | None  # physical offset of the first difference in the shared range; None for none
    goes_on: bool  # after it both logs have the same records again
    unread: int  # bytes that could not be compared
    compared: int  # bytes that were

    @property
    def shared(self) -> LogSpan:
        """What both hold."""
        return shared_of(self.a, self.b)

    @property
    def is_same(self) -> bool:
        """Whether no difference was seen, in what could be read."""
        return self.a == self.b and self.first is None


def shared_of(a: LogSpan, b: LogSpan) -> LogSpan:
    """Give what two logs both hold; empty where they do not meet."""
    begin = max(a.begin, b.begin)
    return LogSpan(begin, max(begin, min(a.end, b.end)))


def compare(a: Side, b: Side, jobs: int | None = None, *, has_log: bool = True) -> LogDifference:
    """Compare the logs of two stores.

    Args:
        a: a store.
        b: the other.
        jobs: threads; None is one for each processor.
        has_log: False: not both are to be looked at, and nothing is compared.
    """
    sides = (a, b)
    spans = tuple(LogSpan(side.begin, side.end) if has_log else LogSpan(0, 0) for side in sides)
    shared = shared_of(spans[0], spans[1])
    ends = spans[0].end, spans[1].end
    stretches: list[LogStretch] = []
    begin = min((span.begin for span in spans if span.length), default=0)
    for found in compare_logs(a.reader, b.reader, begin, ends, jobs):
        stretches += found.stretches
        for side, error in zip(sides, found.unread, strict=True):
            if error is not None:
                side.problem(error)
    stretches = list(joined(stretches))
    own = (OwnMessages(), OwnMessages())
    last_same = _last_untouched(stretches, a)
    for number, side in enumerate(sides):
        tasks = list(_tasks(number, sides, stretches, shared)) if stretches else []
        for report in run(own_records, tasks, jobs=jobs):
            own[number].take(report)
            last_same = max(last_same, report.last_same)
            if report.unread is not None:
                side.problem(report.unread)
    first = min((one.first for one in own if one.first is not None), default=None)
    return LogDifference(
        *(spans[0], spans[1]),
        own=own,
        first=first,
        goes_on=first is not None and last_same > first,
        unread=_length(stretches, _UNREAD),
        compared=_length(stretches, (Relation.SAME, Relation.DIFFERENT)),
    )


def _length(stretches: Iterable[LogStretch], relations: Iterable[Relation]) -> int:
    wanted = set(relations)
    return sum(stretch.end - stretch.begin for stretch in stretches if stretch.relation in wanted)


def _last_untouched(stretches: list[LogStretch], side: Side) -> int:
    """Give where the last file begins that no task scans: all of it is the same in both."""
    same = [stretch for stretch in stretches if stretch.relation is Relation.SAME]
    starts = [
        segment.start
        for segment in side.segments
        if any(one.begin <= segment.start and min(segment.end, side.end) <= one.end for one in same)
    ]
    return max(starts, default=-1)


def _tasks(
    number: int, sides: tuple[Side, Side], stretches: list[LogStretch], shared: LogSpan
) -> Iterator[RecordTask]:
    """Yield the files of one log that hold a stretch of its own."""
    side, other = sides[number], sides[1 - number]
    for segment in side.segments:
        if segment.start >= side.end:
            continue
        own = [
            stretch
            for stretch in stretches
            if stretch.relation in _OWN[number] and _meets(segment, stretch.begin, stretch.end)
        ]
        if not own:
            continue
        unread = [(one.begin, one.end) for one in own if one.relation is _UNREAD[1 - number]]
        others = [one for one in other.segments if _meets(segment, one.start, one.end)]
        yield RecordTask(
            segment,
            side.end,
            other.end,
            tuple(others),
            tuple((one.begin, one.end) for one in own),
            tuple(unread),
            shared,
            is_dledger=side.is_entry(segment),
        )


def _meets(segment: Segment, begin: int, end: int) -> bool:
    return segment.start < end and begin < segment.end


__all__ = ["AFTER", "BEFORE", "SHARED", "LogDifference", "LogSpan", "OwnMessages", "compare"]
