"""Move committed offsets that lie outside of their queue, when the user asks for it.

A consumer offset ahead of its queue's end is set to that end: what comes next is consumed. One
below the queue's first message is set to that message, as the broker would do with the next pull.
The offset of a delay level is set to the first message without a delivered copy: at the queue's
end, those that still wait would never be delivered.
Source: ConsumerOffsetManager, ScheduleMessageService, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import json
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rmqtool.broker.names import LMQ_PREFIX, SCHEDULE_TOPIC
from rmqtool.broker.release import LINES
from rmqtool.broker.rules import Rules
from rmqtool.errors import UnreadablePath, UsageError
from rmqtool.findings.registry_state import CO_RANGE, DO_RANGE
from rmqtool.formats.config_names import DELAYS_JSON, OFFSET_TABLE, OFFSETS_JSON, TOPIC_TABLE
from rmqtool.formats.rocksdb_databases import managers_in
from rmqtool.queues.discovery import UNIT_FAMILIES
from rmqtool.repair.log.content import Content
from rmqtool.repair.queues.ends_after import EndsAfter, with_repaired_queues
from rmqtool.store.config_files import BACKUP
from rmqtool.store.config_sources import CONFIG

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from rmqtool.findings.catalogue import Code
    from rmqtool.repair.state.set_offsets import OffsetChange
    from rmqtool.repair.survey import LogSurvey
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.tree import Store


NEW_DATABASE: Final = "brokers make a new one, and take the JSON file into it"
ASKED: Final = "offsets are set as --set-offset says"
REASON: Final = "offsets outside of their queue are set to its first message, or to its end"
CLAMPED: Final = "--clamp-offsets sets it to the queue's end, so that the next message is consumed"
WAITING: Final = "--clamp-offsets sets it to the first message that was not delivered yet"


def edit(
    writer: EditWriter,
    survey: LogSurvey,
    restored: frozenset[str],
    *,
    clamps: bool,
    known: Container[Code],
    changes: Sequence[OffsetChange] = (),
) -> None:
    """Clamp consumer offsets and delay offsets, or name those that will be ahead of their queue.

    Args:
        writer: takes the edits; those of the configuration are there already.
        survey: tells where queues end.
        restored: paths of files that cannot be parsed as they are.
        clamps: all of them; else only those of queues that begin anew.
        known: codes of what was found, which the plan names anyhow.
        changes: committed offsets that are set, cloned or removed.

    Raises:
        UsageError: a change cannot be made.
    """
    ends = EndsAfter(survey, writer)
    meant = _Offsets(
        ends,
        None if clamps else frozenset(survey.queues.dropped),
        lifts=clamps,
        store=survey.inspection.store,
    )
    ahead = _Offsets(ends, None, lifts=False)
    for name, code, change, tell, remedy in (
        (OFFSETS_JSON, CO_RANGE, meant.consumers, ahead.consumers, CLAMPED),
        (DELAYS_JSON, DO_RANGE, meant.delays, ahead.delays, WAITING),
    ):
        offsets_json = survey.inspection.document_with_path(name)
        if offsets_json is None or not offsets_json[1].removesuffix(BACKUP).endswith(".json"):
            if changes and code is CO_RANGE:
                from rmqtool.repair.state.set_offsets import OPTION, set_offsets  # few ask for it

                if offsets_json is None:
                    problems = survey.inspection.store.config(name).problems
                    why = "; ".join(problem.says for problem in problems)
                    raise UsageError(option=OPTION, reason=why or f"there is no {name}")
                document = deepcopy(offsets_json[0])
                repaired = with_repaired_queues(survey, writer)
                asked = set_offsets(document, changes, ends, repaired)
                if asked:
                    _replace_database(writer, survey, offsets_json[1], document, asked)
            continue  # not there, or in RocksDB
        document, main = deepcopy(offsets_json[0]), f"config/{name}"
        path = main if main in restored else offsets_json[1]
        changed, asked = change(document), list[str]()
        if changes and code is CO_RANGE:
            from rmqtool.repair.state.set_offsets import set_offsets

            asked = set_offsets(document, changes, ends, with_repaired_queues(survey, writer))
            changed += asked
        if changed:
            place = survey.inspection.child(path)
            content = Content.of(text_of(document, known_release(survey)).encode())
            before = writer.forget(place.location)
            reason = ASKED if changed == asked else REASON
            reason = f"{before.reason}; {reason}" if before else reason
            of = before.code if before else code
            writer.replace(place.location, content, of, reason, lost="; ".join(changed))
        if code not in known and (left := tell(document)):
            message = f"{left[0]}: the offset lies ahead of the queue's end"
            writer.leave(code, path, message, remedy)
    ends.close()


def _replace_database(
    writer: EditWriter, survey: LogSurvey, path: str, document: dict[str, Any], asked: list[str]
) -> None:
    """Put a file in the place of a database of offsets: brokers take it into a new database.

    They do so where its counter is above that of the database, which is 0 of a new one.
    Source: RocksDBConsumerOffsetManager#merge, 5.3.2 to 5.5.1; observed, 5.3.3 and 5.5.0.

    Args:
        writer: takes the edits.
        survey: of the store.
        path: of the database.
        document: with the offsets as they are to be.
        asked: what was changed.

    Raises:
        UsageError: the database has more than offsets.
    """
    if managers_in(path) != (OFFSETS_JSON,):
        from rmqtool.repair.state.set_offsets import OPTION

        reason = f"{path} has topics and groups, too: set offsets with mqadmin once a broker runs"
        raise UsageError(option=OPTION, reason=reason)
    version = {"counter": 1, "stateVersion": 0, "timestamp": survey.facts.newest_time}
    text = text_of({"dataVersion": version, **document}, known_release(survey))
    content = Content.of(text.encode())
    writer.remove(survey.inspection.child(path).location, CO_RANGE, NEW_DATABASE)
    for name in (OFFSETS_JSON, f"{OFFSETS_JSON}{BACKUP}"):
        place = survey.inspection.child(f"{CONFIG}/{name}")
        if place.stat() is not None:
            writer.replace(place.location, content, CO_RANGE, ASKED, lost="; ".join(asked))
        elif name == OFFSETS_JSON:
            writer.create(place.location, content, CO_RANGE, ASKED, lost="; ".join(asked))


@dataclass(frozen=True, slots=True)
class _Offsets:
    """Offsets that are set into their queues."""

    ends: EndsAfter  # where queues will begin and end
    only: frozenset[tuple[str, int]] | None  # queues whose offsets are meant; None is all
    lifts: bool  # whether offsets below a queue's first message are meant, too
    # is asked for the copies of delayed messages; None where offsets are only judged
    store: Store | None = None

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
        offsets = document.get(OFFSET_TABLE)
        changed: list[str] = []
        if not isinstance(offsets, dict):
            return changed
        for level, offset in offsets.items():
            if not level.isdecimal():
                continue
            now = self._inside(SCHEDULE_TOPIC, str(int(level) - 1), offset)
            if now != offset:
                offsets[level] = now = self._first_waiting(int(level), now)
                changed.append(f"delay level {level}: {offset}, now {now}")
        return changed

    def _first_waiting(self, level: int, nearest: object) -> object:
        """Give the queue offset of the first message of a level that has no delivered copy."""
        queue_id = level - 1
        waiting = self.ends.of(SCHEDULE_TOPIC, queue_id)
        if self.store is None or waiting is None:
            return nearest
        from rmqtool.query.delay_offsets import delay_offsets  # it looks up messages

        with suppress(UnreadablePath):  # then the nearest offset is as good as any
            places = [(queue_id, waiting.start, waiting.stop)]
            return delay_offsets(self.store, places)[level]
        return nearest

    def _inside(self, topic: str, queue: str, offset: object) -> object:
        """Give an offset as it is, or the nearest one that lies inside of its queue."""
        if not isinstance(offset, int) or not queue.isdecimal():
            return offset
        name = (topic, int(queue))
        if self.only is not None and name not in self.only:
            return offset
        waiting = self.ends.of(*name)
        if waiting is None:
            return offset
        first = waiting.start if self.lifts else offset
        return min(max(offset, first), waiting.stop)


def _tables(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    table = document.get(OFFSET_TABLE)
    yield from table.items() if isinstance(table, dict) else ()


# Configuration files as brokers write them: JSON whose maps with number keys have bare keys.
#
# See TopicConfigSerializeWrapper, ConsumerOffsetManager, 4.9.3 to 5.5.0; fastjson 1.2, fastjson2.


FIRST: Final = min(LINES.values())
PERMISSION: Final = 6  # read and write


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
    batch, known = batch_topics(survey), known_release(survey)
    release = known or Rules(FIRST)
    table = {
        topic: topic_entry(release, topic, count, is_batch=topic in batch)
        for topic, count in sorted(queue_counts(survey).items())
    }
    if known is None:
        return text_of({TOPIC_TABLE: table})
    version: dict[str, Any] = {"counter": 1}
    if release.has_state_version:
        version["stateVersion"] = 0
    version["timestamp"] = survey.facts.newest_time
    return text_of({"dataVersion": version, TOPIC_TABLE: table})


def known_release(survey: LogSurvey) -> Rules | None:
    """Give the release that a store tells, or somebody named; None for neither."""
    scope = survey.inspection.scope
    return scope.release if scope.is_release_known else None


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


def text_of(value: object, release: Rules | None = None, depth: int = 0) -> str:
    """Give JSON as brokers print it: tabs, no space after a colon, bare number keys.

    Args:
        value: plain JSON.
        release: of the broker; None where nothing tells it: the layout must not do so.
        depth: of the value.
    """
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if not value:
        return "{}"
    is_numbered = all(key.lstrip("-").isdecimal() for key in value)
    pad, end = "\t" * (depth + 1), "\n" + "\t" * depth
    names = value if is_numbered else [json.dumps(key, ensure_ascii=False) for key in value]
    lines = [
        f"{name}:{text_of(item, release, depth + 1)}"
        for name, item in zip(names, value.values(), strict=True)
    ]
    if is_numbered and (release is None or not release.spreads_number_keys):
        return ("{" if release else "{ ") + ",".join(lines) + end + "}"
    return "{\n" + ",\n".join(pad + line for line in lines) + end + "}"
