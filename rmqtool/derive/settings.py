"""The dispatch rules of a store: from its configuration where that is known, else its files."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from rmqtool.broker import conf
from rmqtool.broker.dispatch import DispatchRules, parse_delay_levels
from rmqtool.broker.names import LMQ_PREFIX, SCHEDULE_TOPIC
from rmqtool.broker.rules import Rules
from rmqtool.derive.delays import SAMPLED_UNITS, observed_delays
from rmqtool.derive.placement import placement_of
from rmqtool.errors import UnreadablePath
from rmqtool.formats import config_shapes
from rmqtool.formats.config_names import LIGHT_OFFSETS_JSON, TOPICS_JSON
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE
from rmqtool.formats.rocksdb_queue import ROCKSDB_CQ_UNIT
from rmqtool.queues.discovery import Queues
from rmqtool.store.rocksdb import is_queue_database

if TYPE_CHECKING:
    from rmqtool.broker.release import Version
    from rmqtool.queues.rocks import RocksQueues
    from rmqtool.store.tree import Store


def rules_of(store: Store, version: Version) -> DispatchRules:
    """Give the rules by which a broker of a release dispatches the log of a store.

    Without a broker.conf the delay levels are what the queues of delayed messages show, else
    RocketMQ's default, and records go to light queues if the store has such queues, or none at
    all: a record names their queue offsets only where a broker sent it there.

    Args:
        store: whose configuration counts.
        version: release of the broker.
    """
    broker_conf, release = store.broker_conf, Rules(version)
    delays = parse_delay_levels(conf.DELAY_LEVELS.of(broker_conf))
    if broker_conf is None:
        multi_dispatch = lmq = has_lmq_queues(store)
    else:
        in_rocksdb = placement_of(store, release, (), tuple).light_only
        multi_dispatch = conf.MULTI_DISPATCH.of(broker_conf) and not in_rocksdb
        lmq = conf.LMQ.of(broker_conf)
    return DispatchRules(
        release,
        observed_delays(store, delays) if conf.DELAY_LEVELS.given(broker_conf) is None else delays,
        multi_dispatch,
        lmq,
        store.batch_topics,
        _seen_batch_topics(store),
    )


def _seen_batch_topics(store: Store) -> frozenset[str]:
    """Give the topics that have batch queues and are in no `topics.json` any more."""
    try:
        topics = Queues(store).batches.topics()
    except UnreadablePath:
        return frozenset()
    if not topics:
        return frozenset()
    configured = config_shapes.topics(store.config(TOPICS_JSON).document)
    return frozenset(topics).difference(topic.topic for topic in configured)


def rocksdb_rules(
    store: Store, rules: DispatchRules, queues: RocksQueues | None, *, has_files: bool
) -> DispatchRules:
    """Give the rules for a store with queues in RocksDB, alone or beside files.

    Light queues in RocksDB need enableLmq alone, and RocksDB has no batch queues: an inner batch
    takes one unit. Without a broker.conf, units tell the delay levels: they hold both times.
    Source: RocksDBConsumeQueueStore#putMessagePosition, 5.2.0 to 5.5.0.

    Args:
        store: whose configuration counts.
        rules: what they are without RocksDB.
        queues: in RocksDB; None where they cannot be read, or are to be made.
        has_files: whether the store has queues in files, too.

    Raises:
        DamagedDatabase: RocksDB cannot read the queues.
    """
    broker_conf = store.broker_conf
    topics = queues.names.topics if queues else []
    light = queues is None or any(topic.startswith(LMQ_PREFIX.raw) for topic in topics)
    lmq = light if broker_conf is None else conf.LMQ.of(broker_conf)
    levels = rules.delay_levels_ms
    if queues is not None and conf.DELAY_LEVELS.given(broker_conf) is None:
        levels = _stored_delays(queues, levels)
    return rules._replace(
        multi_dispatch=rules.multi_dispatch or lmq,
        lmq=rules.lmq or lmq,
        batch_topics=rules.batch_topics if has_files else frozenset(),
        seen_batch_topics=rules.seen_batch_topics if has_files else frozenset(),
        delay_levels_ms=levels,
    )


def _stored_delays(queues: RocksQueues, levels: tuple[int, ...]) -> tuple[int, ...]:
    """Put in place of a level what most of its units show: deliver time less store time."""
    ours = list(levels)
    topic = SCHEDULE_TOPIC.raw
    for queue_id in queues.names.numbers_of(topic):
        if not 0 <= queue_id < len(ours):
            continue
        queue = queues.queue(topic.decode(), queue_id)
        stored = islice(queue.stored() if queue else (), SAMPLED_UNITS)
        units = (ROCKSDB_CQ_UNIT.parse(value) for _, value in stored)
        delays = Counter(unit["tags_code"] - unit["store_timestamp"] for unit in units)
        if delays:
            ours[queue_id] = delays.most_common(1)[0][0]
    return tuple(ours)


def run_units(store: Store) -> int:
    """Give the units of a consume queue file, where runs are cut."""
    return store.geometry.consume_queue.value // CQ_UNIT_SIZE


def has_lmq_queues(store: Store) -> bool:
    """Tell whether a light queue (LMQ) may lie among the consume queues.

    One does, or no queue does, or consumers have offsets in light queues: those are gone, then.
    """
    try:
        topics = Queues(store).files.topics()
        if not topics or any(topic.startswith(LMQ_PREFIX) for topic in topics):
            return True
        if any(is_queue_database(database.path) for database in store.rocksdb()):
            return False
    except UnreadablePath:
        return True
    return any(config_shapes.lmq_consumer_offsets(store.config(LIGHT_OFFSETS_JSON).document))
