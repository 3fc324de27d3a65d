"""Edits of the broker's configuration: from the `.bak`, or from what the queues still tell.

Source: ConfigManager#load, TopicConfigManager, EpochFileCache, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from rmqtool.broker.names import SCHEDULE_TOPIC, is_made_by_brokers
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings.catalogue import Code, Severity
from rmqtool.findings.registry_layout import FS_ORPHAN
from rmqtool.findings.registry_state import CF_JSON, EP_CRC
from rmqtool.formats.config import parse_object
from rmqtool.formats.config_names import (
    DELAYS_JSON,
    FILTERS_JSON,
    GROUPS_JSON,
    LIGHT_OFFSETS_JSON,
    MAPPINGS_JSON,
    OFFSETS_JSON,
    ORDERS_JSON,
    TOPIC_TABLE,
    TOPICS_JSON,
)
from rmqtool.formats.config_shapes import TABLES, parse_file
from rmqtool.repair.log.content import Content
from rmqtool.repair.state import offsets
from rmqtool.repair.state.offsets import (
    batch_topics,
    known_release,
    queue_counts,
    text_of,
    topic_entry,
    topics_text,
)
from rmqtool.store.config_files import BACKUP, LARGEST_CONFIG, plain_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.findings.finding import Finding
    from rmqtool.repair.options import RepairOptions
    from rmqtool.repair.survey import LogSurvey
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.place import Place


TOPICS: Final = "config/topics.json"
FROM_BACKUP: Final = "the content of its .bak, as the broker itself would read it"
BOTH_BROKEN: Final = (
    "no broker starts with them: bring one back from a backup, or --reset-config writes a new one"
)
NO_BACKUP: Final = (
    "a broker starts as if it had never been: bring it back from a backup if there is one"
)
NO_BACKUP_RESET: Final = f"{NO_BACKUP}, or --reset-config writes what the log proves"
NO_EPOCHS: Final = (
    "neither copy can be read: bring one back from a backup, or move both away; without epochs a "
    "slave copies the log of its master again"
)
ANEW: Final = "no copy of it is sound: a file that brokers load"
TO_BACKUP: Final = "a copy of the file that it is the backup of"


def edit(
    writer: EditWriter,
    survey: LogSurvey,
    findings: list[Finding],
    *,
    clamp: bool,
    options: RepairOptions,
) -> None:
    """Restore what cannot be parsed; move offsets that lie outside of their queue if asked to.

    Args:
        writer: takes the edits.
        survey: of the store.
        findings: what is wrong.
        clamp: offsets outside of their queue are set into it.
        options: files of which no copy is sound may be written anew, and topics put back.

    Raises:
        UsageError: offsets cannot be set as asked.
    """
    resets = options.reset_config
    defects = [finding for finding in findings if finding.severity is not Severity.NOTE]
    broken = sorted({defect.path for defect in defects if defect.code == CF_JSON})
    for path in broken:
        is_sound = partial(is_config, plain_name(path))
        _restore(writer, survey, path, CF_JSON, is_sound, resets=resets)
    for path in sorted({defect.path for defect in defects if defect.code == EP_CRC}):
        _restore(writer, survey, path, EP_CRC, _is_epoch)
    codes = {defect.code for defect in defects}
    changes: list[OffsetChange] = []
    if options.set_offset:
        from rmqtool.repair.state.set_offsets import OffsetChange  # few ask for it

        changes = [OffsetChange.parse(text) for text in options.set_offset]
    offsets.edit(writer, survey, frozenset(broken), clamps=clamp, known=codes, changes=changes)


def _restore(
    writer: EditWriter,
    survey: LogSurvey,
    path: str,
    code: Code,
    is_sound: Callable[[bytes], bool],
    *,
    resets: bool = False,
) -> None:
    """Put the other one of a file and its backup in its place."""
    is_backup = path.endswith(BACKUP)
    main = path.removesuffix(BACKUP)
    place = survey.inspection.child(path)
    raw = _read(survey.inspection.child(main if is_backup else main + BACKUP))
    if raw is not None and is_sound(raw) and (main != TOPICS or has_topics(raw)):
        reason = TO_BACKUP if is_backup else FROM_BACKUP
        writer.replace(place.location, Content.of(raw), code, reason)
    elif main == TOPICS:
        text = topics_text(survey)
        reason = "the topics that have queues, as many as there are, readable and writable"
        lost = "permissions, attributes and topics without a queue"
        writer.replace(place.location, Content.of(text.encode()), code, reason, lost=lost)
    elif resets and (anew := neutral(survey, main.rpartition("/")[2])) is not None:
        text, lost = anew
        writer.replace(place.location, Content.of(text.encode()), code, ANEW, lost=lost)
    elif code == CF_JSON:
        message = "it cannot be parsed, and no sound copy is beside it"
        name = main.rpartition("/")[2]
        stops = survey.inspection.store.config(name).stops_broker()
        why = BOTH_BROKEN if stops else NO_BACKUP_RESET if name in LOST else NO_BACKUP
        writer.leave(code, path, message, why)
    elif code == EP_CRC:
        writer.leave(code, path, EP_CRC.meaning, NO_EPOCHS)


def _read(place: Place) -> bytes | None:
    try:
        return place.read_whole(LARGEST_CONFIG)
    except UnreadablePath:
        return None


def is_config(name: str, raw: bytes) -> bool:
    """Tell whether bytes are a configuration file of a name, as brokers parse it."""
    with suppress(DecodeError):
        parse_file(raw, name=name, path="")
        return True
    return False


def has_topics(raw: bytes) -> bool:
    """Tell whether a `topics.json` names any: a broker deletes the queues of all that it does not.

    Source: DefaultMessageStore#cleanUnusedTopic, 4.9.3 to 5.5.0.
    """
    return bool(parse_object(raw, path="").get(TOPIC_TABLE))


def _is_epoch(raw: bytes) -> bool:
    from rmqtool.formats import epoch  # few brokers are replicated by a controller

    with suppress(DecodeError):
        file = epoch.decode(raw, path="")
        pairs = [(entry.epoch, entry.start_offset) for entry in file.entries]
        is_whole = file.count == len(pairs) and file.crc in {0, file.crc_found}
        return is_whole and pairs == sorted(pairs)
    return False


# Configuration back, where no copy of it is sound: neutral files, and what the log still tells.
#
# Topics and their queues follow from the log, delay offsets from the copies that were delivered.
# How
# far consumers were nobody knows: their groups begin as new ones do.
# See ConfigManager#load, TopicConfigManager, ScheduleMessageService#load, 4.9.3 to 5.5.0.


CONSUMED: Final = (
    "how far groups have consumed: each begins at the first or the last message, as its clients say"
)
LOST: Final = {
    OFFSETS_JSON: CONSUMED,
    LIGHT_OFFSETS_JSON: CONSUMED,
    GROUPS_JSON: "settings of groups: brokers create them again with defaults",
    FILTERS_JSON: "SQL92 subscriptions, until consumers register again",
    ORDERS_JSON: "which messages ordered pop consumers hold",
    MAPPINGS_JSON: "static topics",
    DELAYS_JSON: "nothing: delivery goes on at the first message without a delivered copy",
}


def neutral(survey: LogSurvey, name: str) -> tuple[str, str] | None:
    """Give the text of a file that a broker loads, and what is lost with the old one.

    Args:
        survey: of the store.
        name: such as `delayOffset.json`.

    Returns:
        None for a file that is not known, and where the log cannot be asked.
    """
    if name not in LOST:
        return None
    table: dict[str, int] = {}
    if name == DELAYS_JSON:
        try:
            from rmqtool.query.delay_offsets import delay_offsets  # it looks up messages

            offsets = delay_offsets(survey.inspection.store, _delay_queues(survey))
        except UnreadablePath:
            return None
        table = {str(level): offset for level, offset in offsets.items()}
    document = {TABLES[name]: table}
    if name == LIGHT_OFFSETS_JSON:
        document["lmqOffsetTable"] = {}
    return text_of(document, known_release(survey)), LOST[name]


def _delay_queues(survey: LogSurvey) -> list[tuple[int, int, int]]:
    queues = []
    for topic, queue_id in survey.ranges.names():
        if topic == SCHEDULE_TOPIC:
            first, end = survey.ranges.of(topic, queue_id) or (0, 0)
            queues.append((queue_id, first, end))
    return queues


def missing_topics(survey: LogSurvey) -> dict[str, int]:
    """Give the topics that the log has messages of, with more queues than are configured.

    Returns:
        How many queues each should have; empty without a `topics.json` that can be parsed.
    """
    inspection = survey.inspection
    document = inspection.document_with_path(TOPICS_JSON)
    if document is None or not document[1].startswith(TOPICS):
        return {}
    table = document[0].get(TOPIC_TABLE)
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
    topics_json = survey.inspection.document_with_path(TOPICS_JSON)
    if not wanted or topics_json is None:
        return
    document, path = topics_json
    table = document.setdefault(TOPIC_TABLE, {})
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
