"""Has a group consumed a message? What the committed offset of its queue tells, and what it cannot.

A committed offset past a message says that a consumer acknowledged it, gave it back for a retry, or
that an operator reset the offset. So copies in retry and dead letter topics are looked at first.
Source: ConsumerOffsetManager#commitOffset, SendMessageProcessor#consumerSendMsgBack,
AckMessageProcessor, PopBufferMergeService, CompactionStore, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.broker import names
from rmqtool.broker.dispatch import claimed_places
from rmqtool.formats import config_shapes, properties
from rmqtool.formats.config_names import OFFSETS_JSON, TOPICS_JSON
from rmqtool.plural import counted
from rmqtool.query.groups import CONSUMED, ConsumerGroup
from rmqtool.query.trace import follow
from rmqtool.store.config_sources import committed_offsets

if TYPE_CHECKING:
    from rmqtool.formats.message import Message
    from rmqtool.query.answer import Answer
    from rmqtool.query.lookup import Lookup

EVERY_GROUP: Final = "*"
YES: Final = "yes"
NO: Final = "no"
UNKNOWN: Final = "not known"
COPIES: Final = (
    names.RETRY_PREFIX, names.DLQ_PREFIX, names.SCHEDULE_TOPIC, names.TIMER_TOPIC,
    *sorted(names.HALF_TOPICS),
)  # fmt: skip
HELD: Final = frozenset({*names.HALF_TOPICS, names.SCHEDULE_TOPIC, names.TIMER_TOPIC})


def consumed_rows(lookup: Lookup, answer: Answer, group: ConsumerGroup) -> list[dict[str, object]]:
    """Give a row of CONSUMED for each queue of each message that was found.

    Args:
        lookup: the store.
        answer: what was found; the whole life of the message is added to it.
        group: who consumes.

    Raises:
        UnreadablePath: a file may not be read.
    """
    asked = [hit.record.message for hit in answer.hits]
    asked = [message for message in asked if not message.topic.startswith(COPIES)] or asked
    follow(lookup, answer)
    everything = [hit.record.message for hit in answer.hits]
    rows = []
    for message in asked:
        topic, queue_id, queue_offset, _ = claimed_places(message)[0]
        committed = group.committed.get((topic, queue_id))
        verdict, reason = _verdict(lookup, group, message, everything)
        rows.append(
            CONSUMED.row(
                message,
                group=group.name,
                consumed=verdict,
                reason=reason,
                topic=topic,
                queue_id=queue_id,
                queue_offset=queue_offset,
                committed_offset=committed,
            )
        )
    return rows


def groups_of(lookup: Lookup, answer: Answer) -> list[ConsumerGroup]:
    """Give the groups that have committed offsets in the topics of messages, by name.

    Args:
        lookup: the store.
        answer: with the messages.
    """
    topics = {claimed_places(hit.record.message)[0][0] for hit in answer.hits}
    topics -= {topic for topic in topics if topic.startswith(COPIES)}
    names_found = {
        offset.group for offset in committed_offsets(lookup.store) if offset.topic in topics
    }
    return [ConsumerGroup(lookup, name) for name in sorted(names_found)]


def verdict_of(rows: list[dict[str, object]]) -> str:
    """Say in one sentence which of all groups have consumed messages."""
    by_verdict: dict[object, list[str]] = {YES: [], NO: [], UNKNOWN: []}
    for name in dict.fromkeys(str(row["group"]) for row in rows):
        verdicts = {row["consumed"] for row in rows if row["group"] == name}
        worst = next(verdict for verdict in (NO, UNKNOWN, YES) if verdict in verdicts)
        by_verdict[worst].append(name)
    total = sum(map(len, by_verdict.values()))
    if not total:
        return "no consumer group has a committed offset in the topic"
    words = {YES: "consumed by", NO: "not consumed by", UNKNOWN: "not known of"}
    parts = [
        f"{words[str(verdict)]} {counted(len(some), 'group')} ({', '.join(some)})"
        for verdict, some in by_verdict.items()
        if some
    ]
    return f"of {counted(total, 'group')}: {'; '.join(parts)}"


def _verdict(
    lookup: Lookup, group: ConsumerGroup, message: Message, everything: list[Message]
) -> tuple[str, str]:
    if message.topic in HELD:
        return NO, f"no consumer gets messages of {message.topic}: look for the delivered copy"
    topic, queue_id, queue_offset, count = claimed_places(message)[0]
    committed = group.committed.get((topic, queue_id))
    if committed is None:
        return UNKNOWN, _no_offset(lookup, group, topic, queue_id)
    if committed < queue_offset + count:
        where = (
            "in the middle of this batch" if committed > queue_offset else "not past the message"
        )
        return NO, f"the group goes on at {committed} in this queue, {where}"
    return given_back(group, message, everything) or _passed(lookup, group, topic, committed)


def _passed(lookup: Lookup, group: ConsumerGroup, topic: str, committed: int) -> tuple[str, str]:
    """Say what an offset past a message tells, of which the group gave nothing back."""
    if (pop := group.pop_topic(topic)) is not None:
        return UNKNOWN, (
            f"the group pops messages ({pop}): the offset tells what was handed out, not what was "
            "acknowledged"
        )
    if _is_compacted(lookup, topic):
        return UNKNOWN, (
            f"{topic} is compacted: the offset may have passed the message after its key was "
            "written again"
        )
    return YES, (
        f"the group goes on at {committed} in this queue, past the message; a reset of the offset "
        "or a filter looks the same"
    )


def _no_offset(lookup: Lookup, group: ConsumerGroup, topic: str, queue_id: int) -> str:
    document = lookup.store.config(OFFSETS_JSON)
    if not document and not group.committed:
        return "there is no consumerOffset.json to tell committed offsets"
    others = [place for place in group.committed if place[0] == topic]
    where = f"queue {queue_id} of {topic}"
    if others:
        return f"the group has offsets of {topic}, but none of queue {queue_id}"
    return (
        f"the group has no committed offset of {where}: it never consumed it, or broadcasts, and "
        "its clients keep their offsets themselves"
    )


def given_back(
    group: ConsumerGroup, message: Message, everything: list[Message]
) -> tuple[str, str] | None:
    """Say what the last copy that a group gave back tells; None where it gave none back.

    Args:
        group: who consumes.
        message: that was consumed, or not.
        everything: all records of its life.

    Returns:
        Whether it was consumed, and why.
    """
    ours = {group.retry_topic, group.dead_letter_topic, group.pop_topic(message.topic)}
    copies = [
        asked
        for asked in everything
        if asked.topic in ours
        and asked.physical_offset > message.physical_offset
        and (asked.unique_key or "") == (message.unique_key or "")
    ]
    scheduled = [
        asked
        for asked in everything
        if asked.topic == names.SCHEDULE_TOPIC
        and asked.properties.get(properties.REAL_TOPIC, "") in ours
        and asked.physical_offset > message.physical_offset
    ]
    if not copies and not scheduled:
        return None
    last = max((*copies, *scheduled), key=lambda message: message.physical_offset)
    if last.topic == group.dead_letter_topic:
        at = f"dead letter at queue offset {last.queue_offset} of {last.topic}"
        return NO, f"the group gave it up after {last.reconsume_times} retries: {at}"
    if last.topic == names.SCHEDULE_TOPIC:
        return NO, f"the group gave it back; it waits in {last.topic} to be retried"
    committed = group.committed.get((last.topic, last.queue_id))
    where = f"queue offset {last.queue_offset} of {last.topic}"
    if committed is None:
        return UNKNOWN, f"the group gave it back, to {where}; no offset is stored there"
    if committed <= last.queue_offset:
        return NO, f"the group gave it back; the retry at {where} is not consumed"
    return YES, f"the group gave it back, and consumed the retry at {where}"


def _is_compacted(lookup: Lookup, topic: str) -> bool:
    topics = config_shapes.topics(lookup.store.config(TOPICS_JSON).document)
    return any(config.topic == topic and config.is_compaction for config in topics)
