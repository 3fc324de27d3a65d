"""What a release does not read of what a store has: the preflight of an upgrade or a downgrade.

What stays unread is asked for in the whole store, and what is read in the store as that release
sees it. Messages that its start loses, or leaves out of reach, are counted by `losses` as ever.
Source: DefaultMessageStore, BrokerController, TopicConfigManager, PopConsumerService,
4.9.3 to 5.5.1.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rmqtool.broker import conf
from rmqtool.broker.names import TIMER_TOPIC, lite_parent
from rmqtool.errors import DamagedDatabase, DecodeError, EngineMissing, StoreError
from rmqtool.formats.config_names import GROUPS_JSON, OFFSETS_JSON, TOPICS_JSON
from rmqtool.formats.config_shapes import TABLES, consumer_offsets, topics
from rmqtool.formats.message import MESSAGE_MAGIC_CODE_V2, MESSAGE_PREFIX
from rmqtool.formats.rocksdb_databases import (
    DATABASES,
    DEFAULT,
    MESSAGE_STORE,
    POP_STORE,
    QUEUES,
    VERSION_2,
)
from rmqtool.formats.rocksdb_store import LAST_OFFSET
from rmqtool.plural import counted
from rmqtool.queues.discovery import Queues
from rmqtool.startup import known_bugs
from rmqtool.startup.extension import DIRECTORY as EXTENSION
from rmqtool.startup.load import entries, queue_directories
from rmqtool.startup.prediction import Unread
from rmqtool.startup.timers import timers_delivered, waiting_timers
from rmqtool.store.config_files import NEEDED_BY_5, is_known_config
from rmqtool.store.config_sources import (
    CONFIG,
    ConfigPresence,
    committed_offsets,
)
from rmqtool.store.config_sources import DATABASES as METADATA
from rmqtool.store.entry import EntryKind, printable
from rmqtool.store.rocksdb import is_queue_database
from rmqtool.store.root import is_known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.broker.conf import Key
    from rmqtool.broker.rules import Rules
    from rmqtool.formats.config_shapes import ConsumerOffset, TopicConfig
    from rmqtool.startup.commitlog import Recovered
    from rmqtool.startup.model import Model
    from rmqtool.store.tree import Store

DRAIN: Final = "let its consumers come to the end"
TO_JSON: Final = "mqadmin rocksDBConfigToJson writes them as JSON files"
NAMED: Final = 3  # topics that a sentence names
OF_OTHERS: Final = ("rmqtool-", "lost+found", ".")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A store, and what a start reads of it."""

    whole: Store  # with all that is there
    seen: Store  # as the release sees it
    model: Model  # of the start
    recovered: Recovered | None  # how the log is recovered; None where it does not come to that
    topics: list[TopicConfig] = field(default_factory=list)  # as the release that wrote it knows

    @property
    def rules(self) -> Rules:
        """Of the release that starts."""
        return self.model.rules

    @property
    def version(self) -> str:
        """The release that starts."""
        return str(self.rules.version)

    def is_on(self, key: Key[bool]) -> bool:
        """Tell whether the release knows a key, and it is on; without a broker.conf it may be."""
        if self.seen.broker_conf is None:
            return key.is_known_to(self.rules.version)
        return key.of(self.seen.broker_conf, self.rules.version)

    def hides(self, path: str) -> bool:
        """Tell whether a database that is there stays unread."""
        return path in self.seen.hidden


def unread_parts(
    whole: Store, seen: Store, model: Model, recovered: Recovered | None
) -> Iterator[Unread]:
    """Yield what a start does not read, that which costs messages first.

    What rmqtool itself cannot read is not known, and yielded, too.

    Args:
        whole: the store with all that is there.
        seen: the same as the release sees it.
        model: of the start.
        recovered: how the log is recovered; None where it does not come to that.
    """
    comparison = Comparison(
        whole, seen, model, recovered, [*topics(whole.config(TOPICS_JSON).document)]
    )
    for part in PARTS:
        try:
            yield from part(comparison)
        except (StoreError, EngineMissing, DecodeError) as error:
            message = f"not known whether {comparison.version} reads all of it: {error}"
            yield Unread("not known", str(getattr(error, "path", "")), None, message, "")


def _long_topics(comparison: Comparison) -> Iterator[Unread]:
    """Look for a record of version 2 where recovery ends the log."""
    recovered = comparison.recovered
    if comparison.rules.has_v2 or recovered is None:
        return
    for file in comparison.whole.commitlog.segments:
        if not file.start <= recovered.end < file.start + file.size:
            continue
        with file.open() as reader:
            prefix = reader.read_at(recovered.end - file.start, MESSAGE_PREFIX.size)
        is_whole = len(prefix) == MESSAGE_PREFIX.size
        if is_whole and MESSAGE_PREFIX["magic_code"].of(prefix) == MESSAGE_MAGIC_CODE_V2:
            message = f"{comparison.version} ends the log at the first topic of more than 127 bytes"
            before = "do not start this release on it; send the messages to another broker"
            yield Unread("records of version 2", file.path, None, message, before)


def _queues(comparison: Comparison) -> Iterator[Unread]:
    databases = [each for each in comparison.whole.rocksdb() if is_queue_database(each.path)]
    if not databases:
        return
    from rmqtool.queues.rocks import RocksQueues  # few stores have one
    from rmqtool.store.rocksdb_database import Database

    in_files = {key[:2] for key in queue_directories(comparison.whole.root.child(QUEUES))}
    rules = comparison.rules
    builds = rules.dispatches_from_queues or rules.normal_dispatches
    builds = not in_files and (builds or not comparison.model.stopped_cleanly)
    for database in databases:
        is_second = bool(in_files) and not rules.may_keep_light_queues_in_rocksdb
        if not (comparison.hides(database.path) or is_second):
            continue
        with Database(database.place, database.path) as opened:
            names = RocksQueues(opened).names
        alone = {(os.fsdecode(name), queue_id) for name, queue_id in names} - in_files
        if in_files and not alone:
            continue  # a second copy
        message = (
            f"{comparison.version} does not read {counted(len(alone), 'queue')} in RocksDB alone"
        )
        before = "rmqtool rebuild-cq writes the queues as files"
        if builds:
            message, before = f"{message}: it builds queues in files from the log", ""
        yield Unread("queues in RocksDB", database.path, len(alone), message, before)


def _batch_queues(comparison: Comparison) -> Iterator[Unread]:
    if comparison.rules.has_batch_queues:
        return
    if topics := {topic.topic for topic in comparison.topics if topic.is_batch_queue}:
        message = (
            f"{comparison.version} does not know batch queues: {_of_topics(topics)} of that kind"
        )
        yield Unread("batch queues", "batchconsumequeue", len(topics), message, DRAIN)


def _light_topics(comparison: Comparison) -> Iterator[Unread]:
    if comparison.rules.has_lite_topics:
        return
    parents: set[str] = set()
    with (
        suppress(DamagedDatabase),
        Queues(comparison.whole) as queues,
    ):  # `validate` says what is damaged
        parents = {lite_parent(topic) for topic in queues.topics()} - {""}
    if topics := parents | {topic.topic for topic in comparison.topics if topic.is_lite}:
        message = f"{comparison.version} does not know lite topics: no consumer of "
        message += f"{_of_topics(topics)} gets a message"
        yield Unread("lite topics", f"{CONFIG}/{TOPICS_JSON}", len(topics), message, DRAIN)


def _timers(comparison: Comparison) -> Iterator[Unread]:
    """Compare where timers wait with what the timer of the release reads."""
    has_timer = comparison.rules.has_timer and comparison.is_on(conf.TIMER_WHEEL)
    may_be_in_rocksdb = any(
        database.path == MESSAGE_STORE for database in comparison.whole.rocksdb()
    )
    if has_timer and (comparison.is_on(conf.TIMER_IN_ROCKSDB) or not may_be_in_rocksdb):
        return
    waiting = waiting_timers(comparison.whole)
    if not has_timer:
        if waiting:
            count = counted(len(waiting), "timer message")
            message = f"{comparison.version} has no timer here: {count} never delivered"
            before = "wait until they are delivered, or recall them"
            yield Unread("timers", "timerlog", len(waiting), message, before)
        return
    in_rocksdb = [row for row in waiting if row.get("waits_in") == "rocksdb"]
    if not in_rocksdb:
        return
    values = comparison.whole.timer_check() or {}
    first = values.get("last_timer_queue_offset", 0)
    numbers = [row.get("queue_offset") for row in in_rocksdb]
    passed = [number for number in numbers if isinstance(number, int) and number < first]
    again = timers_delivered(comparison.model, first)
    message = (
        f"{comparison.version} does not read timers in RocksDB: it goes on with offset {first} of "
    )
    message += f"{TIMER_TOPIC}; {counted(len(passed), 'timer message')} never delivered, "
    message += f"{again:,} delivered for the second time"
    before = "wait until they are delivered, or recall them"
    yield Unread("timers in RocksDB", MESSAGE_STORE, len(passed), message, before)


def _by_bugs(comparison: Comparison) -> Iterator[Unread]:
    yield from known_bugs.too_long(comparison.seen, comparison.rules)
    yield from known_bugs.recalled_timers(comparison.seen, comparison.rules)


def _transactions(comparison: Comparison) -> Iterator[Unread]:
    if comparison.is_on(conf.HALVES_IN_ROCKSDB):
        return
    count = _rows(comparison, MESSAGE_STORE, "trans")
    if count:
        halves = counted(count, "open half message")
        message = f"{comparison.version} does not check {halves} whose state is in RocksDB"
        before = "let producers commit or roll back; dump --as undecided lists them"
        yield Unread("transactions in RocksDB", MESSAGE_STORE, count, message, before)


def _pop(comparison: Comparison) -> Iterator[Unread]:
    """Count what consumers popped and did not acknowledge: it would not come to them again."""
    before = "let consumers acknowledge, or wait until the invisible time is over"
    if comparison.hides(POP_STORE) and (count := _in_flight(comparison.whole)):
        held = counted(count, "popped message")
        message = f"{comparison.version} does not read pop state in RocksDB: {held} without an "
        message += "acknowledgement never delivered again"
        after = f"{before}; mqadmin exportPopRecord moves them to the revive topic"
        yield Unread("pop state in RocksDB", POP_STORE, count, message, after)
    if comparison.rules.has_pop:
        return
    from rmqtool.tables.pop_acks import unacknowledged  # few releases do not

    offsets = committed_offsets(comparison.whole)
    known = {(row.topic, row.group, row.queue_id): row.queue_offset for row in offsets}
    if count := sum(1 for _ in unacknowledged(comparison.whole, known)):
        held = counted(count, "popped message")
        message = (
            f"{comparison.version} does not know pop: {held} without an acknowledgement never "
        )
        message += "delivered again"
        yield Unread("pop state", "consumequeue", count, message, before)


def _in_flight(store: Store) -> int:
    from rmqtool.tables.pending import pop_in_flight  # few stores have it

    return sum(1 for _ in pop_in_flight(store))


def _metadata(comparison: Comparison) -> Iterator[Unread]:
    """Compare topics, groups and offsets with those that the release finds."""
    presence = ConfigPresence(comparison.seen, comparison.rules.version)
    hidden = [path for path in sorted(comparison.seen.hidden) if path in METADATA]
    if not hidden and presence.sources.has_json:
        return
    for name, what in ((TOPICS_JSON, "topic"), (GROUPS_JSON, "consumer group")):
        known = comparison.whole.config(name)
        if entries := _entries(known.document, name) - _entries(presence.document(name), name):
            message = f"{comparison.version} does not know {counted(len(entries), what)}"
            yield Unread(f"{what}s", known.path, len(entries), message, _converted(known.path))
    yield from _offsets(comparison, presence)


def _converted(path: str) -> str:
    """Say how metadata come to where a release reads them."""
    if path == VERSION_2:
        return f"only a release with {conf.CONFIG_MANAGER.name}=v2 reads it"
    return TO_JSON if path in METADATA else "a start with them in JSON files merges them"


def _offsets(comparison: Comparison, presence: ConfigPresence) -> Iterator[Unread]:
    """Count what groups would consume again: those that go back, those that start over."""
    offsets = {_key(row): row.queue_offset or 0 for row in committed_offsets(comparison.whole)}
    rows = consumer_offsets(presence.document(OFFSETS_JSON))
    read = {_key(row): row.queue_offset or 0 for row in rows}
    lost = {key[1] for key in offsets.keys() - read.keys()}
    again = sum(max(offset - read.get(key, offset), 0) for key, offset in offsets.items())
    if not (lost or again):
        return
    parts = [f"{counted(again, 'message')} consumed for the second time"] if again else []
    if lost:
        groups = counted(len(lost), "consumer group")
        parts.append(f"{groups} without an offset, at the first or the last message")
    message = f"{comparison.version} does not read the newest consumer offsets: {', '.join(parts)}"
    where = comparison.whole.config(OFFSETS_JSON).path
    yield Unread("consumer offsets", where, len(lost), message, _converted(where))


def _key(row: ConsumerOffset) -> tuple[str, str, int]:
    return row.topic, row.group, row.queue_id


def _entries(document: dict[str, object], name: str) -> set[str]:
    table = document.get(TABLES[name])
    return set(table) if isinstance(table, dict) else set()


def _access(comparison: Comparison) -> Iterator[Unread]:
    for path, what in (("config/users", "users"), ("config/acls", "access rules")):
        if comparison.hides(path) and (count := _rows(comparison, path, DEFAULT)):
            message = (
                f"{comparison.version} does not know {what} in RocksDB: it does not check them"
            )
            yield Unread(what, path, count, message, "set access rules of that release")


def _index(comparison: Comparison) -> Iterator[Unread]:
    if comparison.is_on(conf.INDEX_IN_ROCKSDB):
        return
    if count := _rows(comparison, MESSAGE_STORE, DEFAULT):
        message = f"{comparison.version} does not read the key index in RocksDB: "
        message += f"{counted(count, 'entry', 'entries')} not found by key"
        before = "rmqtool rebuild-index writes it as files"
        yield Unread("key index in RocksDB", MESSAGE_STORE, count, message, before)


def _tags(comparison: Comparison) -> Iterator[Unread]:
    broker_conf = comparison.seen.broker_conf
    if broker_conf is None or conf.EXT.of(broker_conf, comparison.rules.version):
        return
    if any(True for _ in comparison.whole.ext_queues()):
        message = f"{conf.EXT.name} is off: consumers with tags or SQL92 filters do not get "
        message += "messages whose tags codes are in the extension"
        yield Unread("extension of queues", EXTENSION, None, message, f"set {conf.EXT.name}=true")


def _compaction(comparison: Comparison) -> Iterator[Unread]:
    if comparison.rules.has_compaction and conf.COMPACTION.of(
        comparison.seen.broker_conf, comparison.rules.version
    ):
        return
    if topics := {topic.topic for topic in comparison.topics if topic.is_compaction}:
        message = (
            f"{comparison.version} does not compact here: consumers of {_of_topics(topics)} get "
        )
        message += "older messages of each key again"
        yield Unread("compacted topics", "compaction", len(topics), message, "")


def _attributes(comparison: Comparison) -> Iterator[Unread]:
    """Name what a release before 5.0.0 drops from its configuration as soon as it writes it."""
    if comparison.rules.has_state_version:
        return
    if topics := {topic.topic for topic in comparison.topics if topic.attributes}:
        message = (
            f"{comparison.version} drops the attributes of {_of_topics(topics)} when it writes "
        )
        message += f"{TOPICS_JSON}: a later upgrade finds them gone"
        before = f"keep a copy of {CONFIG}/{TOPICS_JSON}"
        yield Unread(
            "attributes of topics", f"{CONFIG}/{TOPICS_JSON}", len(topics), message, before
        )
    for name in NEEDED_BY_5:
        if count := len(_entries(comparison.whole.config(name).document, name)):
            message = (
                f"{comparison.version} does not read {name}: {counted(count, 'entry', 'entries')}"
            )
            yield Unread(name, f"{CONFIG}/{name}", count, message, "")


def _unknown(comparison: Comparison) -> Iterator[Unread]:
    """Name directories and JSON files that no table of rmqtool has: nobody knows who reads them."""
    configured = {artefact.path.partition("/")[0] for artefact in comparison.whole.branches}
    names = [
        entry.name
        for entry in entries(comparison.whole.root)
        if entry.kind is EntryKind.DIRECTORY and not _is_known(entry.name)
        if entry.name not in configured
    ]
    config = entries(comparison.whole.root.child(CONFIG))
    names += [
        f"{CONFIG}/{entry.name}"
        for entry in config
        if entry.kind is EntryKind.FILE and not is_known_config(entry.name)
    ]
    for name in sorted(names):
        message = f"not known whether {comparison.version} reads {printable(name)}"
        yield Unread("not known", printable(name), None, message, "")


def _is_known(name: str) -> bool:
    """Tell whether a directory in the root is of brokers, of rmqtool or of the file system."""
    return is_known(name) or name in DATABASES or name.startswith(OF_OTHERS)


def _of_topics(topics: Iterable[str]) -> str:
    names = sorted(topics)
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"{counted(len(names), 'topic')} ({', '.join(names[:NAMED])}{more})"


def _rows(comparison: Comparison, path: str, family: str) -> int:
    """Count the rows of a family of a database; without the marks of its writer."""
    for database in comparison.whole.rocksdb():
        if database.path == path and not database.is_empty:
            from rmqtool.store.rocksdb_database import Database  # few stores have one

            with Database(database.place, path) as opened:
                batches = opened.rows(family)
                return sum(sum(key != LAST_OFFSET for key in batch.keys) for batch in batches)
    return 0


PARTS: Final[tuple[Callable[[Comparison], Iterator[Unread]], ...]] = (
    *(_long_topics, _queues, _batch_queues, _light_topics, _timers, _by_bugs, _transactions),
    _pop,
    *(_metadata, _access, _index, _tags, _compaction, _attributes, _unknown),
)
