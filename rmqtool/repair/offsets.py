"""Move committed offsets that lie outside of their queue, when the user asks for it.

An offset ahead of its queue's end is set to that end: what comes next is consumed. Offsets behind
the queue's first message stay; the broker corrects those consumers itself.
Source: ConsumerOffsetManager, ScheduleMessageService, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rmqtool.errors import UnreadablePath
from rmqtool.repair.config_text import text_of
from rmqtool.repair.content import Content

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.repair.survey import Survey
    from rmqtool.repair.writer import Writer

SCHEDULE_TOPIC: Final = b"SCHEDULE_TOPIC_XXXX"
REASON: Final = "offsets ahead of their queue are set to its end"


def clamp_offsets(writer: Writer, survey: Survey, *, broken: frozenset[str]) -> None:
    """Clamp consumer offsets and delay offsets; a file that is just restored is left for later."""
    _clamp(writer, survey, broken, ("consumerOffset.json", "CO-RANGE", _consumers))
    _clamp(writer, survey, broken, ("delayOffset.json", "DO-RANGE", _delays))


def _clamp(
    writer: Writer,
    survey: Survey,
    broken: frozenset[str],
    how: tuple[str, str, Callable[[Survey, dict[str, Any]], list[str]]],
) -> None:
    name, code, change = how
    found = survey.inspection.document_with_path(name)
    if found is None or found[1] in broken or f"config/{name}" in broken:
        return
    document, path = found
    changed = change(survey, document)
    if changed:
        content = Content.of(text_of(document).encode())
        place = survey.inspection.child(path)
        writer.replace(place.location, content, code, REASON, lost="; ".join(changed))


def _consumers(survey: Survey, document: dict[str, Any]) -> list[str]:
    changed = []
    for name, offsets in _tables(document):
        topic, at, group = name.partition("@")
        if not at or not isinstance(offsets, dict):
            continue
        for queue, offset in offsets.items():
            end = _end(survey, topic.encode(), queue)
            if end is not None and isinstance(offset, int) and offset > end:
                offsets[queue] = end
                changed.append(f"group {group} on {topic} queue {queue}: {offset}, now {end}")
    return changed


def _delays(survey: Survey, document: dict[str, Any]) -> list[str]:
    offsets = document.get("offsetTable")
    changed: list[str] = []
    if not isinstance(offsets, dict):
        return changed
    for level, offset in offsets.items():
        if not level.isdecimal() or not isinstance(offset, int):
            continue
        end = _end(survey, SCHEDULE_TOPIC, str(int(level) - 1))
        if end is not None and offset > end:
            offsets[level] = end
            changed.append(f"delay level {level}: {offset}, now {end}")
    return changed


def _tables(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    table = document.get("offsetTable")
    yield from table.items() if isinstance(table, dict) else ()


def _end(survey: Survey, topic: bytes, queue: str) -> int | None:
    """Give the end of a queue as it will be; None where nothing can be said."""
    if not queue.isdecimal() or not survey.inspection.compares_queues:
        return None
    end = survey.queues.next_offset(topic, int(queue))
    if end is not None:
        return end
    try:
        found = survey.inspection.range_of(topic.decode("utf-8", "replace"), int(queue))
    except UnreadablePath:
        return None
    return found[1] if found else None
