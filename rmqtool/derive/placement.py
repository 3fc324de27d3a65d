"""Which queues of a store are in files, and which are in RocksDB: asked here by all who compare.

Source: CombineConsumeQueueStore#putMessagePositionInfoWrapper, #shouldDoubleWriteForTopic, 5.5.1;
MultiDispatchUtils#checkMultiDispatchQueue, 5.5.0 and 5.5.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker import conf
from rmqtool.broker.names import LMQ_PREFIX, lite_parent, topic_text
from rmqtool.formats.config_names import TOPICS_JSON
from rmqtool.formats.config_shapes import topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqtool.broker.release import Version
    from rmqtool.broker.rules import Rules
    from rmqtool.store.tree import Store


class QueuePlacement(NamedTuple):
    """Where the queues of a store are that has some in RocksDB. Picklable."""

    light_only: bool = False  # light queues are in RocksDB alone
    # the lite topics, whose queues alone are in RocksDB; None where those of all topics are
    lite: frozenset[str] | None = None

    def in_files(self, topic: str) -> bool:
        """Tell whether the queues of a topic are in files, where the store has files."""
        return not (self.light_only and topic.startswith(LMQ_PREFIX))

    def in_rocksdb(self, topic: str) -> bool:
        """Tell whether the queues of a topic are in RocksDB."""
        return self.lite is None or (lite_parent(topic) or topic) in self.lite

    def nowhere(self, topic: str) -> bool:
        """Tell whether light queues are in neither: of topics that are not lite."""
        return not (self.in_files(topic) or self.in_rocksdb(topic))


ALL_IN_BOTH: Final = QueuePlacement()


def placement_of(
    store: Store,
    release: Rules,
    in_files: Iterable[str],
    in_rocksdb: Callable[[], Iterable[tuple[bytes, int]]],
    version: Version | None = None,
) -> QueuePlacement:
    """Say where the queues of a store are that has some in RocksDB, or is to have them.

    The configuration decides. Without a broker.conf, light queues are in RocksDB alone if none is
    in files, and lite topics alone are in RocksDB if it has no other, and files have others.
    Without topics.json, the topics that RocksDB has count as the lite ones.

    Args:
        store: whose configuration counts.
        release: of the broker.
        in_files: topics with queues in files.
        in_rocksdb: gives names of the queues in RocksDB; called where nothing else tells.
        version: that has to know a key; None: whoever has a key in its file knows it.
    """
    broker_conf = store.broker_conf
    if broker_conf is None:
        topics_in_files = {*in_files}
        has_light = any(topic.startswith(LMQ_PREFIX) for topic in topics_in_files)
        return QueuePlacement(not has_light, _apparent(store, topics_in_files, in_rocksdb))
    is_double = conf.DOUBLE_WRITE.of(broker_conf, version)
    light_only = (
        release.may_keep_light_queues_in_rocksdb
        and is_double
        and conf.LIGHT_QUEUES_IN_ROCKSDB.of(broker_conf, version)
    )
    if not (is_double and conf.SELECTIVE.of(broker_conf, version)):
        return QueuePlacement(light_only)
    lite = _lite(store) if store.config(TOPICS_JSON) else _parents(in_rocksdb)
    return QueuePlacement(light_only, lite)


def _lite(store: Store) -> frozenset[str]:
    """Give the topics that are configured as lite."""
    configured = topics(store.config(TOPICS_JSON).document)
    return frozenset(topic.topic for topic in configured if topic.is_lite)


def _parents(in_rocksdb: Callable[[], Iterable[tuple[bytes, int]]]) -> frozenset[str]:
    """Give the topics of the queues in RocksDB; of a light queue its lite topic."""
    names = {topic_text(topic) for topic, _ in in_rocksdb()}
    return frozenset(lite_parent(name) or name for name in names)


def _apparent(
    store: Store, in_files: set[str], in_rocksdb: Callable[[], Iterable[tuple[bytes, int]]]
) -> frozenset[str] | None:
    """Give the lite topics where only they are in RocksDB; None where it has others, too."""
    lite = _lite(store)
    if not lite or in_files <= lite:
        return None
    parents = _parents(in_rocksdb)
    return lite if parents and parents <= lite else None
