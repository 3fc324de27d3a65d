"""Configuration files as brokers write them: JSON whose maps with number keys have bare keys.

Source: TopicConfigSerializeWrapper, ConsumerOffsetManager, fastjson 1.2, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rmqtool.broker.names import LMQ_PREFIX
from rmqtool.broker.release import LINES
from rmqtool.broker.rules import Rules
from rmqtool.check.inspection import UNIT_FAMILIES

if TYPE_CHECKING:
    from rmqtool.repair.survey import LogSurvey

FIRST: Final = min(LINES.values())
PERMISSION: Final = 6  # read and write
DELAY_QUEUES: Final = 18


def queue_counts(survey: LogSurvey) -> dict[str, int]:
    """Give how many queues each topic has or will have: in files, and by what the log dispatches.

    Light queues have no topic of their own.
    """
    queues = survey.queues
    names = [
        (name.decode("utf-8", "replace"), queue_id)
        for name, queue_id in [*queues.queues, *queues.batches.queues]
    ]
    for family in UNIT_FAMILIES:
        names += survey.inspection.units(family)
    counts: dict[str, int] = {}
    for topic, queue_id in names:
        if not topic.startswith(LMQ_PREFIX):
            counts[topic] = max(counts.get(topic, 0), queue_id + 1)
    return counts


def batch_topics(survey: LogSurvey) -> set[str]:
    """Give the topics with batch queues."""
    names = {name.decode("utf-8", "replace") for name, _ in survey.queues.batches.queues}
    return names | {topic for topic, _ in survey.inspection.units("batch_queues")}


def topics_text(survey: LogSurvey) -> str:
    """Give a `topics.json` of the topics that have queues, or will have.

    Where nothing tells the release, it has only what all releases write: it must not tell one.
    """
    inspection, batch = survey.inspection, batch_topics(survey)
    scope = inspection.scope
    release = scope.release if scope.is_release_known else Rules(FIRST)
    table = {
        topic: topic_entry(release, topic, count, is_batch=topic in batch)
        for topic, count in sorted(queue_counts(survey).items())
    }
    if not scope.is_release_known:
        return text_of({"topicConfigTable": table})
    version: dict[str, Any] = {"counter": 1}
    if release.has_state_version:
        version["stateVersion"] = 0
    version["timestamp"] = survey.facts.newest_time
    return text_of({"dataVersion": version, "topicConfigTable": table})


def topic_entry(release: Rules, topic: str, count: int, *, is_batch: bool) -> dict[str, Any]:
    """Give a topic of `topics.json` with so many queues, readable and writable."""
    attributes = {"queue.type": "BatchCQ"} if is_batch else {}
    return ({"attributes": attributes} if release.has_state_version else {}) | {
        "order": False,
        "perm": PERMISSION,
        "readQueueNums": count,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": 0,
        "writeQueueNums": count,
    }


def text_of(value: object, depth: int = 0) -> str:
    """Give JSON as fastjson prints it: tabs, no space after a colon, bare number keys."""
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if not value:
        return "{}"
    is_numbered = all(key.lstrip("-").isdecimal() for key in value)
    pad, end = "\t" * (depth + 1), "\n" + "\t" * depth
    lines = [
        f"{key if is_numbered else json.dumps(key, ensure_ascii=False)}:{text_of(one, depth + 1)}"
        for key, one in value.items()
    ]
    if is_numbered:
        return "{" + ",".join(lines) + end + "}"
    return "{\n" + ",\n".join(pad + line for line in lines) + end + "}"
