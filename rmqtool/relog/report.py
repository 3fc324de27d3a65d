"""A rebuild of the log as a row and as sentences."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rmqtool.check.written import checked_again
from rmqtool.findings.in_rows import tells_of_damage
from rmqtool.findings.registry_consume_queue import CC_BEHIND
from rmqtool.plural import counted
from rmqtool.relog.chunk import Reason
from rmqtool.relog.options import Positions, QueueOffsets
from rmqtool.relog.segments import LogTally
from rmqtool.store.moment import expired_sentences
from rmqtool.table import Column, Table, Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.errors import StoreError
    from rmqtool.findings.finding import Finding
    from rmqtool.rebuild.options import RebuildResult
    from rmqtool.relog.chunk import Gap
    from rmqtool.relog.options import LogOptions
    from rmqtool.relog.votes import Votes
    from rmqtool.rows import Rows


REBUILT_LOG: Final = Table(
    "rebuilt_log",
    "the commitlog that was rebuilt",
    (
        Column("messages", Type.INT64, "records written", "records"),
        Column("bytes", Type.INT64, "bytes of them", "bytes"),
        Column("segments", Type.INT64, "files of the new commitlog", "files"),
        Column("filtered", Type.INT64, "records left out: not asked for", "records"),
        Column("expired", Type.INT64, "records left out: older than fileReservedTime", "records"),
        Column("damaged", Type.INT64, "records left out: damaged content", "records"),
        Column("duplicates", Type.INT64, "records left out: another source has them", "records"),
        Column("long_topics", Type.INT64, "records left out: no record of version 1", "records"),
        Column("done", Type.INT64, "held copies left out that brokers are done with", "records"),
        Column("overlaps", Type.INT64, "records left out: their place is taken", "records"),
        Column("misnumbered", Type.INT64, "records left out: impossible queue offset", "records"),
        Column("gaps", Type.INT64, "stretches of the sources that hold no record", "gaps"),
        Column("gap_bytes", Type.INT64, "length of those stretches", "bytes"),
        Column("source_defects", Type.INT64, "other damage, of records taken and of files"),
        Column("bridges", Type.INT64, "stretches of the new log that bridge records fill"),
        Column("bridge_bytes", Type.INT64, "length of those stretches", "bytes"),
        Column("queues", Type.INT64, "queues that were derived", "queues"),
        Column("index_entries", Type.INT64, "entries of the key index", "entries"),
        Column("consumer_offsets", Type.INT64, "offsets of consumers that were carried along"),
    ),
    shown=("messages", "bytes", "segments", "filtered", "damaged", "duplicates", "gaps", "queues"),
)
SHOWN: Final = 10


def rows_of(result: LogResult) -> Rows:
    """Give the one row."""
    built = result.built
    row = REBUILT_LOG.row(
        *(result, result.log),
        **{why: result.left_out[why] for why in Reason if why in REBUILT_LOG.names},
        segments=result.log.files,
        gaps=len(result.gaps),
        gap_bytes=sum(gap.length for gap in result.gaps),
        source_defects=result.source_defects.total(),
        queues=len(built.queues) if built else None,
        index_entries=built.entries if built else None,
        consumer_offsets=result.offsets if built else None,
    )
    return REBUILT_LOG.rows([[row]])


def sentences(options: LogOptions, result: LogResult) -> Iterator[str]:
    """Say what was done, what is not in the new log, and what to do next."""
    if not result.messages:
        yield "nothing found; nothing was written"
        yield from _left_out(result)
        return
    if result.built is not None:
        version, why = result.built.rules.release.version, result.built.why_rules
        if not result.knows_release and options.broker_version is None:
            why = "because the source does not record its release; --broker-version sets it"
        yield f"rules of {version}, {why}"
    yield (
        f"{counted(result.messages, 'message')}, {result.bytes:,} bytes, in "
        f"{counted(result.log.files, 'segment')}, in {result.seconds:.2f} s "
        f"({result.fsync_seconds:.2f} s of it waiting for the disk)"
    )
    yield from _left_out(result)
    if result.log.bridges:
        count = counted(result.log.bridges, "stretch", "stretches")
        yield f"bridge records replace {count}, {result.log.bridge_bytes:,} bytes"
    yield from _voted(options, result)
    yield from _changed(options, result)
    if options.output is None:
        yield "nothing was written; next: the same command with --output DIR"
    else:
        yield f"written to {options.output}"
        yield from checked_again(options.output, result.defects)


def _left_out(result: LogResult) -> Iterator[str]:
    left = result.left_out
    hours = f"{result.reserved_hours:,} hours" if result.reserved_hours is not None else ""
    sentences = {
        Reason.EXPIRED: f"that a broker would delete: stored {hours} ago or before",
        Reason.DAMAGED: "with a damaged body, or damaged properties",
        Reason.DONE: "that a broker held back and is done with: delayed, timers, transactions",
        Reason.LONG_TOPIC: "whose topic is longer than 127 bytes, too long for version 1",
        Reason.DUPLICATE: "that an earlier source has, too",
        Reason.OVERLAP: "whose place is taken",
        Reason.NUMBER: "with an impossible queue offset; --queue-offsets renumber takes them",
    }
    for reason, words in sentences.items():
        if left[reason]:
            yield f"left out: {counted(left[reason], 'record')} {words}"
    yield from expired_sentences(result.expired)
    for code, count in sorted(result.source_defects.items()):
        yield f"{counted(count, 'defect')} {code} of the sources: validate says where"
    for gap in result.gaps[:SHOWN]:
        which = "" if gap.number is None else f"record {gap.number}, "
        what = f"{gap.length:,} bytes at {gap.position} hold no record: {gap.code}"
        yield f"{gap.path}: {which}{what}"
    if len(result.gaps) > SHOWN:
        yield f"... and {len(result.gaps) - SHOWN:,} more such stretches"


def _voted(options: LogOptions, result: LogResult) -> Iterator[str]:
    """Say where replicas differ, and which copy was taken."""
    if result.votes is None:
        return
    for offsets, words in (
        (result.votes.by_majority, "the copy that most sources have was written"),
        (result.votes.by_evidence, "the copy that queues and key index confirm was written"),
        (result.votes.untold, "nothing tells which copy is right: the first one was written"),
    ):
        if offsets:
            places = ", ".join(map(str, offsets[:SHOWN]))
            more = f" and {len(offsets) - SHOWN:,} more" if len(offsets) > SHOWN else ""
            count = counted(len(offsets), "record differs", "records differ")
            yield f"{count} between the sources, at physical offset {places}{more}: {words}"
    if result.votes.untold:
        first, second = map(shlex.quote, options.sources[:2])
        yield f"next: rmqtool diff {first} {second}, or rmqtool repair {first} --from {second}"


def _changed(options: LogOptions, result: LogResult) -> Iterator[str]:
    if result.lone_commits:
        count = counted(result.lone_commits, "committed message")
        yield f"{count} without a half message in the new log: preparedTransactionOffset is 0"
    if options.positions is Positions.PACK:
        yield "physical offsets begin past those of the sources: offsetMsgId of each message is new"
    if options.queue_offsets is QueueOffsets.RENUMBER:
        yield "queue offsets are new: consumers have no offsets, and begin as new groups do"
    if any(defect.code == CC_BEHIND for defect in result.defects):
        yield "abort is left: the first start gives compaction topics the messages of the new log"
        yield "messages that are only in compaction/ of a source are not in the new store"
    for offset in result.built.undispatched[:SHOWN] if result.built else ():
        yield f"physical offset {offset}: a numeric property cannot be parsed; dispatch stops here"


# What a rebuild of the log did.


LOST: Final = (Reason.DAMAGED, Reason.LONG_TOPIC, Reason.OVERLAP, Reason.NUMBER)


@dataclass(slots=True)
class LogResult:
    """What became of the records."""

    messages: int = 0  # records in the new log, bridges aside
    bytes: int = 0  # of them
    log: LogTally = field(default_factory=LogTally)  # its files
    # records that are not in it, by reason
    left_out: Counter[Reason] = field(default_factory=Counter)
    second_version: int = 0  # records in the new log with a topic length of two bytes
    # age from which records were left out as expired; None when none was
    reserved_hours: int | None = None
    gaps: list[Gap] = field(default_factory=list)  # what in the sources is no record
    # codes of records in the new log that are damaged in the source, but not in body and
    # properties; and of files of the sources
    source_defects: Counter[str] = field(default_factory=Counter)
    votes: Votes | None = None  # how replicas differed; None of one source
    lone_commits: int = 0  # committed messages whose half message is not in the new log
    offsets: int = 0  # of consumers, that were carried along
    built: RebuildResult | None = None  # queues and index; None when nothing was written
    # what a validation of the new store found that is worse than a note
    defects: list[Finding] = field(default_factory=list)
    knows_release: bool = False  # whether a store was read, whose files tell who wrote it
    unread: list[StoreError] = field(default_factory=list)  # what could not be read
    # files that a running broker deleted before they were read
    expired: set[str] = field(default_factory=set)
    seconds: float = 0.0  # all of it
    fsync_seconds: float = 0.0  # spent waiting for the disk

    @property
    def unreadable(self) -> int:
        """Records of version 2 where the release that is to run on the log does not know it."""
        knows = self.built is None or self.built.rules.release.has_v2
        return 0 if knows else self.second_version

    @property
    def is_damaged(self) -> bool:
        """Whether a source has damage, or a message of the new log cannot be dispatched."""
        # A log has a tail that may be torn; a file of records ends with a whole one.
        gaps = any(tells_of_damage(gap.code) or gap.number is not None for gap in self.gaps)
        lost = gaps or self.source_defects or any(self.left_out[reason] for reason in LOST)
        undispatched = self.built is not None and self.built.undispatched
        untold = self.votes is not None and self.votes.untold
        return bool(lost or undispatched or self.defects or untold)
