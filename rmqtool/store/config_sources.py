"""Where a start looks for topics, groups and offsets, and whether anything is there.

A broker writes topics and groups when they change, and offsets every few seconds and at each stop.
So where messages are, and nothing of that is, it was lost: a start then takes its defaults, and
says nothing.
Source: BrokerController#initialize, ConfigManager#load, ConfigManager#persist,
RocksDBTopicConfigManager, ConfigStorage, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmqtool.broker import conf
from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.formats import config_shapes
from rmqtool.formats.config_names import LIGHT_OFFSETS_JSON, OFFSETS_JSON
from rmqtool.formats.rocksdb_databases import MANAGERS, ONE, VERSION_2
from rmqtool.store.artefact import TIMER_CHECK, ArtefactKind, FamilyDepth
from rmqtool.store.config_files import BACKUP, CONFIG_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.tree import Store

CONFIG: Final = "config"
SEPARATE: Final = frozenset(manager.path for manager in MANAGERS.values())
DATABASES: Final = SEPARATE | {VERSION_2, ONE}


class ConfigSources(NamedTuple):
    """What a start reads topics, groups and offsets of consumers from."""

    has_json: bool  # JSON files; beside a database those that are newer
    databases: frozenset[str]  # paths of RocksDB databases, relative to the store root


def sources_of(store: Store, version: Version) -> ConfigSources:
    """Say what a start of a release reads; without a broker.conf, whatever is there.

    Raises:
        UnreadablePath: a directory may not be listed.
    """
    broker_conf = store.broker_conf
    if broker_conf is None:
        there = DATABASES.intersection(
            database.path
            for database in store.rocksdb()
            if Version.known(database.since) <= version
        )
        return ConfigSources(VERSION_2 not in there, there)
    if conf.CONFIG_MANAGER.of(broker_conf, version) == conf.SECOND_CONFIG_MANAGER:
        return ConfigSources(False, frozenset({VERSION_2}))
    if conf.STORE_TYPE.of(broker_conf, version) != conf.ROCKSDB_STORE:
        return ConfigSources(True, frozenset())
    if conf.ONE_CONFIG_DATABASE.of(broker_conf, version):
        return ConfigSources(True, frozenset({ONE}))
    return ConfigSources(True, SEPARATE)


class ConfigPresence:
    """Which configuration is there, sound or not.

    Args:
        store: a whole store.
        version: of the broker that would start.

    Raises:
        UnreadablePath: a directory may not be listed.
    """

    def __init__(self, store: Store, version: Version) -> None:
        self._store = store
        self.sources = sources_of(store, version)
        read = self.sources.databases
        if ONE in read:  # a start takes along what it finds in those of before
            read |= SEPARATE
        self._databases = {database.path for database in store.rocksdb()} & read
        self._files = _files(store)
        self._is_light = conf.LMQ.of(store.broker_conf, version)
        self._has_timer = (
            Rules(version).has_timer
            and conf.TIMER_WHEEL.of(store.broker_conf, version)
            and not conf.TIMER_IN_ROCKSDB.of(store.broker_conf, version)
        )

    @property
    def has_any(self) -> bool:
        """Whether any file that brokers load, or database of it, is there."""
        names = {name.removesuffix(BACKUP) for name in self._files}
        return bool(self._databases or names.intersection(CONFIG_NAMES))

    def has(self, name: str) -> bool:
        """Tell whether a start finds a file, its backup, or the database that stands for it.

        Args:
            name: such as `topics.json`.
        """
        manager = MANAGERS.get(name)
        if manager is None:
            return self.has_file(name)
        if self._databases & {manager.path, ONE, VERSION_2}:
            return True
        return self.sources.has_json and self.has_file(self.file_of(name))

    @property
    def lacks_timer_check(self) -> bool:
        """Whether a broker with a timer finds no `timercheck`, and so begins with the first timer.

        Source: TimerCheckpoint, TimerMessageStore#recover, 5.0.0 to 5.5.0; observed, 5.3.3.
        """
        return self._has_timer and TIMER_CHECK not in self._files

    def is_lost(self, name: str) -> bool:
        """Tell whether a start finds nothing, or nothing that it can read."""
        if not self.has(name):
            return True
        document = self._store.config(self.file_of(name))
        return not document and bool(document.problems)

    def file_of(self, name: str) -> str:
        """Give the name of the JSON file that a start reads; with enableLmq offsets have another.

        Source: LmqConsumerOffsetManager#configFilePath, 4.9.3 to 5.5.0.
        """
        if name != OFFSETS_JSON or self.sources.databases:
            return name
        is_known = self._store.broker_conf is not None
        is_light = self._is_light if is_known else self.has_file(LIGHT_OFFSETS_JSON)
        return LIGHT_OFFSETS_JSON if is_light else name

    def document(self, name: str) -> dict[str, Any]:
        """Give what a start would load; empty where there is nothing, or nothing that is sound."""
        return self._store.config(self.file_of(name)).document if self.has(name) else {}

    def has_file(self, name: str) -> bool:
        """Tell whether a JSON file or its backup is there, by its own name."""
        return not self._files.isdisjoint({name, name + BACKUP})


def _files(store: Store) -> frozenset[str]:
    for artefact in store.branches_of(ArtefactKind.CONFIG):
        if artefact.level is not FamilyDepth.FILE:
            return frozenset(name for name, _ in artefact.place.names())
    return frozenset()


def committed_offsets(store: Store) -> Iterator[config_shapes.ConsumerOffset]:
    """Yield the offset of each group in each queue.

    With enableLmq, `lmqConsumerOffset.json` holds those of ordinary queues, too, and
    `consumerOffset.json` is not read: where both know a queue, the former counts.
    Source: LmqConsumerOffsetManager#configFilePath, #decode, 4.9.3 to 5.5.0.
    """
    light = store.config(LIGHT_OFFSETS_JSON).document
    offsets = {
        (offset.topic, offset.group, offset.queue_id): offset
        for document in (store.config(OFFSETS_JSON).document, light)
        for offset in config_shapes.consumer_offsets(document)
    }
    yield from offsets.values()
    yield from config_shapes.lmq_consumer_offsets(light)
