"""Move committed offsets that lie outside of their queue, when the user asks for it.

An offset ahead of its queue's end is set to that end: what comes next is consumed. Offsets behind
the queue's first message stay; the broker corrects those consumers itself.
Source: ConsumerOffsetManager, ScheduleMessageService, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rmqtool.broker.names import SCHEDULE_TOPIC
from rmqtool.errors import UnreadablePath
from rmqtool.findings.registry_state import CO_RANGE, DO_RANGE
from rmqtool.repair.log.content import Content
from rmqtool.repair.state.config_text import text_of
from rmqtool.store.config_files import BACKUP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.findings.catalogue import Code
    from rmqtool.repair.survey import LogSurvey
    from rmqtool.repair.writer import EditWriter

REASON: Final = "offsets ahead of their queue are set to its end"


def clamp_offsets(
    writer: EditWriter,
    survey: LogSurvey,
    *,
    broken: frozenset[str],
    only: frozenset[tuple[str, int]] | None,
) -> None:
    """Clamp consumer offsets and delay offsets; a file that is just restored is left for later.

    Args:
        writer: takes the edits.
        survey: tells where queues end.
        broken: paths of files that cannot be parsed.
        only: queues whose offsets are meant; None is all.
    """
    ends = _Ends(survey, only)
    _clamp(writer, survey, broken, ("consumerOffset.json", CO_RANGE, ends.consumers))
    _clamp(writer, survey, broken, ("delayOffset.json", DO_RANGE, ends.delays))


def _clamp(
    writer: EditWriter,
    survey: LogSurvey,
    broken: frozenset[str],
    how: tuple[str, Code, Callable[[dict[str, Any]], list[str]]],
) -> None:
    name, code, change = how
    found = survey.inspection.document_with_path(name)
    if found is None or found[1] in broken or f"config/{name}" in broken:
        return
    document, path = found
    if not path.removesuffix(BACKUP).endswith(".json"):
        return  # it lies in RocksDB
    changed = change(document)
    if changed:
        content = Content.of(text_of(document).encode())
        place = survey.inspection.child(path)
        writer.replace(place.location, content, code, REASON, lost="; ".join(changed))


@dataclass(frozen=True, slots=True)
class _Ends:
    """Where queues will end, and which of them are meant."""

    survey: LogSurvey
    only: frozenset[tuple[str, int]] | None

    def consumers(self, document: dict[str, Any]) -> list[str]:
        """Clamp the offsets of groups; say what was changed."""
        changed = []
        for name, offsets in _tables(document):
            topic, at, group = name.partition("@")
            if not at or not isinstance(offsets, dict):
                continue
            for queue, offset in offsets.items():
                end = self._end(topic, queue)
                if end is not None and isinstance(offset, int) and offset > end:
                    offsets[queue] = end
                    changed.append(f"group {group} on {topic} queue {queue}: {offset}, now {end}")
        return changed

    def delays(self, document: dict[str, Any]) -> list[str]:
        """Clamp the offsets of delay levels; say what was changed."""
        offsets = document.get("offsetTable")
        changed: list[str] = []
        if not isinstance(offsets, dict):
            return changed
        for level, offset in offsets.items():
            if not level.isdecimal() or not isinstance(offset, int):
                continue
            end = self._end(SCHEDULE_TOPIC, str(int(level) - 1))
            if end is not None and offset > end:
                offsets[level] = end
                changed.append(f"delay level {level}: {offset}, now {end}")
        return changed

    def _end(self, topic: str, queue: str) -> int | None:
        """Give the end of a queue as it will be; None where nothing can be said."""
        inspection = self.survey.inspection
        if not queue.isdecimal() or not inspection.compares_queues:
            return None
        if self.only is not None and (topic, int(queue)) not in self.only:
            return None
        end = self.survey.queues.next_offset(topic.encode(), int(queue))
        if end is not None:
            return end
        try:
            found = inspection.range_of(topic, int(queue))
        except UnreadablePath:
            return None
        return found[1] if found else None


def _tables(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    table = document.get("offsetTable")
    yield from table.items() if isinstance(table, dict) else ()
