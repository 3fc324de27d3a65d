"""Judge topics, groups and offsets in RocksDB against what is used, and against older copies: MV-*.

Source: TopicConfigManagerV2, SubscriptionGroupManagerV2, ConsumerOffsetManagerV2#assignResetOffset,
RocksDBConfigManager#loadDataVersion, 5.3.2 to 5.5.0; observed, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.broker.names import DLQ_PREFIX, RETRY_PREFIX, is_made_by_brokers, is_system_group
from rmqtool.errors import DecodeError
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_rocksdb import MV_STALE, MV_SWAP, MV_TOPIC
from rmqtool.formats import config, config_shapes, java
from rmqtool.store.config_files import read_config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.rocksdb.databases import Databases
    from rmqtool.findings.finding import Finding
    from rmqtool.formats.rocksdb_row import RocksdbRow

VERSION_2: Final = "config/rdb"
ONE: Final = "config/metadata"
# Database, its family of versions, the family in the one database, and the JSON file.
MANAGERS: Final = (
    ("config/topics", "topicVersion", "topics.json"),
    ("config/subscriptionGroups", "subscriptionGroupVersion", "subscriptionGroup.json"),
    ("config/consumerOffsets", "consumerOffsetVersion", "consumerOffset.json"),
)
VERSIONS: Final = "kvDataVersion"


def check(inspection: Inspection, databases: Databases) -> Iterator[Finding]:
    """Judge the metadata of either version."""
    if VERSION_2 in databases.rows:
        rows = [row for family in databases.rows[VERSION_2].values() for row in family]
        yield from _version_2(inspection, rows)
    else:
        yield from _stale(inspection, databases)


def _version_2(inspection: Inspection, rows: list[RocksdbRow]) -> Iterator[Finding]:
    """Find topics and groups that are used and not stored, and offsets with both swapped."""
    topics = {java.text(row.values["topic"]) for row in rows if row.kind == "topic"}
    groups = {java.text(row.values["group"]) for row in rows if row.kind == "group"}
    used = {topic for topic, _ in (*inspection.units("rocksdb"), *inspection.units("queues"))}
    consumers: set[str] = set()
    for row in rows:
        if row.kind not in {"consumer_offset", "pull_offset"}:
            continue
        topic, group = (java.text(row.values[name]) for name in ("topic", "group"))
        if group in used | topics and topic not in used | topics:
            message = f"group {group} and topic {topic} of an offset are swapped"
            yield finding(MV_SWAP, At(VERSION_2), message, actual=group)
            continue
        used.add(topic)
        consumers.add(group)
    for topic in sorted(used - topics):
        if not is_made_by_brokers(topic):
            message = f"topic {topic} has queues or offsets, and is not stored"
            yield finding(MV_TOPIC, At(VERSION_2), message, actual=topic)
    for group in sorted(consumers - groups):
        if not is_system_group(group) and not group.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            message = f"group {group} has offsets, and is not stored"
            yield finding(MV_TOPIC, At(VERSION_2), message, actual=group)


def _stale(inspection: Inspection, databases: Databases) -> Iterator[Finding]:
    """Find older copies that the next start would merge, as their counters are higher."""
    for path, family, name in MANAGERS:
        in_one = ONE in databases.rows
        own = _counter(databases.rows.get(path, {}).get(VERSIONS, []))
        counter = _counter(databases.rows[ONE].get(family, [])) if in_one else own
        if path not in databases.rows and not in_one:
            continue
        if in_one and own is not None and own > (counter or 0):
            message = f"{path} has a higher version counter than {ONE}"
            yield finding(MV_STALE, At(path), message, expected=counter, actual=own)
        in_json = read_config(inspection.child(f"config/{name}"), f"config/{name}")
        older = config_shapes.data_version(in_json.document).counter if in_json else None
        if older is not None and older > (counter or 0):
            message = f"{name} has a higher version counter than RocksDB"
            yield finding(MV_STALE, At(in_json.path), message, expected=counter, actual=older)


def _counter(rows: list[RocksdbRow]) -> int | None:
    """Give the counter of a data version of version 1; None without a row."""
    for row in rows:
        if row.kind == "version":
            try:
                found = config.parse_object(row.values["json"])
            except DecodeError:
                continue
            return config_shapes.data_version({"dataVersion": found}).counter
    return None
