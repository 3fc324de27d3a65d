"""Configuration back, where no copy of it is sound: neutral files, and what the log still tells.

Topics and their queues follow from the log, delay offsets from the copies that were delivered. How
far consumers were nobody knows: their groups begin as new ones do.
Source: ConfigManager#load, TopicConfigManager, ScheduleMessageService#load, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rmqtool.broker.names import SCHEDULE_TOPIC, is_made_by_brokers
from rmqtool.errors import UnreadablePath
from rmqtool.findings.registry_layout import FS_ORPHAN
from rmqtool.repair.log.content import Content
from rmqtool.repair.state.config_text import batch_topics, queue_counts, text_of, topic_entry
from rmqtool.store.config_files import BACKUP, LIGHT_OFFSETS

if TYPE_CHECKING:
    from rmqtool.repair.survey import LogSurvey
    from rmqtool.repair.writer import EditWriter

TOPICS: Final = "config/topics.json"
NEUTRAL: Final[dict[str, dict[str, Any]]] = {
    "consumerOffset.json": {"offsetTable": {}},
    LIGHT_OFFSETS: {"offsetTable": {}, "lmqOffsetTable": {}},
    "subscriptionGroup.json": {"subscriptionGroupTable": {}},
    "consumerFilter.json": {"filterDataByTopic": {}},
    "consumerOrderInfo.json": {"table": {}},
    "topicQueueMapping.json": {"topicQueueMappingInfoMap": {}},
}
CONSUMED: Final = (
    "how far groups have consumed: each begins at the first or the last message, as its clients say"
)
LOST: Final = {
    "consumerOffset.json": CONSUMED,
    LIGHT_OFFSETS: CONSUMED,
    "subscriptionGroup.json": "settings of groups: brokers make them anew with defaults",
    "consumerFilter.json": "SQL92 subscriptions, until consumers register again",
    "consumerOrderInfo.json": "which messages ordered pop consumers hold",
    "topicQueueMapping.json": "static topics",
    "delayOffset.json": "nothing: delivery goes on at the first message without a delivered copy",
}


def neutral(survey: LogSurvey, name: str) -> tuple[str, str] | None:
    """Give the text of a file that a broker loads, and what is lost with the old one.

    Args:
        survey: of the store.
        name: such as `delayOffset.json`.

    Returns:
        None for a file that is not known, and where the log cannot be asked.
    """
    if name == "delayOffset.json":
        try:
            from rmqtool.query.delay_offsets import delay_offsets  # it looks up messages

            offsets = delay_offsets(survey.inspection.store, _delay_queues(survey))
        except UnreadablePath:
            return None
        document = {"offsetTable": {str(level): offset for level, offset in offsets.items()}}
        return text_of(document), LOST[name]
    if name not in NEUTRAL:
        return None
    return text_of(NEUTRAL[name]), LOST[name]


def _delay_queues(survey: LogSurvey) -> list[tuple[int, int, int]]:
    found = []
    for topic, queue_id in survey.ranges.names():
        if topic == SCHEDULE_TOPIC:
            first, end = survey.ranges.of(topic, queue_id) or (0, 0)
            found.append((queue_id, first, end))
    return found


def missing_topics(survey: LogSurvey) -> dict[str, int]:
    """Give the topics that the log has messages of, with more queues than are configured.

    Returns:
        How many queues each should have; empty without a `topics.json` that can be parsed.
    """
    inspection = survey.inspection
    found = inspection.document_with_path("topics.json")
    if found is None or not found[1].startswith(TOPICS):
        return {}
    table = found[0].get("topicConfigTable")
    known = table if isinstance(table, dict) else {}
    return {
        topic: count
        for topic, count in sorted(queue_counts(survey).items())
        if not is_made_by_brokers(topic) and count > _configured(known.get(topic))
    }


def _configured(entry: object) -> int:
    numbers = entry.get("readQueueNums") if isinstance(entry, dict) else 0
    return numbers if isinstance(numbers, int) else 0


def restore_topics(writer: EditWriter, survey: LogSurvey, wanted: dict[str, int]) -> None:
    """Write topics that the log has, and numbers of queues, into a valid `topics.json`."""
    found = survey.inspection.document_with_path("topics.json")
    if not wanted or found is None:
        return
    document, path = found
    table = document.setdefault("topicConfigTable", {})
    batches, release = batch_topics(survey), survey.inspection.scope.release
    for topic, count in wanted.items():
        entry = topic_entry(release, topic, count, is_batch=topic in batches)
        if isinstance(table.get(topic), dict):
            numbers = ("readQueueNums", "writeQueueNums")
            entry = table[topic] | {name: entry[name] for name in numbers}
        table[topic] = entry
    place = survey.inspection.child(path.removesuffix(BACKUP))
    reason = f"topics and queues that the log has: {', '.join(wanted)}"
    content = Content.of(text_of(document).encode())
    writer.replace(place.location, content, FS_ORPHAN, reason, lost="permissions and attributes")
