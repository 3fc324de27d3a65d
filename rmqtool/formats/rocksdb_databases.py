"""RocksDB databases of a store: what each holds, since which release, and in which families.

Who opens a store asks this table, so it imports nothing; `rocksdb_families` reads the rows.
Source: ConsumeQueueRocksDBStorage, ConfigRocksDBStorage, ConfigStorage, MessageRocksDBStorage,
PopConsumerRocksdbStore, RocksDBConfigManager, LocalAuthenticationMetadataProvider, 5.1.4 to 5.5.0.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rmqtool.formats.config_names import GROUPS_JSON, OFFSETS_JSON, TOPICS_JSON

DEFAULT: Final = "default"  # the family that each database has
FORBIDDEN: Final = "forbidden"  # family of groups and topics, in either kind of database
QUEUES: Final = "consumequeue"
SEPARATE_QUEUES: Final = "consumequeue_rocksdb"
MESSAGE_STORE: Final = "rocksdbstore"
POP_STORE: Final = "kvStore"
ONE: Final = "config/metadata"  # of all three managers
VERSION_2: Final = "config/rdb"  # of all three, configManagerVersion=v2


class Manager(NamedTuple):
    """Where one manager of a broker keeps what it knows."""

    path: str  # the database of its own
    family: str  # its family in the database of all three

    def data_in(self, path: str) -> str:
        """Give the family of its rows in a database."""
        return self.family if path == ONE else DEFAULT

    def version_in(self, path: str) -> str:
        """Give the family of its data version in a database of version 1."""
        return f"{self.family}Version" if path == ONE else "kvDataVersion"


MANAGERS: Final = {
    TOPICS_JSON: Manager("config/topics", "topic"),
    GROUPS_JSON: Manager("config/subscriptionGroups", "subscriptionGroup"),
    OFFSETS_JSON: Manager("config/consumerOffsets", "consumerOffset"),
}
"""By the name of the JSON file."""


class DatabaseKind(NamedTuple):
    """What brokers keep in one database."""

    holds: str  # a phrase
    since: str  # the first release that writes it
    families: dict[str, str]  # names of readers in `rocksdb_families`; one without rows may lack
    is_secret: bool = False  # values hold passwords


_UNITS: Final = {DEFAULT: "unit", "offset": "offset"}
_JSON: Final = dict.fromkeys((DEFAULT, FORBIDDEN, "kvDataVersion"), "json")
_OF_ALL: Final = [
    name
    for manager in MANAGERS.values()
    for name in (manager.data_in(ONE), manager.version_in(ONE))
]
_TOGETHER: Final = "topics, subscription groups and consumer offsets"
DATABASES: Final = {
    QUEUES: DatabaseKind("the consume queues", "5.2.0", _UNITS),
    SEPARATE_QUEUES: DatabaseKind("the consume queues", "5.5.0", _UNITS),
    MESSAGE_STORE: DatabaseKind(
        "index, timer and transactions",
        "5.4.0",
        {DEFAULT: "index", "timer": "timer", "trans": "trans"},
    ),
    POP_STORE: DatabaseKind("the state of pop consumers", "5.3.2", {"popState": "pop"}),
    "config/topics": DatabaseKind("topics", "5.1.4", _JSON),
    "config/subscriptionGroups": DatabaseKind("subscription groups", "5.1.4", _JSON),
    "config/consumerOffsets": DatabaseKind("consumer offsets", "5.1.4", _JSON),
    ONE: DatabaseKind(_TOGETHER, "5.3.4", dict.fromkeys((*_OF_ALL, FORBIDDEN), "json")),
    VERSION_2: DatabaseKind(_TOGETHER, "5.3.2", {DEFAULT: "v2"}),
    "config/users": DatabaseKind("users", "5.3.0", {DEFAULT: "json"}, is_secret=True),
    "config/acls": DatabaseKind("access rules", "5.3.0", {DEFAULT: "json"}, is_secret=True),
}
"""By path below the store root. The default family is there though a database may have no rows in
it."""


def managers_in(path: str) -> tuple[str, ...]:
    """Give the JSON files whose content a database of metadata holds; none for other paths."""
    return tuple(
        name for name, manager in MANAGERS.items() if path in {manager.path, ONE, VERSION_2}
    )
