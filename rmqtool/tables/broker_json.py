"""Configuration as the JSON files that a broker with JSON metadata loads, wherever it lies.

Topics, groups and offsets of a store may lie in RocksDB (versions 1 and 2); other configuration is
JSON always. Users and access rules are no part of it: they hold secrets.
Source: ConfigManager, TopicConfigSerializeWrapper, SubscriptionGroupManager,
ConsumerOffsetManager, 4.9.3 to 5.5.0; observed, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from rmqtool.broker.names import LMQ_PREFIX
from rmqtool.errors import UnreadablePath, UsageError
from rmqtool.formats.config_names import LIGHT_OFFSETS_JSON, OFFSETS_JSON
from rmqtool.formats.config_shapes import TABLES, TOPIC_GROUP_SEPARATOR
from rmqtool.formats.rocksdb_databases import MANAGERS
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.config_files import CONFIG_NAMES
from rmqtool.store.tree import open_store
from rmqtool.writing.output import OutputDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.rows import Row
    from rmqtool.store.config_files import ConfigDocument
    from rmqtool.store.tree import Store

LIGHT_TABLE: Final = "lmqOffsetTable"


@dataclass(slots=True)
class WrittenConfig:
    """What became of the configuration."""

    rows: list[Row] = field(default_factory=list)  # of `BROKER_JSON`, a file each
    # what could not be read, with the reason; a start would lack it
    unread: list[str] = field(default_factory=list)


def write_broker_json(path: str, broker_conf: str | None, output: str) -> WrittenConfig:
    """Write the configuration of a store into a new directory, which may become its `config`.

    Nothing is written where nothing could be read.

    Args:
        path: a store root.
        broker_conf: the broker's configuration file.
        output: the new directory.

    Raises:
        UsageError: no store root.
        UnreadablePath: no configuration can be read.
        WriteFailed: the system refused.
    """
    store = open_store(path, broker_conf)
    if store.asked.kind is not ArtefactKind.STORE:
        reason = f"broker-json needs a store root, and {path} is a {store.asked.kind}"
        raise UsageError(option="--format", reason=reason)
    done = WrittenConfig()
    documents = list(_documents(store, done))
    if not documents:
        reason = "; ".join(done.unread) or "the store has no configuration"
        raise UnreadablePath(path=path, reason=reason)
    with OutputDirectory(output) as directory:
        for document in documents:
            text = json.dumps(document.document, indent=1, ensure_ascii=False)
            raw = text.encode("utf-8", "backslashreplace")
            directory.file(document.name, size=len(raw), pieces=[(0, raw)])
            row = {"file": document.name, "source": document.path, "entries": _entries(document)}
            done.rows.append({**row, "size": len(raw)})
    return done


def _documents(store: Store, done: WrittenConfig) -> Iterator[ConfigDocument]:
    """Yield each document that a start would load; what it could not is remembered."""
    for name in CONFIG_NAMES:
        document = store.config(name)
        done.unread += [problem.says for problem in document.problems]
        if name == LIGHT_OFFSETS_JSON and store.config_in_rocksdb.get(OFFSETS_JSON):
            document = _light_offsets(store.config(OFFSETS_JSON), document)
        if document:
            yield document


def _light_offsets(offsets: ConfigDocument, in_json: ConfigDocument) -> ConfigDocument:
    """Give the file that a broker with `enableLmq` reads instead of `consumerOffset.json`.

    Source: LmqConsumerOffsetManager#configFilePath, #decode, 4.9.3 to 5.5.0; observed, 5.3.3.
    """
    table = in_json.document.get(LIGHT_TABLE)
    light = dict(table) if isinstance(table, dict) else {}
    for pair, queues in offsets.document[TABLES[OFFSETS_JSON]].items():
        group = pair.partition(TOPIC_GROUP_SEPARATOR)[2]
        if isinstance(queues, dict) and group.startswith(LMQ_PREFIX):
            light |= dict.fromkeys([pair], next(iter(queues.values()), 0))
    document = {**offsets.document, LIGHT_TABLE: light}
    return replace(offsets, name=LIGHT_OFFSETS_JSON, document=document)


def _entries(document: ConfigDocument) -> int | None:
    """Count what one of the three great tables holds."""
    is_great = document.name in {*MANAGERS, LIGHT_OFFSETS_JSON}
    table = document.document.get(TABLES[document.name]) if is_great else None
    return len(table) if isinstance(table, dict) else None
