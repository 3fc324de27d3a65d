"""Compare two stores: their logs, then all that stands beside the logs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rmqtool.diff import log_difference, state
from rmqtool.diff.side import Part, Side, SideProblem, parts_of
from rmqtool.errors import Trouble, UnreadablePath, UnsupportedStore
from rmqtool.findings.registry_commitlog import BRIDGE_NOTE

if TYPE_CHECKING:
    from rmqtool.diff.log_difference import LogDifference
    from rmqtool.diff.state import StateDifference
    from rmqtool.query.log import LogRecord, NoRecord
    from rmqtool.store.tree import Store

NOTHING: Final = (
    "nothing to compare: give two store roots, or of both the commitlog, the queues or config"
)
LIVE: Final = "a running broker holds it; messages after the start of the comparison are left out"


@dataclass(frozen=True)
class StoreDifference:
    """Two stores side by side."""

    paths: tuple[str, str]  # of A and of B
    log: LogDifference  # their logs
    state: StateDifference  # all else
    # what lies at the first difference, in A and in B; None where it is unreadable
    records: tuple[LogRecord | NoRecord | None, LogRecord | NoRecord | None]
    # when the last message before the first difference, or before the end of the shorter log, was
    # stored, ms since 1970; None where nothing tells
    same_until: int | None
    # what could not be read or is damaged in A and in B
    troubles: tuple[list[SideProblem], list[SideProblem]]
    parts: frozenset[Part]  # what of both was compared: all of two store roots

    @property
    def parts_at(self) -> int | None:
        """Physical offset of the first difference; the end of the shorter log without one."""
        log = self.log
        if log.first is not None or log.a.end == log.b.end or not log.shared.length:
            return log.first
        return log.shared.end

    @property
    def is_complete(self) -> bool:
        """Whether everything could be read."""
        return not any(problem.is_unread for some in self.troubles for problem in some)

    @property
    def is_same(self) -> bool | None:
        """Whether nothing differs; None where no difference was seen, but not all could be read."""
        if not (self.log.is_same and self.state.is_same):
            return False
        return True if self.is_complete else None


def difference(a: Store, b: Store, *, jobs: int | None = None) -> StoreDifference:
    """Compare two stores; nothing is written.

    Args:
        a: a store, or a part of one.
        b: the other.
        jobs: threads; None is one for each processor.

    Raises:
        UnreadablePath: a running broker deleted an expired file meanwhile; open both anew.
        UnsupportedStore: they have nothing that could be compared.
    """
    parts = frozenset(parts_of(a) & parts_of(b))
    if not parts:
        raise UnsupportedStore(path=str(b.asked.place), reason=NOTHING, trouble=Trouble.EXPLAINED)
    with Side("A", a) as first, Side("B", b) as second:
        sides = (first, second)
        for side in sides:
            if side.store.moment.is_live:
                side.note(SideProblem("lock", LIVE, is_unread=False))
        log = log_difference.compare(first, second, jobs, has_log=Part.LOG in parts)
        for side, own in zip(sides, log.own, strict=True):
            _note_damage(side, own)
        compared = StoreDifference(
            (str(a.asked.place), str(b.asked.place)),
            log,
            state.compare(first, second, parts),
            (None, None),
            None,
            (first.all_troubles(), second.all_troubles()),
            parts,
        )
        at = compared.parts_at
        if at is None:
            return compared
        records = _record(first, at), _record(second, at)
        time = _time(first, at)
        troubles = first.all_troubles(), second.all_troubles()
        return replace(compared, records=records, same_until=time, troubles=troubles)


def _note_damage(side: Side, own: log_difference.OwnMessages) -> None:
    for damage in own.damage:
        other = "B" if side.name == "A" else "A"
        where = f"; {other} has the same bytes" if damage.is_shared else ""
        what = BRIDGE_NOTE if damage.is_bridge else damage.code.meaning.rstrip(".")
        problem = f"{what}{where}"
        side.note(
            SideProblem(
                damage.path, problem, False, damage.physical_offset, damage.length, str(damage.code)
            )
        )


def _record(side: Side, physical_offset: int) -> LogRecord | NoRecord | None:
    try:
        return side.record_at(physical_offset)
    except UnreadablePath as error:
        side.problem(error)
        return None


def _time(side: Side, physical_offset: int) -> int | None:
    try:
        return side.time_before(physical_offset)
    except UnreadablePath as error:
        side.problem(error)
        return None
