"""Which queues of a store are in files, and which are in RocksDB: asked here by all who compare.

Source: CombineConsumeQueueStore#putMessagePositionInfoWrapper, #shouldDoubleWriteForTopic, 5.5.1;
MultiDispatchUtils#checkMultiDispatchQueue, 5.5.0 and 5.5.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker import conf
from rmqtool.broker.names import LMQ_PREFIX, lite_parent, topic_text
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
    in files. Without topics.json, the topics that RocksDB has count as the lite ones.

    Args:
        store: whose configuration counts.
        release: of the broker.
        in_files: topics with queues in files.
        in_rocksdb: gives names of the queues in RocksDB; called where nothing else tells.
        version: that has to know a key; None: whoever has a key in its file knows it.
    """
    broker_conf = store.broker_conf
    if broker_conf is None:
        return QueuePlacement(not any(topic.startswith(LMQ_PREFIX) for topic in in_files))
    is_double = conf.DOUBLE_WRITE.of(broker_conf, version)
    light_only = (
        release.may_keep_light_queues_in_rocksdb
        and is_double
        and conf.LIGHT_QUEUES_IN_ROCKSDB.of(broker_conf, version)
    )
    if not (is_double and conf.SELECTIVE.of(broker_conf, version)):
        return QueuePlacement(light_only)
    configured = store.config("topics.json")
    if configured:
        lite = {topic.topic for topic in topics(configured.document) if topic.is_lite}
    else:
        names = {topic_text(topic) for topic, _ in in_rocksdb()}
        lite = {lite_parent(name) or name for name in names}
    return QueuePlacement(light_only, frozenset(lite))
