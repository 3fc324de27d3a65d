"""Move committed offsets that lie outside of their queue, when the user asks for it.

An offset ahead of its queue's end is set to that end: what comes next is consumed. One below the
queue's first message is set to that message, as the broker would do with the next pull.
Source: ConsumerOffsetManager, ScheduleMessageService, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rmqtool.broker.names import SCHEDULE_TOPIC
from rmqtool.errors import UnreadablePath
from rmqtool.findings.registry_state import CO_RANGE, DO_RANGE
from rmqtool.repair.log.content import Content
from rmqtool.repair.state.config_text import text_of
from rmqtool.store.config_files import BACKUP

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from rmqtool.findings.catalogue import Code
    from rmqtool.repair.survey import LogSurvey
    from rmqtool.repair.writer import EditWriter

REASON: Final = "offsets outside of their queue are set to its first message, or to its end"
CLAMPED: Final = "--clamp-offsets sets it to the queue's end, so that the next message is consumed"


def edit(
    writer: EditWriter,
    survey: LogSurvey,
    restored: frozenset[str],
    *,
    clamps: bool,
    known: Container[Code],
) -> None:
    """Clamp consumer offsets and delay offsets, or name those that will be ahead of their queue.

    Args:
        writer: takes the edits; those of the configuration are there already.
        survey: tells where queues end.
        restored: paths of files that cannot be parsed as they are.
        clamps: all of them; else only those of queues that begin anew.
        known: codes of what was found, which the plan names anyhow.
    """
    ends = _Ends(survey, None if clamps else frozenset(survey.queues.dropped), lifts=clamps)
    ahead = _Ends(survey, None, lifts=False)
    for name, code, change, tell in (
        ("consumerOffset.json", CO_RANGE, ends.consumers, ahead.consumers),
        ("delayOffset.json", DO_RANGE, ends.delays, ahead.delays),
    ):
        found = survey.inspection.document_with_path(name)
        if found is None or not found[1].removesuffix(BACKUP).endswith(".json"):
            continue  # not there, or in RocksDB
        document, main = deepcopy(found[0]), f"config/{name}"
        path = main if main in restored else found[1]
        if changed := change(document):
            content, place = Content.of(text_of(document).encode()), survey.inspection.child(path)
            before = writer.forget(place.location)
            reason = f"{before.reason}; {REASON}" if before else REASON
            of = before.code if before else code
            writer.replace(place.location, content, of, reason, lost="; ".join(changed))
        if code not in known and (left := tell(document)):
            writer.leave(
                code, path, f"{left[0]}: the offset lies ahead of the queue's end", CLAMPED
            )


@dataclass(frozen=True, slots=True)
class _Ends:
    """Where queues will end, and which of them are meant.

    Attributes:
        survey: of the store.
        only: queues whose offsets are meant; None is all.
        lifts: whether offsets below a queue's first message are meant, too.
    """

    survey: LogSurvey
    only: frozenset[tuple[str, int]] | None
    lifts: bool

    def consumers(self, document: dict[str, Any]) -> list[str]:
        """Clamp the offsets of groups; say what was changed."""
        changed = []
        for name, offsets in _tables(document):
            topic, at, group = name.partition("@")
            if not at or not isinstance(offsets, dict):
                continue
            for queue, offset in offsets.items():
                now = self._inside(topic, queue, offset)
                if now != offset:
                    offsets[queue] = now
                    changed.append(f"group {group} on {topic} queue {queue}: {offset}, now {now}")
        return changed

    def delays(self, document: dict[str, Any]) -> list[str]:
        """Clamp the offsets of delay levels; say what was changed."""
        offsets = document.get("offsetTable")
        changed: list[str] = []
        if not isinstance(offsets, dict):
            return changed
        for level, offset in offsets.items():
            if not level.isdecimal():
                continue
            now = self._inside(SCHEDULE_TOPIC, str(int(level) - 1), offset)
            if now != offset:
                offsets[level] = now
                changed.append(f"delay level {level}: {offset}, now {now}")
        return changed

    def _inside(self, topic: str, queue: str, offset: object) -> object:
        """Give an offset as it is, or the nearest one that lies inside of its queue."""
        end = self._end(topic, queue)
        if end is None or not isinstance(offset, int):
            return offset
        first = self._first(topic, int(queue)) if self.lifts else offset
        return min(max(offset, first), end)

    def _first(self, topic: str, number: int) -> int:
        """Give the queue offset of a queue's first message; 0 where nothing can be said.

        Of what is there now and what the log wants the lower one: none is left out that comes back.
        """
        queue = self.survey.queues.queues.get((topic.encode(errors="surrogateescape"), number))
        wanted = queue.placement.first if queue is not None else -1
        try:
            found = self.survey.inspection.range_of(topic, number)
        except UnreadablePath:
            return 0
        if found is None or (queue is not None and not queue.files):
            return max(wanted, 0)
        return min(found[0], wanted) if wanted >= 0 else found[0]

    def _end(self, topic: str, queue: str) -> int | None:
        """Give the end of a queue as it will be; None where nothing can be said."""
        inspection = self.survey.inspection
        if not queue.isdecimal() or not inspection.compares_queues:
            return None
        number = int(queue)
        if self.only is not None and (topic, number) not in self.only:
            return None
        end = self.survey.queues.next_offset(topic.encode(errors="surrogateescape"), number)
        if end is not None:
            return end
        try:
            found = inspection.range_of(topic, number)
        except UnreadablePath:
            return None
        return found[1] if found else None


def _tables(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    table = document.get("offsetTable")
    yield from table.items() if isinstance(table, dict) else ()
