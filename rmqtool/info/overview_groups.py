"""Consumer groups: how far after they are, and what they gave up.

Source: ConsumerOffsetManager, MixAll#getRetryTopic, #getDLQTopic, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.broker.names import DLQ_PREFIX, RETRY_PREFIX
from rmqtool.formats.config_shapes import consumer_offsets, lmq_consumer_offsets
from rmqtool.info.overview_rows import GroupRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rmqtool.formats.config_shapes import ConsumerOffset
    from rmqtool.queues.units import QueueSpan


class TopicSums(NamedTuple):
    """Messages and queues of each topic."""

    messages: Counter[str]
    queues: Counter[str]


def group_rows(
    documents: Iterable[Mapping[str, Any]], ranges: Iterable[QueueSpan]
) -> list[GroupRow]:
    """Give each group and topic, sorted, and groups of which only dead letters are left.

    Args:
        documents: contents of `consumerOffset.json` and `lmqConsumerOffset.json`.
        ranges: of all queues.
    """
    by_queue = {(range_.topic, range_.queue_id): range_ for range_ in ranges}
    topics = TopicSums(Counter(), Counter())
    for one in by_queue.values():
        topics.messages[one.topic] += one.messages
        topics.queues[one.topic] += 1
    offsets: dict[tuple[str, str], list[ConsumerOffset]] = defaultdict(list)
    for offset in _offsets(documents):
        offsets[offset.group, offset.topic].append(offset)
    found = {pair: _row(pair, offsets[pair], by_queue, topics) for pair in offsets}
    known = {group for group, _ in offsets}
    for topic in topics.messages:
        group = topic.removeprefix(DLQ_PREFIX)
        if group != topic and group not in known:
            found[group, ""] = _row((group, ""), [], by_queue, topics)
    return [found[pair] for pair in sorted(found)]


def _offsets(documents: Iterable[Mapping[str, Any]]) -> Iterator[ConsumerOffset]:
    for document in documents:
        yield from consumer_offsets(document)
        yield from lmq_consumer_offsets(document)


def _row(
    pair: tuple[str, str],
    offsets: list[ConsumerOffset],
    by_queue: Mapping[tuple[str, int], QueueSpan],
    topics: TopicSums,
) -> GroupRow:
    group, topic = pair
    lag = expired = ahead = known = 0
    for offset in offsets:
        queue = by_queue.get((topic, offset.queue_id))
        if queue is None or offset.queue_offset is None:
            continue
        known += 1
        next_offset = max(offset.queue_offset, queue.min_offset)
        lag += max(queue.max_offset - next_offset, 0)
        expired += next_offset - offset.queue_offset
        ahead += max(offset.queue_offset - queue.max_offset, 0)
    return GroupRow(
        group=group,
        topic=topic,
        queues=len(offsets),
        queues_without_offset=topics.queues[topic] - known,
        lag=lag,
        expired=expired,
        ahead=ahead,
        dead_letters=topics.messages[DLQ_PREFIX + group],
        retries=topics.messages[RETRY_PREFIX + group],
    )
