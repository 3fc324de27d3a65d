"""Judge consumer offsets and delay offsets against the queues: CO-*, DO-RANGE.

Source: ConsumerOffsetManager, ScheduleMessageService, PullMessageProcessor, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.broker.names import (
    LMQ_PREFIX,
    SCHEDULE_TOPIC,
    is_made_by_brokers,
    is_system_group,
)
from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_state import CO_RANGE, CO_TOPIC, DO_RANGE
from rmqtool.formats import config_shapes
from rmqtool.formats.config_names import DELAYS_JSON, GROUPS_JSON, OFFSETS_JSON, TOPICS_JSON
from rmqtool.queues.discovery import UNIT_FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.queues.ranges import QueueRanges
    from rmqtool.findings.finding import Finding
    from rmqtool.formats.config_shapes import ConsumerOffset


def check(inspection: Inspection, facts: LogFacts, ranges: QueueRanges) -> Iterator[Finding]:
    """Compare every committed offset with the extent of its queue."""
    if not facts.is_known:
        inspection.leave_out("consumer and delay offsets", inspection.why_no_log)
        return
    yield from _consumer_offsets(inspection, ranges)
    yield from _delay_offsets(inspection, ranges)
    yield from inspection.pending()


def _consumer_offsets(inspection: Inspection, ranges: QueueRanges) -> Iterator[Finding]:
    offsets_json = inspection.document_with_path(OFFSETS_JSON)
    if offsets_json is None:
        return
    document, path = offsets_json
    topics = _known(inspection, TOPICS_JSON)
    groups = _known(inspection, GROUPS_JSON)
    unknown: set[tuple[str, str]] = set()
    for offset in config_shapes.consumer_offsets(document):
        if inspection.options.topic not in {None, offset.topic}:
            continue
        missing = _missing(offset, topics, groups)
        if missing:
            if (offset.topic, offset.group) not in unknown and not inspection.scope.has_metadata_2:
                unknown.add((offset.topic, offset.group))
                at = At(path, topic=offset.topic)
                yield finding(CO_TOPIC, at, f"{_words(offset)}: {missing}")
            continue
        yield from _judge(inspection, ranges, offset, path)


def _known(inspection: Inspection, name: str) -> frozenset[str] | None:
    """Give the names of all topics or groups; None when the file is not there."""
    document = inspection.document(name)
    if document is None:
        return None
    if name == TOPICS_JSON:
        return frozenset(topic.topic for topic in config_shapes.topics(document))
    return frozenset(group.group for group in config_shapes.subscription_groups(document))


def _missing(
    offset: ConsumerOffset, topics: frozenset[str] | None, groups: frozenset[str] | None
) -> str:
    if topics is not None and offset.topic not in topics and not is_made_by_brokers(offset.topic):
        return "the topic is not in topics.json"
    if groups is not None and offset.group not in groups and not is_system_group(offset.group):
        return "the group is not in subscriptionGroup.json"
    return ""


def _words(offset: ConsumerOffset) -> str:
    return f"group {offset.group} on topic {offset.topic} queue {offset.queue_id}"


def _judge(
    inspection: Inspection, ranges: QueueRanges, offset: ConsumerOffset, path: str
) -> Iterator[Finding]:
    if offset.queue_offset is None:
        return
    span = _range_of(inspection, ranges, offset.topic, offset.queue_id)
    if span is None or span[0] <= offset.queue_offset <= span[1]:
        return
    is_ahead = offset.queue_offset > span[1]
    where = "ahead of the queue's end" if is_ahead else "before the queue's first message"
    yield finding(
        CO_RANGE,
        At(path, None, None, None, offset.topic, offset.queue_id, offset.queue_offset),
        f"{_words(offset)}: the offset lies {where}",
        expected="{} to {}".format(*span),
        actual=offset.queue_offset,
        # A slow consumer is overtaken by expiry every day; only an offset ahead tells of a loss.
        severity=None if is_ahead else Severity.NOTE,
    )


def _range_of(
    inspection: Inspection, ranges: QueueRanges, topic: str, queue_id: int
) -> tuple[int, int] | None:
    """Give the range of a queue of either kind; None when nothing can be said."""
    is_there = any((topic, queue_id) in inspection.units(name) for name in UNIT_FAMILIES)
    if topic.startswith(LMQ_PREFIX) and not is_there:
        return None  # light queues may lie in RocksDB only
    try:
        return ranges.of(topic, queue_id)
    except UnreadablePath:
        return None  # the queue's own check says so


def _delay_offsets(inspection: Inspection, ranges: QueueRanges) -> Iterator[Finding]:
    offsets_json = inspection.document_with_path(DELAYS_JSON)
    if offsets_json is None:
        return
    document, path = offsets_json
    for level, offset in sorted(config_shapes.delay_offsets(document).items()):
        range_on_disk = _range_of(inspection, ranges, SCHEDULE_TOPIC, level - 1)
        if range_on_disk is None or offset is None or offset <= range_on_disk[1]:
            continue
        yield finding(
            DO_RANGE,
            At(path, None, None, None, SCHEDULE_TOPIC, level - 1, offset),
            f"the offset of delay level {level} lies ahead of its queue's end",
            expected="{} to {}".format(*range_on_disk),
            actual=offset,
        )
