"""Configuration and checkpoint of the new store.

Topics, groups and, where messages keep their queue offsets, offsets of consumers come from the
stores that were read. An offset of a queue that the new log does not have is left out: the queue
begins at 0 again. One past the end of its queue is lowered to the end.
Source: ConfigManager#load, StoreCheckpoint, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rmqtool.broker.names import LMQ_PREFIX, SCHEDULE_TOPIC, is_system_topic
from rmqtool.formats.checkpoint import CHECKPOINT, FILE_LENGTH
from rmqtool.formats.config_names import (
    DELAYS_JSON,
    FILTERS_JSON,
    GROUPS_JSON,
    LIGHT_OFFSETS_JSON,
    MAPPINGS_JSON,
    MODES_JSON,
    OFFSET_TABLE,
    OFFSETS_JSON,
    TOPIC_TABLE,
    TOPICS_JSON,
)
from rmqtool.formats.config_shapes import TABLES, TOPIC_GROUP_SEPARATOR, topics
from rmqtool.formats.consume_queue import QueueKind
from rmqtool.formats.java import parse_long
from rmqtool.formats.timer import CHECK_FILE_LENGTH
from rmqtool.query.delay_offsets import delivered_levels
from rmqtool.relog.options import QueueOffsets
from rmqtool.repair.state.offsets import text_of, topic_entry
from rmqtool.store.artefact import TIMER_CHECK, ArtefactKind
from rmqtool.store.config_sources import CONFIG
from rmqtool.store.record_heads import LogReader
from rmqtool.store.tree import open_store
from rmqtool.store.used import data_stretches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rmqtool.broker.rules import Rules
    from rmqtool.rebuild.options import RebuildResult
    from rmqtool.store.tree import Store
    from rmqtool.writing.output_tree import OutputTree

    Document = dict[str, Any]
    QueueEnds = Mapping[tuple[str, int], int]

TIMER_FILES: Final = (ArtefactKind.TIMER_WHEEL, ArtefactKind.TIMER_LOG, ArtefactKind.TIMER_CHECK)
PIECE_BYTES: Final = 1 << 20
COPIED: Final = (TOPICS_JSON, GROUPS_JSON, FILTERS_JSON, MAPPINGS_JSON, MODES_JSON)


def write_state(
    tree: OutputTree,
    stores: Sequence[Store],
    built: RebuildResult,
    queue_offsets: QueueOffsets,
) -> int:
    """Write `config` and `checkpoint`; and `abort` where a start has to hand messages over.

    What a compaction topic has is read from `compaction/` alone, and only a start after a crash
    that begins with the first file fills that: see `repair.state.redispatch`.

    Args:
        tree: the new store.
        stores: that were read; an entry of an earlier one wins.
        built: what queues and index there are.
        queue_offsets: whether messages have those that they had.

    Returns:
        Offsets of consumers that were carried along.
    """
    compacted: set[str] = set()
    for name in COPIED:
        document = _merged(stores, name, TABLES[name])
        if name == TOPICS_JSON:
            document = _with_topics(document, built)
            compacted = {topic.topic for topic in topics(document) if topic.is_compaction}
        if document:
            _write(tree, name, document, built.rules.release)
    kept = stores if queue_offsets is QueueOffsets.KEEP else ()  # new numbers begin at 0
    carried = _write_offsets(tree, kept, built)
    hands_over = any(queue.topic in compacted for queue in built.queues)
    if hands_over:
        tree.file(ArtefactKind.ABORT, size=0)
    _write_checkpoint(tree, built, has_times=not hands_over)
    return carried


def _first_offset(tree: OutputTree) -> int:
    """Give the physical offset of the first record that is not at 0, which would mean none."""
    log = open_store(tree.location).commitlog
    with LogReader(log) as reader:
        head = reader.first_from(log.segments[0])
    return (head.physical_offset or head.end) if head else 0


def _merged(stores: Sequence[Store], name: str, table: str) -> Document:
    """Join what the stores have under one name; of equal entries the first one stays."""
    document: Document = {}
    for store in stores:
        own = store.config(name).document
        entries = own.get(table)
        if not document:
            document = dict(own)
        elif isinstance(entries, dict) and isinstance(document.get(table), dict):
            document[table] = {**entries, **document[table]}
    return document


def _with_topics(document: Document, built: RebuildResult) -> Document:
    """Add the topics, and the numbers of queues, that the new log has."""
    known = document.get(TOPIC_TABLE)
    table: Document = dict(known) if isinstance(known, dict) else {}
    counts: dict[str, int] = {}
    batches = set()
    for queue in built.queues:
        if not (is_system_topic(queue.topic) or queue.topic.startswith(LMQ_PREFIX)):
            counts[queue.topic] = max(counts.get(queue.topic, 0), queue.queue_id + 1)
            if queue.kind is QueueKind.BATCH_QUEUE:
                batches.add(queue.topic)
    for topic, count in counts.items():
        entry = topic_entry(built.rules.release, topic, count, is_batch=topic in batches)
        own = table.get(topic)
        if not isinstance(own, dict):
            table[topic] = entry
            continue
        for name in ("readQueueNums", "writeQueueNums"):
            queues = own.get(name)
            if not isinstance(queues, int) or queues < count:
                table[topic] = table[topic] | {name: count}
    if not document:
        version: Document = {"counter": 1, "timestamp": built.last_store_timestamp}
        if built.rules.release.has_state_version:
            version["stateVersion"] = 0
        document = {"dataVersion": version}
    return document | {TOPIC_TABLE: table}


def _write_offsets(tree: OutputTree, stores: Sequence[Store], built: RebuildResult) -> int:
    """Write the offsets of consumers, and how far delayed messages were delivered.

    Of several stores the lowest offset counts: a message comes twice rather than never. A broker
    with enableLmq keeps all of them in one file of its own, see `committed_offsets`.
    """
    ends: QueueEnds = {
        (queue.topic, queue.queue_id): queue.next_queue_offset for queue in built.queues
    }
    consumed: dict[str, dict[str, int]] = {}
    light: dict[str, int] = {}
    has_light = False
    delayed: dict[str, int] = {}
    for store in stores:
        beside = store.config(LIGHT_OFFSETS_JSON).document
        has_light = has_light or bool(beside)
        known = dict(_objects(store.config(OFFSETS_JSON).document))
        for name, queues in (known | dict(_objects(beside))).items():
            topic = name.partition(TOPIC_GROUP_SEPARATOR)[0]
            _lower(consumed.setdefault(name, {}), queues, _ends_of(ends, topic))
        table = beside.get("lmqOffsetTable")
        for name, offset in (table if isinstance(table, dict) else {}).items():
            topic = name.partition(TOPIC_GROUP_SEPARATOR)[0]
            _lower(light, {name: offset}, {name: ends.get((topic, 0))})
        levels = {str(level): offset for level, offset in delivered_levels(store).items()}
        by_level = {
            str(queue + 1): end for (topic, queue), end in ends.items() if topic == SCHEDULE_TOPIC
        }
        _lower(delayed, levels, by_level)
    consumed = {name: queues for name, queues in consumed.items() if queues}
    # Empty ones, too: where these files are missing, they have been lost.
    release = built.rules.release
    _write(tree, OFFSETS_JSON, {OFFSET_TABLE: consumed}, release)
    if has_light:
        document = {OFFSET_TABLE: consumed, "lmqOffsetTable": light}
        _write(tree, LIGHT_OFFSETS_JSON, document, release)
    _write(tree, DELAYS_JSON, {OFFSET_TABLE: delayed}, release)
    return sum(map(len, consumed.values())) + len(light)


def _objects(document: Document) -> Iterator[tuple[str, Document]]:
    table = document.get(OFFSET_TABLE)
    for name, entry in (table if isinstance(table, dict) else {}).items():
        if isinstance(entry, dict):
            yield name, entry


def _ends_of(ends: QueueEnds, topic: str) -> dict[str, int]:
    return {str(queue_id): end for (name, queue_id), end in ends.items() if name == topic}


def _lower(known: dict[str, int], document: Document, ends: Mapping[str, int | None]) -> None:
    """Take offsets that are lower than those that are known, and not past the end."""
    for name, value in document.items():
        offset = parse_long(value) if isinstance(value, str) else value
        end = ends.get(name)
        if end is not None and isinstance(offset, int):
            known[name] = min(offset, end, known.get(name, end))


def _write(tree: OutputTree, name: str, document: Document, release: Rules) -> None:
    raw = text_of(document, release).encode("utf-8", "surrogateescape")
    tree.file(CONFIG, name, size=len(raw), pieces=[(0, raw)])


def write_timer_check(tree: OutputTree) -> None:
    """Write that the timer has read nothing: its topic has only what waits."""
    zeros = bytes(CHECK_FILE_LENGTH)
    tree.file(CONFIG, TIMER_CHECK, size=len(zeros), pieces=[(0, zeros)])


def write_timers(tree: OutputTree, store: Store) -> None:
    """Carry the files of the timer along: they name physical offsets and queue offsets.

    Raises:
        UnreadablePath: one of them cannot be read.
        WriteFailed: the system refused.
    """
    for artefact in store.artefacts():
        if artefact.kind in TIMER_FILES:
            with artefact.place.open() as source:
                file = tree.file(*artefact.path.split("/"), size=source.size)
                with file.writing() as handle:
                    for position, raw in data_stretches(source, 0, chunk=PIECE_BYTES):
                        file.put(handle, position, raw)


def _write_checkpoint(tree: OutputTree, built: RebuildResult, *, has_times: bool) -> None:
    """Write how far the files have come: all of the log is in queues and index.

    Without times, and with the first offset that a record can have past 0, recovery begins with
    the first file of the log. Source: ConsumeQueueStore#isMappedFileMatchedRecover, 5.5.0.
    """
    newest = built.last_store_timestamp
    fields = dict.fromkeys(CHECKPOINT.positions, 0)
    if has_times:
        fields["physic_msg_timestamp"] = fields["logics_msg_timestamp"] = newest
        fields["index_msg_timestamp"] = built.index_end
    if built.rules.release.records_queued_offset:
        offset = built.last_physical_offset if has_times else _first_offset(tree)
        fields["logics_physical_offset"] = offset
    tree.file("checkpoint", size=FILE_LENGTH, pieces=[(0, CHECKPOINT.build(fields))])
