"""A store at a glance: sections of rows, in the order in which they are shown.

Source for what is compared: StoreCheckpoint, IndexHeader, ConsumerOffsetManager, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmqtool.broker.names import DLQ_PREFIX, RETRY_PREFIX
from rmqtool.errors import RmqtoolError, UnreadablePath
from rmqtool.formats.config_names import LIGHT_OFFSETS_JSON, OFFSETS_JSON
from rmqtool.formats.config_shapes import consumer_offsets, lmq_consumer_offsets
from rmqtool.formats.index import FIRST_ENTRY, INDEX_HEADER
from rmqtool.info import overview_rows as rows
from rmqtool.info.overview_rows import DiskRow, GroupRow
from rmqtool.info.survey import Survey
from rmqtool.queues.discovery import UNITS
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.entry import EntryKind, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rmqtool.formats.config_shapes import ConsumerOffset
    from rmqtool.queues.span import SpanColumns
    from rmqtool.store.artefact import Artefact
    from rmqtool.store.index_files import IndexFile
    from rmqtool.store.place import Place
    from rmqtool.store.segment import Oddity, Segment
    from rmqtool.store.tree import LockState, Store


# Disk use of a store by the names in its root: what files claim, and what the disk holds.


DEEPEST = 16  # a store is four directories deep; what is deeper is not of RocketMQ's making


class DiskUse(NamedTuple):
    """Files and bytes below a place."""

    files: int  # number of them; directories, links and the like are none
    size: int  # bytes that they claim
    allocated: int  # bytes that the disk really holds; less where files are sparse


def disk_rows(survey: Survey) -> list[DiskRow]:
    """Disk use of each name in the store root, and their sum."""
    if survey.store.asked.kind is not ArtefactKind.STORE:
        return []
    uses = []
    for name, use in _uses(survey):
        try:
            uses.append(DiskRow(printable(name), *use()))
        except UnreadablePath as error:
            survey.problem(error)
    totals = zip(*((row.files, row.size, row.allocated) for row in uses), strict=True)
    return [*uses, DiskRow("(all)", *map(sum, totals))] if uses else []


def _uses(survey: Survey) -> Iterator[tuple[str, Callable[[], DiskUse]]]:
    """Give each name in the root, and directories that are configured elsewhere."""
    branches = {artefact.path: artefact for artefact in survey.store.branches}
    for entry in survey.store.asked.place.entries():
        artefact = branches.pop(printable(entry.name), None)
        if entry.kind is EntryKind.FILE:
            yield entry.name, partial(DiskUse, 1, entry.size, entry.allocated)
        elif artefact is not None and artefact.kind in UNITS:
            yield entry.name, partial(_queues_use, survey, artefact)
        elif artefact is not None:  # a link to a directory counts as what it leads to
            yield entry.name, partial(_disk_use, artefact.place)
        elif entry.kind is EntryKind.DIRECTORY:
            yield entry.name, partial(_disk_use, survey.store.asked.place.child(entry.name))
    for path, artefact in branches.items():
        if path.startswith("/"):
            yield path, partial(_disk_use, artefact.place)


def _queues_use(survey: Survey, artefact: Artefact) -> DiskUse:
    """Sum up a family of queues from what is known: listing 50,000 directories twice is slow."""
    beside, spans = _disk_use(artefact.place, 0), survey.ranges

    def total(column: list[int]) -> int:
        of_kinds = zip(spans.kinds, column, strict=True)
        return sum([value for kind, value in of_kinds if kind is artefact.kind])

    return DiskUse(
        beside.files + total(spans.files),
        beside.size + total(spans.sizes),
        beside.allocated + total(spans.allocated),
    )


def _disk_use(place: Place, depth: int = DEEPEST) -> DiskUse:
    """Sum up the files below a directory; links are not followed.

    Raises:
        UnreadablePath: a directory may not be listed.
    """
    files = size = allocated = 0
    for entry in place.entries():
        if entry.kind is EntryKind.FILE:
            files, size, allocated = files + 1, size + entry.size, allocated + entry.allocated
        elif entry.kind is EntryKind.DIRECTORY and depth:
            below = _disk_use(place.child(entry.name), depth - 1)
            files += below.files
            size += below.size
            allocated += below.allocated
    return DiskUse(files, size, allocated)


LARGEST_ABORT = 32  # bytes; a process id
MILLISECONDS: Final = "ms"
PROBLEMS: Final = "problems"


def overview(
    store: Store, sections: Iterable[str] | None = None
) -> Iterator[tuple[str, Sequence[Any]]]:
    """Give the sections of an overview with their names, each when it is asked for.

    Args:
        store: what to look at.
        sections: names out of `SECTIONS`; None is all of them.
    """
    wanted = list(SECTIONS if sections is None else sections)
    with Survey(store) as survey:
        for name in wanted:
            yield name, section(survey, name)


def section(survey: Survey, name: str) -> Sequence[Any]:
    """Give the rows of a section. Problems are those of all sections, whatever else is asked for.

    Args:
        survey: of the store.
        name: out of `SECTIONS`.
    """
    survey.looked_at.add(name)
    if name == PROBLEMS:
        for other in SECTIONS:
            if other not in survey.looked_at:
                section(survey, other)
    return SECTIONS[name](survey)


def store_rows(survey: Survey) -> list[rows.StoreRow]:
    """The store as a whole."""
    store, wrote = survey.store, survey.written_by
    lock = store.lock_state()
    return [
        rows.StoreRow(
            path=str(store.asked.place),
            recognised_as=str(store.asked.kind),
            recognised_by=str(store.asked.why),
            release=str(wrote),
            at_least=str(wrote.at_least or ""),
            below=str(wrote.below or ""),
            rules_of=str(wrote.version),
            stopped=_stopped(store, lock),
            lock_held=lock.is_held,
            commitlog="dledger" if store.is_dledger else "plain",
        )
    ]


def _stopped(store: Store, lock: LockState) -> str:
    if lock.is_held:
        return f"not stopped: a running broker holds the lock ({lock.holder})"
    if store.abort is not None:
        written = _process(store)
        running = "" if lock.is_held is False else ", or it runs: the lock cannot be asked about"
        return f"crashed, or copied while it ran{running}: abort exists{written}"
    if store.branches_of(ArtefactKind.CHECKPOINT):
        return "cleanly: no abort"
    return "unknown: neither abort nor checkpoint"


def _process(store: Store) -> str:
    try:
        text = store.abort.place.read(LARGEST_ABORT) if store.abort else b""
    except UnreadablePath:
        return ""
    return f" (process {int(text)})" if text.strip().isdigit() else ""


def release_rows(survey: Survey) -> list[rows.EvidenceRow]:
    """What tells the release."""
    return [
        rows.EvidenceRow(trace.path, trace.says, str(trace.at_least or ""), str(trace.below or ""))
        for trace in survey.written_by.traces
    ]


def geometry_rows(survey: Survey) -> list[rows.LengthRow]:
    """Lengths, each with where it came from."""
    return [
        rows.LengthRow(name, length.value, str(length.source))
        for name, length in survey.store.geometry.items()
    ]


def segment_rows(survey: Survey) -> list[rows.SegmentRow]:
    """Files of the commitlog, of one from before a conversion to DLedger first."""
    end = survey.tail.physical_offset
    segments = [_segment(survey, segment, segment.size, "full") for segment in survey.old_commitlog]
    return segments + [segment_row(survey, segment, end) for segment in survey.commitlog]


def segment_row(survey: Survey, segment: Segment, end: int) -> rows.SegmentRow:
    """Give the row of one file of the log.

    Args:
        survey: of the store.
        segment: the file.
        end: physical offset past the last record of the log.
    """
    if segment.end <= end:
        return _segment(survey, segment, segment.size, "full")
    if segment.start < end:
        return _segment(survey, segment, end - segment.start, "last")
    return _segment(survey, segment, 0, "unused")


def _segment(survey: Survey, segment: Segment, end: int, state: str) -> rows.SegmentRow:
    first, last = survey.ends_of(segment, end) if end else (None, None)
    return rows.SegmentRow(
        path=segment.path,
        state=state,
        start=segment.start,
        end=segment.end,
        size=segment.size,
        allocated=segment.allocated,
        first_store_timestamp=first and first.store_timestamp,
        last_store_timestamp=last and last.store_timestamp,
    )


def oddity_rows(survey: Survey) -> list[rows.OddityRow]:
    """What a broker does not leave behind: holes, odd lengths, foreign names."""
    oddities: list[Oddity] = [*survey.store.oddities]
    for log in (survey.old_commitlog, survey.commitlog):
        oddities += log.oddities
    oddities += survey.oddities
    listed = [
        rows.OddityRow(
            str(oddity.kind),
            oddity.path,
            oddity.expected,
            oddity.actual,
            oddity.start,
            oddity.length,
        )
        for oddity in oddities
    ]
    conf = survey.store.broker_conf
    if conf is not None:
        from rmqtool.broker.complaints import complaints  # most stores come without one

        listed += [
            rows.OddityRow("ignored", conf.path, "", str(complaint), None, None)
            for complaint in complaints(conf, survey.written_by.version)
        ]
    return listed


def end_rows(survey: Survey) -> list[rows.EndRow]:
    """The real end of data; nothing without a commitlog."""
    if not survey.commitlog:
        return []
    tail = survey.tail
    segment = survey.commitlog.at(tail.physical_offset)
    return [
        rows.EndRow(
            physical_offset=tail.physical_offset,
            path=segment.path if segment else "",
            position=tail.physical_offset - segment.start if segment else None,
            last_store_timestamp=tail.last and tail.last.store_timestamp,
            found_by=str(tail.found_by),
            stopped_at=str(tail.stop),
            data_beyond=tail.data_beyond,
        )
    ]


def dispatch_rows(survey: Survey) -> list[rows.DispatchRow]:
    """How far the queues follow the log; nothing without a commitlog."""
    if not survey.commitlog:
        return []
    tail = survey.tail
    end = tail.last.end if tail.last else tail.physical_offset
    dispatched = survey.dispatched.end if survey.dispatched else None
    lag = None if dispatched is None else end - dispatched
    return [rows.DispatchRow(dispatched, end, lag, tail.records)]


def topic_rows(survey: Survey) -> list[rows.TopicRow]:
    """Topics, each with the sums of its queues."""
    return survey.queue_rows.topics()


def queue_rows(survey: Survey) -> rows.QueueOverview:
    """Queues, plain ones first, by topic and number."""
    return survey.queue_rows


def index_rows(survey: Survey) -> list[rows.IndexRow]:
    """Key index files."""
    return [row for file in survey.index_files if (row := _index(survey, file))]


def _index(survey: Survey, file: IndexFile) -> rows.IndexRow | None:
    try:
        header = INDEX_HEADER.parse(file.place.read(INDEX_HEADER.size), path=file.path)
    except RmqtoolError as error:
        survey.problem(error)
        return None
    keys = max(header["index_count"] - FIRST_ENTRY, 0)
    capacity = max(file.entries - FIRST_ENTRY, 0)
    return rows.IndexRow(
        path=file.path,
        keys=keys,
        capacity=capacity,
        fill_percent=round(100 * keys / capacity, 1) if capacity else None,
        slots=file.slots,
        used_slots=header["hash_slot_count"],
        first_store_timestamp=header["begin_timestamp"] if keys else None,
        last_store_timestamp=header["end_timestamp"] if keys else None,
        first_physical_offset=header["begin_physical_offset"] if keys else None,
        last_physical_offset=header["end_physical_offset"] if keys else None,
        size=file.size,
        allocated=file.allocated,
    )


def checkpoint_rows(survey: Survey) -> list[rows.CheckpointRow]:
    """The checkpoint beside what the files show; nothing when there is not one."""
    try:
        fields = survey.store.checkpoint()
    except RmqtoolError as error:
        survey.problem(error)
        return []
    if fields is None:
        return []
    actual = _actual(survey)
    times_ = []
    for name, stored in fields.items():
        seen = actual.get(name)
        unit = MILLISECONDS if name.endswith("_timestamp") else "bytes"
        # 0: never set, or the release does not know the field.
        difference = seen - stored if seen is not None and stored else None
        times = (stored, seen) if unit == MILLISECONDS else (None, None)
        times_.append(rows.CheckpointRow(name, stored, seen, difference, unit, *times))
    return times_


def _actual(survey: Survey) -> Mapping[str, int | None]:
    """Say what the checkpoint's fields would be if they were written now."""
    tail, last = survey.tail, survey.dispatched
    dispatched = survey.head_at(last.last if last else None)
    full = [row for row in index_rows(survey) if row.keys and row.keys == row.capacity]
    return {
        "physic_msg_timestamp": tail.last and tail.last.store_timestamp,
        "logics_msg_timestamp": dispatched and dispatched.store_timestamp,
        "index_msg_timestamp": full[-1].last_store_timestamp if full else None,
        "confirm_phy_offset": tail.physical_offset if survey.commitlog else None,
        "logics_physical_offset": dispatched and dispatched.physical_offset,
    }


def groups(survey: Survey) -> list[rows.GroupRow]:
    """Consumer groups with their lag and dead letters, from the JSON files."""
    store = survey.store
    documents = [store.config(name) for name in (OFFSETS_JSON, LIGHT_OFFSETS_JSON)]
    for document in documents:
        for problem in document.problems:
            survey.note(document.path or document.name, problem.says)
    return group_rows([document.document for document in documents], survey.ranges)


def database_rows(survey: Survey) -> list[rows.DatabaseRow]:
    """RocksDB databases: recognised, not read."""
    try:
        return [
            rows.DatabaseRow(
                database.path, database.holds, database.since, database.is_empty,
                database.table_files, database.size, database.allocated,
            )
            for database in survey.store.rocksdb()
        ]  # fmt: skip
    except UnreadablePath as error:
        survey.problem(error)
        return []


def problem_rows(survey: Survey) -> list[rows.ProblemRow]:
    """What could not be read."""
    survey.note_refused()
    return survey.problems


# In this order; `problems` last, as the others find them.
SECTIONS: Final[Mapping[str, Callable[[Survey], Sequence[Any]]]] = {
    "store": store_rows,
    "release": release_rows,
    "geometry": geometry_rows,
    "segments": segment_rows,
    "oddities": oddity_rows,
    "end": end_rows,
    "dispatch": dispatch_rows,
    "topics": topic_rows,
    "queues": queue_rows,
    "index": index_rows,
    "checkpoint": checkpoint_rows,
    "groups": groups,
    "databases": database_rows,
    "disk": disk_rows,
    PROBLEMS: problem_rows,
}


# Consumer groups: how far after they are, and what they gave up.
#
# See ConsumerOffsetManager, MixAll#getRetryTopic, #getDLQTopic, 4.9.3 to 5.5.0.


class TopicSums(NamedTuple):
    """Messages and queues of each topic."""

    messages: Counter[str]
    queues: Counter[str]


def group_rows(documents: Iterable[Mapping[str, Any]], ranges: SpanColumns) -> list[GroupRow]:
    """Give each group and topic, sorted, and groups of which only dead letters are left.

    Args:
        documents: contents of `consumerOffset.json` and `lmqConsumerOffset.json`.
        ranges: of all queues.
    """
    offsets: dict[tuple[str, str], list[ConsumerOffset]] = defaultdict(list)
    for offset in _offsets(documents):
        offsets[offset.group, offset.topic].append(offset)
    prefixes = (DLQ_PREFIX, RETRY_PREFIX)
    asked = {topic for _, topic in offsets}
    asked.update(prefix + group for group, _ in offsets for prefix in prefixes)
    bounds = zip(ranges.min_offsets, ranges.max_offsets, strict=True)
    names = zip(ranges.topics, ranges.queue_ids, bounds, strict=True)
    by_queue = {
        (topic, queue_id): reach
        for topic, queue_id, reach in names
        if topic in asked or topic.startswith(prefixes)
    }
    topics = TopicSums(Counter(), Counter())
    for (topic, _), (min_offset, max_offset) in by_queue.items():
        topics.messages[topic] += max_offset - min_offset
        topics.queues[topic] += 1
    groups = {pair: _row(pair, offsets[pair], by_queue, topics) for pair in offsets}
    known = {group for group, _ in offsets}
    for topic in topics.messages:
        group = topic.removeprefix(DLQ_PREFIX)
        if group != topic and group not in known:
            groups[group, ""] = _row((group, ""), [], by_queue, topics)
    return [groups[pair] for pair in sorted(groups)]


def _offsets(documents: Iterable[Mapping[str, Any]]) -> Iterator[ConsumerOffset]:
    for document in documents:
        yield from consumer_offsets(document)
        yield from lmq_consumer_offsets(document)


def _row(
    pair: tuple[str, str],
    offsets: list[ConsumerOffset],
    by_queue: Mapping[tuple[str, int], tuple[int, int]],
    topics: TopicSums,
) -> GroupRow:
    group, topic = pair
    lag = expired = ahead = known = 0
    for offset in offsets:
        bounds = by_queue.get((topic, offset.queue_id))
        if bounds is None or offset.queue_offset is None:
            continue
        known += 1
        min_offset, max_offset = bounds
        next_offset = max(offset.queue_offset, min_offset)
        lag += max(max_offset - next_offset, 0)
        expired += next_offset - offset.queue_offset
        ahead += max(offset.queue_offset - max_offset, 0)
    return GroupRow(
        group=group,
        topic=topic,
        queues=len(offsets),
        queues_without_offset=topics.queues[topic] - known,
        lag=lag,
        expired=expired,
        ahead=ahead,
        dead_letters=topics.messages[DLQ_PREFIX + group],
        retries=topics.messages[RETRY_PREFIX + group],
    )
