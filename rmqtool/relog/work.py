"""From sources to a new store: one pass over the sources, one over the new log."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.conf import RESERVED_HOURS
from rmqtool.broker.names import TIMER_TOPIC
from rmqtool.check.written import counted_codes, defects_of
from rmqtool.errors import NotSound, UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.registry_commitlog import CL_LMQ, CL_QOFF_BACK, CL_QOFF_DUP, CL_QOFF_GAP
from rmqtool.formats.message import (
    MESSAGE_MAGIC_BYTES,
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    MESSAGE_PREFIX,
)
from rmqtool.rebuild.options import RebuildOptions
from rmqtool.rebuild.sinks import WritingSink
from rmqtool.rebuild.store_type import rules_for
from rmqtool.rebuild.work import rebuild_from
from rmqtool.relog import fields as at
from rmqtool.relog import kernels
from rmqtool.relog.chunk import Chunk, Reason
from rmqtool.relog.numbers import HalfPlaces, KeptNumbers, QueueNumbers, QueueOffsetJudge
from rmqtool.relog.options import LogOptions, Positions, QueueOffsets, RecordVersion
from rmqtool.relog.order import concatenated, merged, repeated
from rmqtool.relog.report import LogResult
from rmqtool.relog.segments import KeptPlaces, LogFiles, PackedPlaces
from rmqtool.relog.sources import source_of
from rmqtool.relog.state import write_state, write_timer_check, write_timers
from rmqtool.relog.take import PART_BYTES, TakeOptions
from rmqtool.relog.votes import NONE, Census, vote
from rmqtool.relog.waiting import waiting_of
from rmqtool.repair.state.absent import MISSING
from rmqtool.scan import crc
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.broker_conf import read_broker_conf
from rmqtool.store.geometry import DEFAULTS, configured_lengths
from rmqtool.store.tree import open_store
from rmqtool.tables.defects import log_damage
from rmqtool.tables.views import VIEWS
from rmqtool.writing.remote_output import output_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqtool.broker.release import Version
    from rmqtool.findings.finding import Finding
    from rmqtool.rebuild.options import RebuildResult
    from rmqtool.relog.numbers import Numbers
    from rmqtool.relog.segments import LogPlaces
    from rmqtool.store.tree import Store
    from rmqtool.writing.output_tree import OutputTree

    Advance = Callable[[int], None]
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.relog.options import LogOptions
    from rmqtool.relog.sources import LogSource

    Bools = npt.NDArray[np.bool_]


MAGIC_ENDS: Final = MESSAGE_PREFIX.positions["magic_code"] + 3  # this byte tells the version
HOUR_MS: Final = 3_600_000
BY_NUMBER: Final = frozenset({CL_LMQ, CL_QOFF_BACK, CL_QOFF_DUP, CL_QOFF_GAP})
OF_QUEUES: Final = "CQ"
CONFIGURATION: Final = "BC"  # findings about the broker.conf that was given, not about the store
LOGS: Final = (ArtefactKind.COMMITLOG, ArtefactKind.DLEDGER)


class LogRun:
    """A rebuild of the log that was asked for; nothing is written before it runs.

    Args:
        options: what is wanted.

    Attributes:
        total_bytes: that will be read.
        segment_size: bytes of a file of the new log.

    Raises:
        UsageError: an option does not fit what is there.
        StoreError: a source cannot be opened.
    """

    def __init__(self, options: LogOptions) -> None:
        self.options = options
        self._sources = [source_of(path, options.broker_conf) for path in options.sources]
        path = options.broker_conf
        self._broker_conf = None if path is None else read_broker_conf(path)
        self._stores = [source.store for source in self._sources if source.store is not None]
        passes = 1 if len(self._sources) == 1 else 2
        self.total_bytes = passes * sum(source.size for source in self._sources)
        self.segment_size = options.segment_size or self._usual_size()
        self._result = LogResult(knows_release=bool(self._stores))
        self._reading = RecordStream(self._sources, options, self._result, self._expired())

    def run(self, advance: Advance = lambda _: None) -> LogResult:
        """Write the new store, or with `dry_run` say what would be written.

        Args:
            advance: takes the bytes that were read since it was last called.

        Raises:
            UsageError: what was asked cannot be done with these records.
            OutputExists: the output is there.
            WriteFailed: the system refused; nothing is left behind.
        """
        began = time.perf_counter()
        result = self._result
        for source in self._sources:
            if source.store is not None:
                self._judge_files(source.store)
        chunks = self._reading.chunks(advance)
        first = next(chunks, None)
        if first is not None and self.options.output is None:
            self._write_log(None, chain([first], chunks))
        elif first is not None and self.options.output is not None:
            with output_directory(self.options.output) as tree:
                self._write_log(tree, chain([first], chunks))
                result.built = self._build(tree)
                self._refuse_copies(result.built)
                result.offsets = write_state(
                    tree, self._stores, result.built, self.options.queue_offsets
                )
                if self.options.keeps_all and self._stores:
                    write_timers(tree, self._stores[0])
                elif any(queue.topic == TIMER_TOPIC for queue in result.built.queues):
                    write_timer_check(tree)
                result.defects = self._validated(tree, result.built.rules.release.version)
            result.fsync_seconds = tree.fsync_seconds
        result.seconds = time.perf_counter() - began
        return result

    def _judge_files(self, store: Store) -> None:
        """Take note of what is wrong with the files of a source, beside gaps."""
        for kind in dict.fromkeys(artefact.kind for artefact in store.branches_of(*LOGS)):
            findings, unread = log_damage(store, VIEWS[str(kind)], self.options.selection)
            self._result.source_defects.update(str(finding.code) for finding in findings)
            self._result.unread += unread

    def _usual_size(self) -> int:
        """Give the size that brokers with the configuration, or those of the stores, expect."""
        configured = configured_lengths(self._broker_conf).get("commitlog")
        for store in self._stores:
            return configured or store.geometry.commitlog.value
        return configured or DEFAULTS["commitlog"]

    def _expired(self) -> int | None:
        """Give the store time, ms, until which records are left out as expired.

        A broker deletes whole files, by the time of their last change: that of a new file is the
        store time of its last record. Source: MappedFileQueue#deleteExpiredFileByTime.
        """
        if self.options.expired_at is None:
            return None
        hours = RESERVED_HOURS.of(self._broker_conf)
        self._result.reserved_hours = hours
        return self.options.expired_at - hours * HOUR_MS

    def _write_log(self, tree: OutputTree | None, chunks: Iterable[Chunk]) -> None:
        options, result, reading = self.options, self._result, self._reading
        keeps = options.positions is Positions.KEEP
        places: LogPlaces = KeptPlaces(self.segment_size)
        if not keeps:
            past = max(source.end for source in self._sources)
            places = PackedPlaces(self.segment_size, past)
        files = LogFiles(tree, self.segment_size)
        result.log = files.tally
        numbers: Numbers = QueueNumbers(reading.topics)
        if options.queue_offsets is QueueOffsets.KEEP:
            several = len(self._sources) > 1
            numbers = KeptNumbers(reading.topics, reading.thinned, is_needed=several)
        halves, checksum = HalfPlaces(reading.topics), crc.checksum()
        for chunk in chunks:
            files.note(reading.blanks)
            reading.blanks.clear()
            numbers.number(chunk)
            fields = chunk.fields
            before = fields[at.OFFSET].copy()
            kept = places.place(fields)
            if kept is not None:
                result.left_out[Reason.OVERLAP] += int((~kept).sum())
                fields = np.ascontiguousarray(fields[:, kept])
            if not keeps:
                halves.move(fields, before)
            kernels.stamp(chunk.raw, fields, checksum)
            files.add(fields, chunk.raw)
            result.messages += fields.shape[1]
            magics = chunk.raw[fields[at.START] + MAGIC_ENDS]
            result.second_version += int((magics == MESSAGE_MAGIC_BYTES[1][-1]).sum())
            result.bytes += int(fields[at.SIZE].sum())
        files.finish()
        result.lone_commits = halves.lone

    def _refuse_copies(self, built: RebuildResult) -> None:
        """Refuse queues that would deliver messages again, but in a log that is kept as it is.

        Raises:
            NotSound: there are some.
        """
        copies = sum(queue.tally.copies for queue in built.queues)
        if copies and not self.options.keeps_all:
            harm = f"consumers would receive messages again, {copies:,} times in all"
            raise NotSound(path=str(self.options.output), harm=harm, instead=self._instead())

    def _validated(self, tree: OutputTree, release: Version) -> list[Finding]:
        """Validate the new store before it appears. Raises NotSound: it is damaged."""
        options = self.options
        findings = defects_of(
            tree.location,
            broker_version=str(release),
            broker_conf=options.broker_conf,
            jobs=options.jobs,
        )
        damage = [
            finding
            for finding in findings
            if finding.severity is Severity.DAMAGE
            and finding.code.prefix != CONFIGURATION
            and finding.code
            not in MISSING  # of which no log tells, or a database is the only place
        ]
        if damage:
            harm = f"it would be damaged: {counted_codes(damage)}"
            by_number = any(
                defect.code in BY_NUMBER or defect.code.prefix == OF_QUEUES for defect in damage
            )
            instead = self._instead(is_by_number=by_number)
            raise NotSound(path=str(options.output), harm=harm, instead=instead)
        return findings

    def _instead(self, *, is_by_number: bool = True) -> str:
        """Say how a sound store is written instead."""
        options = self.options
        if self._result.unreadable:
            return "--positions pack --record-version 1: that release cannot read version 2"
        if is_by_number and options.queue_offsets is QueueOffsets.KEEP:
            return "--queue-offsets renumber: messages get new queue offsets, without gaps"
        return f"repair the source first: rmqtool repair {shlex.quote(options.sources[0])}"

    def _build(self, tree: OutputTree) -> RebuildResult:
        """Derive queues and index from the new log."""
        location = tree.location
        staged = open_store(location)
        if self._stores:
            store = _as_of(self._stores[0], staged)
        else:
            store = replace(staged, broker_conf=self._broker_conf)
        options = RebuildOptions(
            location,
            output=location,
            broker_version=self.options.broker_version,
            jobs=self.options.jobs,
            proven=self.options.positions is Positions.PACK,
        )
        if self._stores:  # what its queues show is of its own log
            options = replace(options, rules=rules_for(self._stores[0], options))
        return rebuild_from(store, options, WritingSink(tree.subtree))


def _as_of(store: Store, staged: Store) -> Store:
    """Give a store with another log: its queues and configuration say what is to be written."""
    log = [artefact for artefact in staged.branches if artefact.kind is ArtefactKind.COMMITLOG]
    others = [artefact for artefact in store.branches if artefact.kind not in LOGS]
    return replace(store, branches=(*log, *others))


# The records of all sources, in the order of the new log, with an account of what is left out.


MAGIC_CODES: Final = {
    None: None,
    RecordVersion.FIRST: MESSAGE_MAGIC_CODE,
    RecordVersion.SECOND: MESSAGE_MAGIC_CODE_V2,
}
CHANGED: Final = "its records are others than a moment before: try again"
LEAST_BYTES: Final = 1 << 20  # of a source, when there are many


class RecordStream:
    """Reads the sources, once, or twice where several may have the same messages.

    Args:
        sources: in the order in which they were given.
        options: what is wanted.
        result: takes note of what is left out.
        expired: store time, ms, until which records are left out; None leaves out none.

    Attributes:
        topics: numbers of the topics of all records.
        blanks: physical offsets of blank records; who takes note of them clears it.
        thinned: topics of the broker of which only what waits is taken.
    """

    def __init__(
        self,
        sources: Sequence[LogSource],
        options: LogOptions,
        result: LogResult,
        expired: int | None = None,
    ) -> None:
        self.topics: dict[bytes, int] = {}
        self.blanks: list[int] = []
        self.thinned: frozenset[bytes] = frozenset()
        self._sources, self._options, self._result = sources, options, result
        self._expired = expired
        self._packs = options.positions is Positions.PACK
        self._judges = self._packs and options.queue_offsets is QueueOffsets.KEEP

    def chunks(self, advance: Advance) -> Iterator[Chunk]:
        """Yield the records, from the first one that is wanted on.

        Args:
            advance: takes the bytes that were read since it was last called.

        Raises:
            UnreadablePath: what says which copies wait cannot be read, or a source that is read
                twice was another one the second time.
        """
        several = len(self._sources) > 1
        wanted = [self._wanted(source) for source in self._sources]
        marks: list[Bools | None] = [None] * len(wanted)
        if several:
            every = zip(self._sources, wanted, strict=True)
            censuses = [self._census(source, advance, options) for source, options in every]
            drop = repeated([census.keys for census in censuses])
            self._result.votes = vote(self._sources, censuses, drop)
            marks[:] = drop
        streams = [
            self._of_source(number, wanted[number], marks[number], advance)
            for number in range(len(wanted))
        ]
        chunks = streams[0]
        if several:
            votes = self._result.votes
            has_offsets = not self._packs or (votes is not None and votes.is_one_log)
            chunks = merged(streams, at.OFFSET if has_offsets else at.STORE_TIME)
        has_begun = False
        for chunk in chunks:
            has_begun |= bool(chunk.count)
            if has_begun:
                yield chunk

    def _wanted(self, source: LogSource) -> TakeOptions:
        options = self._options
        taken = TakeOptions(
            options.selection,
            host=options.store_host,
            magic_code=MAGIC_CODES[options.record_version],
            bridges=not self._packs,
            expired=self._expired,
            part_bytes=max(PART_BYTES // len(self._sources), LEAST_BYTES),
        )
        renumbers = options.queue_offsets is QueueOffsets.RENUMBER
        if source.store is None:
            return taken
        if options.keeps_all:
            return taken
        waiting = waiting_of(source.store, moves=self._packs, renumbers=renumbers)
        self.thinned |= waiting.thinned
        return replace(taken, waiting=waiting)

    def _census(self, source: LogSource, advance: Advance, wanted: TakeOptions) -> Census:
        """Read a source for what tells its records apart alone."""
        wanted = replace(wanted, keys=True, copies=False)
        chunks = source.chunks(wanted, advance, self._options.jobs)
        parts = [
            (chunk.fields[at.KEY], chunk.fields[at.OFFSET], chunk.contents, chunk.facts)
            for chunk in chunks
            if chunk.contents is not None and chunk.facts is not None
        ]
        return Census(*(concatenated(rows) for rows in zip(*parts, strict=True))) if parts else NONE

    def _of_source(
        self, number: int, wanted: TakeOptions, repeats: Bools | None, advance: Advance
    ) -> Iterator[Chunk]:
        """Yield the records of one source, in its order."""
        judge = QueueOffsetJudge()
        source = self._sources[number]
        begin = 0
        for chunk in source.chunks(wanted, advance, self._options.jobs):
            self._account(source, chunk)
            self._name_topics(chunk, number)
            count = chunk.count
            if repeats is not None:
                repeat = repeats[begin : begin + count]
                if len(repeat) < count:
                    raise UnreadablePath(path=source.path, reason=CHANGED)
                begin += count
                self._leave_out(chunk, repeat, Reason.DUPLICATE)
            if self._judges:
                self._leave_out(chunk, ~judge.possible(chunk.fields), Reason.NUMBER)
            yield chunk
        # What was taken for a repetition of a record that is gone now would be in no log.
        if repeats is not None and begin < len(repeats):
            raise UnreadablePath(path=source.path, reason=CHANGED)

    def _leave_out(self, chunk: Chunk, unwanted: Bools, reason: Reason) -> None:
        if unwanted.any():
            self._result.left_out[reason] += int(unwanted.sum())
            chunk.fields = np.ascontiguousarray(chunk.fields[:, ~unwanted])

    def _account(self, source: LogSource, chunk: Chunk) -> None:
        result, store = self._result, source.store
        result.left_out += chunk.left_out
        result.gaps += chunk.gaps
        result.source_defects += chunk.defects
        self.blanks += chunk.blanks
        error = chunk.unread
        if error is None:
            return
        path = error.path if store is None else error.path.removeprefix(f"{store.root}/")
        if store is not None and store.moment.is_gone(path, error):
            result.expired.add(path)
        elif str(error) not in map(str, result.unread):
            result.unread.append(error)

    def _name_topics(self, chunk: Chunk, source: int) -> None:
        """Number topics as all chunks do."""
        if chunk.count:
            numbers = [self.topics.setdefault(name, len(self.topics)) for name in chunk.topics]
            chunk.fields[at.TOPIC] = np.array(numbers, np.int64)[chunk.fields[at.TOPIC]]
            chunk.fields[at.SOURCE] = source
