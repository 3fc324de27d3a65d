"""Edits of the key index: the index that the log gives, compared with the files; what differs.

The entries of lost records stay where they are: without them all later ones would move, and with
them a query finds a bridge, which has none of the keys and which clients therefore pass over.
Source: IndexService#buildIndex, IndexFile#putKey, MQAdminImpl#queryMessage, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from rmqtool.broker.conf import keeps_index_files
from rmqtool.broker.dispatch import index_keys
from rmqtool.derive.part import DeriveOptions, derive
from rmqtool.derive.runs import IndexRun
from rmqtool.derive.settings import rules_of
from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Owner, Severity
from rmqtool.findings.registry_commitlog import CL_CRC, CL_PHYOFF, CL_PROPCRC, CL_TOPIC
from rmqtool.findings.registry_index import IX_HEAD, IX_KEY, IX_MISSING
from rmqtool.findings.registry_state import CP_AHEAD
from rmqtool.formats import java
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.formats.index import FIRST_ENTRY, INDEX_HEADER
from rmqtool.formats.message import decode
from rmqtool.ledger.index_entries import NEARBY, are_expired, entries, is_doomed
from rmqtool.rebuild.index_file import IndexBuilder, stretches
from rmqtool.repair.log.content import Content
from rmqtool.repair.log.stretches import Stretches
from rmqtool.repair.state.checkpoint import keeps_index
from rmqtool.scan.index import entry_times
from rmqtool.scan.join import run_joined
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.index_files import all_in_use, names_by_begin
from rmqtool.store.parts import parts
from rmqtool.store.record_heads import LogReader
from rmqtool.store.used import data_stretches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from rmqtool.broker.release import Version
    from rmqtool.broker.rules import Rules
    from rmqtool.derive.runs import Runs
    from rmqtool.findings.catalogue import Code
    from rmqtool.findings.finding import Finding
    from rmqtool.rebuild.index_file import BuiltEntries, BuiltIndexFile
    from rmqtool.repair.survey import LogSurvey
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.index_files import IndexFile, IndexInUse
    from rmqtool.store.segment import SegmentPart
    from rmqtool.store.tree import Store

    Bytes = npt.NDArray[np.uint8]


SIDES: Final[tuple[Literal["left", "right"], ...]] = ("left", "right")
INDEX_DIRECTORY: Final = "index"
PART_BYTES: Final = 64 << 20


def edit(writer: EditWriter, survey: LogSurvey, findings: list[Finding], jobs: int | None) -> None:
    """Rewrite what differs from the index that the log gives, where findings ask for it."""
    store = survey.inspection.store
    defects = [
        finding
        for finding in findings
        if finding.code.owner is Owner.INDEX and finding.severity is not Severity.NOTE
    ]
    places = [artefact.place for artefact in store.branches_of(ArtefactKind.INDEX)]
    missed = _missed(store, findings, survey.inspection.scope.version)
    if not survey.facts.is_known or not (places or missed):
        return
    is_ahead = _is_ahead(survey, findings)
    if not (defects or survey.moved or is_ahead or missed):
        return
    code = defects[0].code if defects else IX_KEY if is_ahead else CL_PHYOFF
    code = missed or code
    harmed = {defect.path for defect in defects}
    directory = places[0] if places else survey.inspection.child(INDEX_DIRECTORY)
    sink = IndexEdits(writer, store, directory.location, harmed, code)
    geometry = store.geometry
    builder = IndexBuilder(
        geometry.index_slots.value,
        geometry.index_entries.value,
        sink,
        names=names_by_begin(store.index_files()),
    )
    sink.keep = builder.continue_from
    last = (-1, 0)
    for run, newest in _runs(survey, jobs):
        builder.add(run)
        last = max(last, newest)
    builder.finish(*last)
    if sink.finish():
        survey.index_end = builder.end_timestamp_of_last


def _missed(store: Store, findings: list[Finding], version: Version) -> Code | None:
    """Give what says that no index file is there, where a broker keeps one; None else."""
    if not keeps_index_files(store.broker_conf, version):
        return None
    time = CHECKPOINT["index_msg_timestamp"].position
    codes = {
        finding.code
        for finding in findings
        if finding.severity is not Severity.NOTE
        and (finding.code == IX_MISSING or (finding.code == CP_AHEAD and finding.position == time))
    }
    known = [code for code in (CP_AHEAD, IX_MISSING) if code in codes]
    return known[0] if known and not store.index_files() else None


def _is_ahead(survey: LogSurvey, findings: list[Finding]) -> bool:
    """Tell whether entries that the next start keeps point past the end that the log will have."""
    store = survey.inspection.store
    loses = survey.inspection.scope.has_crashed and not keeps_index(survey, findings)
    return any(
        held.header["end_physical_offset"] >= survey.end
        and not (loses and is_doomed(store, held.header))
        for held in all_in_use(store.index_files())
    )


def _runs(survey: LogSurvey, jobs: int | None) -> Iterator[tuple[IndexRun, tuple[int, int]]]:
    """Yield the entries of the log in order, with the last record of each part."""
    inspection = survey.inspection
    store = inspection.store
    rules = rules_of(store, inspection.scope.version)
    options = DeriveOptions(rules, queues=False)

    def work(part: SegmentPart, *, start: int | None = None) -> Runs:
        return derive(part, options, start=start)

    kept = _Kept.of(store, survey)
    yield kept.before(store.commitlog.start), (-1, 0)
    for part, runs in run_joined(work, parts(store.commitlog, PART_BYTES), jobs=jobs):
        run = _up_to(_with_true_places(runs.index, survey), survey.end)
        run = _with_true_topics(run, survey, rules.release)
        end = part.segment.start + runs.end
        newest = (runs.last_physical_offset, runs.last_store_timestamp)
        yield kept.merged(run, end), newest if runs.records else (-1, 0)


def _up_to(run: IndexRun, end: int) -> IndexRun:
    """Leave out the entries of a record that is zeroed at the log's end."""
    kept = run.physical_offsets < end
    return run if kept.all() else _chosen(run, kept)


def _with_true_places(run: IndexRun, survey: LogSurvey) -> IndexRun:
    """Put the true places of moved records in; entries lie in the order of the log."""
    moved = [*survey.moved, *survey.swapped]
    if not moved or not len(run):
        return run
    offsets = run.physical_offsets.copy()
    fields = np.array([record.field for record in moved], np.int64)
    sound = np.sort(run.physical_offsets[~np.isin(run.physical_offsets, fields)])
    order = np.argsort(run.physical_offsets, kind="stable")
    ends = [np.searchsorted(run.physical_offsets, fields, side, order) for side in SIDES]
    for record, first, end in zip(moved, *ends, strict=True):
        rows = order[first:end]
        if not rows.size:
            continue
        blocks = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        wanted = int(np.searchsorted(sound, record.physical_offset))
        block = min(blocks, key=lambda row: abs(int(row[0]) - wanted))
        offsets[block] = record.place
    return IndexRun(run.hashes, offsets, run.store_timestamps)


def _with_true_topics(run: IndexRun, survey: LogSurvey, rules: Rules) -> IndexRun:
    """Hash the keys of records whose topic is put back with the topic that they will have."""
    wrong = [record for record in survey.wrong_queues if record.field == "topic"]
    if not wrong:
        return run
    hashes, store = run.hashes.copy(), survey.inspection.store
    with LogReader(store.commitlog) as log:
        for record in wrong:
            rows = run.physical_offsets == record.physical_offset
            head = log.head_at(record.physical_offset)
            if head is None or not rows.any():
                continue
            message = decode(log.read_at(record.physical_offset, head.size))
            topic = java.text(record.own[0])
            hashes[rows] = [java.key_hash(topic, key) for key in index_keys(rules, message)]
    return IndexRun(hashes, run.physical_offsets, run.store_timestamps)


@dataclass(slots=True)
class _Kept:
    """Entries that the log no longer gives: of expired and of lost records, in their order."""

    hashes: npt.NDArray[np.int32]  # of them
    offsets: npt.NDArray[np.int64]  # physical ones
    times: npt.NDArray[np.int64]  # store times of the records
    _done: int = 0

    @classmethod
    def of(cls, store: Store, survey: LogSurvey) -> _Kept:
        """Read them off the files."""
        start = store.commitlog.start
        stored = (_entries(held, start) for held in all_in_use(store.index_files()))
        joined = np.concatenate([np.empty((3, 0), np.int64), *stored], axis=1)
        lost = Stretches()
        for damaged in survey.damaged:
            if damaged.code not in {CL_CRC, CL_PROPCRC, CL_TOPIC, CL_PHYOFF}:
                lost.add(damaged)
        gaps = lost.mask(joined[1]) | survey.facts.are_bridged(joined[1])
        gaps |= are_expired(joined[1], start)
        gaps &= (joined[0] >= 0) & (joined[1] >= 0) & (joined[1] < survey.end)
        gaps &= (joined[0] != 0) | (joined[1] != 0)  # zeros in place of an entry
        kept = joined[:, gaps]
        kept = kept[:, np.argsort(kept[1], kind="stable")]
        offsets, times = np.ascontiguousarray(kept[1]), _likely(kept[2], survey.newest_time)
        with LogReader(store.commitlog) as log:
            segments = store.commitlog.segments
            oldest = log.first_from(segments[0]) if segments else None
        if oldest is not None:
            times[offsets < start] = np.minimum(times[offsets < start], oldest.store_timestamp)
        return cls(kept[0].astype(np.int32), offsets, times)

    def before(self, physical_offset: int) -> IndexRun:
        """Give the entries in front of an offset that were not given yet."""
        end = int(np.searchsorted(self.offsets, physical_offset))
        end = max(end, self._done)
        part = slice(self._done, end)
        self._done = end
        return IndexRun(self.hashes[part], self.offsets[part], self.times[part])

    def merged(self, run: IndexRun, end: int) -> IndexRun:
        """Put the entries of lost records among those of a part of the log."""
        more = _without(self.before(end), run.physical_offsets)
        if not len(more):
            return run
        offsets = np.concatenate([run.physical_offsets, more.physical_offsets])
        order = np.argsort(offsets, kind="stable")
        hashes = np.concatenate([run.hashes, more.hashes])
        times = np.concatenate([run.store_timestamps, more.store_timestamps])[order]
        for row in np.flatnonzero(order >= len(run)).tolist():  # known to the second only
            times[row] = max(times[row], times[row - 1]) if row else times[row]
        return IndexRun(hashes[order], offsets[order], times)


def _without(run: IndexRun, physical_offsets: npt.NDArray[np.int64]) -> IndexRun:
    """Leave out the entries of some records."""
    return _chosen(run, ~np.isin(run.physical_offsets, physical_offsets))


def _chosen(run: IndexRun, kept: npt.NDArray[np.bool_]) -> IndexRun:
    return IndexRun(run.hashes[kept], run.physical_offsets[kept], run.store_timestamps[kept])


def _entries(held: IndexInUse, log_start: int) -> npt.NDArray[np.int64]:
    """Read the entries in use of a file: hash, physical offset, time; shape (3, n).

    One that is damaged, and before that of an expired record, is one of an expired record itself:
    it is taken for the next such one, so that no other entry changes its place.
    """
    try:
        rows = entries(held)
    except UnreadablePath:
        return np.empty((3, 0), np.int64)
    differences = rows["time_difference"].astype(np.int64)
    begin, end_time = held.header["begin_timestamp"], held.header["end_timestamp"]
    times = entry_times(differences, begin, FIRST_ENTRY)
    if end_time < begin:  # it follows a damaged store time: all times that count from it are late
        times = np.minimum(times, end_time)
    stored = np.stack([rows["key_hash"], rows["physical_offset"], times]).astype(np.int64)
    expired = are_expired(stored[1], log_start)
    likely = np.flatnonzero(expired & (stored[1] >= 0) & ~_are_late(differences))
    end = int(likely[-1]) + 1 if likely.size else 0
    as_next = stored[:, likely[np.searchsorted(likely, np.arange(end))]]
    after = stored[:, end:]
    return np.concatenate([as_next, after[:, ~expired[end:]]], axis=1)


def _are_late(times: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Tell which times are later than most of those that follow: bool, shape (n,)."""
    later, following = np.zeros((2, len(times)), np.int64)
    for distance in range(1, NEARBY):
        later[:-distance] += times[:-distance] > times[distance:]
        following[:-distance] += 1
    late: npt.NDArray[np.bool_] = 2 * later > following
    return late


def _likely(times: npt.NDArray[np.int64], newest: int) -> npt.NDArray[np.int64]:
    """Give store times, ms, without those that jump: none is later than the newest record's."""
    known = np.minimum(times, newest) if newest else times.copy()
    if known.size > 2:  # noqa: PLR2004 - a neighbour on either side
        beside = np.stack([known[:-2], known[1:-1], known[2:]])
        known[1:-1] = np.median(beside, axis=0).astype(np.int64)
    return np.maximum.accumulate(known)


# Takes rebuilt index files, and keeps as edits what differs from the files on disk.


COMPARED: Final = 1 << 22
NEAR: Final = 4096  # bytes between two ranges that are written as one
MOST_BYTES: Final = 256 << 20  # of a plan; more is a rebuild
REBUILDING: Final = "rmqtool rebuild-index"
REBUILD: Final = f"so much of the index differs that {REBUILDING} --in-place is the tool"
REASON: Final = "the entry of the log's record"
BACKWARDS: Final = "the header's end lies before its begin"
STORE_TIME: Final = "none: the store time of a record is damaged, and the header follows it"
NO_TIME: Final = 1 << 62
MISSING: Final = "the index file of these records, missing until now"


@dataclass(slots=True)
class IndexEdits:
    """Compares built files with those on disk, piece by piece."""

    writer: EditWriter  # takes the edits
    store: Store  # whose files they are compared with
    directory: str  # of the index
    harmed: set[str]  # paths that findings name
    code: Code  # of the finding
    # told of the end of a file whose header stays, ms: the next file counts from there
    keep: Callable[[int], None] = lambda _: None
    amount: int = 0  # bytes that the edits bring so far
    _first: int = -1
    _name: str = ""
    _size: int = 0
    _current: IndexFile | None = None
    _left: dict[str, IndexFile] = field(init=False)  # files that no built one stands for so far
    _pieces: list[tuple[int, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left = {file.place.name: file for file in self.store.index_files()}

    def put_entries(self, built: BuiltEntries) -> None:
        """Take the next entries of a file."""
        self._open(built.name, built.size)
        self._take(built.position, built.data)

    def put_index(self, built: BuiltIndexFile) -> None:
        """Take header and slots, and write down what differs of the file."""
        self._open(built.name, built.size)
        if built.header["end_timestamp"] < built.header["begin_timestamp"] < NO_TIME:
            location = self._current.path if self._current is not None else f"index/{built.name}"
            self.writer.leave(IX_HEAD, location, BACKWARDS, STORE_TIME)
        if self._current is not None and self._current.size == built.size:
            self._take(0, built.head)
            self._zero_after(self._current, built.used)
            self._write(self._current)
        else:
            self._pieces += [(start, bytes(part)) for start, part in stretches(built.head)]
            self.amount += len(built.head)
            self._whole(built)
        self._name = ""

    def finish(self) -> bool:
        """Take out files that the log gives no entry for; give up where too much differs.

        Returns:
            Whether the edits stand.
        """
        for file in self._left.values():
            reason = "the log gives no such index file"
            self.writer.remove(file.place.location, self.code, reason)
        if self.amount > MOST_BYTES:
            del self.writer.edits[self._first :]
            self.writer.leave(self.code, "index", "the index is damaged", REBUILD)
            return False
        return True

    def _open(self, name: str, size: int) -> None:
        """Take up the file on disk that a built one stands for, which has its name."""
        if name != self._name:
            if self._first < 0:
                self._first = len(self.writer.edits)
            self._name, self._size, self._pieces = name, size, []
            self._current = self._left.pop(name, None)

    def _take(self, position: int, wanted: Bytes) -> None:
        """Keep what differs; all of it where there is no file to compare with."""
        current = self._current
        if current is None or current.size != self._size:
            self._keep(position, wanted)
            return
        with current.place.open() as file:
            for begin in range(0, wanted.size, COMPARED):
                part = wanted[begin : begin + COMPARED]
                there = np.frombuffer(file.read_at(position + begin, part.size), np.uint8)
                for low, high in _ranges(np.flatnonzero(there != part[: there.size])):
                    self._keep(position + begin + low, part[low:high])

    def _keep(self, position: int, wanted: Bytes) -> None:
        self.amount += wanted.size
        if self.amount <= MOST_BYTES:
            self._pieces.append((position, wanted.tobytes()))

    def _zero_after(self, index_file: IndexFile, position: int) -> None:
        """Zero what stands after the last entry."""
        with index_file.place.open() as file:
            for start, raw in data_stretches(file, position, chunk=COMPARED):
                self._keep(start, np.zeros(len(raw.rstrip(b"\0")), np.uint8))

    def _write(self, index_file: IndexFile) -> None:
        """Write down the ranges of a file that differ."""
        in_header = all(at + len(raw) <= INDEX_HEADER.size for at, raw in self._pieces)
        if in_header and index_file.path not in self.harmed:
            for held in all_in_use([index_file] if self._pieces else []):
                self.keep(held.header["end_timestamp"])
            return  # times of expired entries are known to the second only
        for position, raw in sorted(self._pieces):
            place = (index_file.place.location, index_file.size, position)
            self.writer.write_at(place, Content.of(raw), self.code, REASON)

    def _whole(self, built: BuiltIndexFile) -> None:
        """Write a file down that is missing, or has another length."""
        content = Content(built.size, tuple(sorted(self._pieces)))
        if self._current is not None:
            self.writer.replace(self._current.place.location, content, self.code, REASON)
            return
        location = f"{self.directory}/{built.name}"
        mtime_ms = built.header["end_timestamp"] or None
        self.writer.create(location, content, self.code, MISSING, mtime_ms=mtime_ms)


def _ranges(places: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield the ranges that hold all places; those near each other as one."""
    if places.size:
        for group in np.split(places, np.flatnonzero(np.diff(places) > NEAR) + 1):
            yield int(group[0]), int(group[-1]) + 1
