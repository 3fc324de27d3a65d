"""`rmqtool rebuild-log`: records of stores and extracts become a new store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from rmqtool.cli.choosing import Choosing
from rmqtool.cli.completion.values import broker_versions
from rmqtool.cli.declaration import Argument, Command, Only, Option, options_of
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.exits import DONE, IN_PART, NO, NOT_DONE, say_unread
from rmqtool.cli.options import BrokerConf, Jobs, UnpackLimit
from rmqtool.relog.options import LogOptions, Positions, QueueOffsets, RecordVersion

if TYPE_CHECKING:
    from rmqtool.clock import Clock
    from rmqtool.relog.report import LogResult


@dataclass(frozen=True)
class RebuildLog(Command):
    """The new store has a commitlog of the wanted, undamaged records, with consume queues, key
    index, checkpoint, topics and groups. A broker starts on it. Offsets of consumers are carried
    along while queue offsets are kept. A source is a store, or a file of records that ends in .rmq,
    as 'extract' writes it. Several sources are put into one order by store time; a message that
    more than one of them has, by topic and unique key, is written once. If replicas differ at a
    physical offset, the copy of the majority is written; of two, the copy that queues and key index
    confirm. If nothing tells, the first one is written, and named.

    With '--positions pack', records follow each other without gaps. With 'keep', each stays at its
    physical offset: of a sound store without filters the new log is the same, byte for byte. Bridge
    records fill the place of missing records. Brokers skip them and never deliver them.

    The store appears complete or not at all. Damage does not stop it, but the summary tells of it,
    and the exit code is then 1.
    """

    sources: Annotated[
        tuple[str, ...],
        Argument("SOURCE", "A store root, its commitlog, an archive, or a FILE.rmq.", opens=True),
    ]
    output: Annotated[str | None, Option("--output", "The new store.", "DIR")] = None
    dry_run: Annotated[bool, Option("--dry-run", "Say what would be written.")] = False
    positions: Annotated[
        Positions,
        Option("--positions", "Where records go: one after the other, or where they lay."),
    ] = Positions.PACK
    queue_offsets: Annotated[
        QueueOffsets,
        Option(
            "--queue-offsets",
            "Keep the queue offset of each message, or number those of each queue from 0 on.",
        ),
    ] = QueueOffsets.KEEP
    segment_size: Annotated[
        str | None,
        Option(
            "--segment-size",
            "Bytes of a commitlog file, such as 256MiB: mappedFileSizeCommitLog. By default as in "
            "the source, or 1GiB.",
            "SIZE",
        ),
    ] = None
    store_host: Annotated[
        str | None,
        Option(
            "--store-host",
            "Address of the broker that all records are to name; by default they keep theirs.",
            "HOST:PORT",
        ),
    ] = None
    record_version: Annotated[
        RecordVersion | None,
        Option(
            "--record-version",
            "1: the length of the topic has one byte, all releases read it; topics over 127 bytes "
            "are left out. 2: two bytes, for 5.1.0 or newer. By default as they are.",
        ),
    ] = None
    choosing: Annotated[
        Choosing,
        Only(
            *("topic", "queue", "tag", "key", "where_property"),
            *("from_", "to", "since", "around", "offsets"),
        ),
    ] = Choosing()
    drop_expired: Annotated[
        bool,
        Option(
            "--drop-expired",
            "Leave out records that a broker would delete as expired, by the store time of each: "
            "fileReservedTime of --broker-conf ago or before; by default 72 hours.",
        ),
    ] = False
    broker_version: Annotated[
        str | None,
        Option(
            "--broker-version",
            "The release that is to run on the store; by default the one that wrote the source.",
            "X.Y.Z",
            completes=broker_versions,
        ),
    ] = None
    broker_conf: BrokerConf = None
    unpack_limit: UnpackLimit = None
    jobs: Jobs = None
    delivery: Annotated[Delivery, Only("format", "columns", "color", "time_zone", "quiet")] = (
        Delivery()
    )

    def describe(self) -> int:
        """Write what the row is."""
        from rmqtool.relog.report import REBUILT_LOG

        return self.delivery.describe([REBUILT_LOG])

    def run(self) -> int:
        """Write the store; 1 when something is damaged, or nothing was found."""
        from rmqtool import memory

        memory.give_back_arrays()
        from rmqtool.relog.report import rows_of, sentences
        from rmqtool.relog.work import LogRun
        from rmqtool.render.progress import progress
        from rmqtool.writing.output import refuse_targets

        refuse_targets(self.sources, self.output)
        clock = self.delivery.clock
        options = self._options(clock)
        work = LogRun(options)
        self.delivery.note(clock.note)
        with progress("rebuild", work.total_bytes or None, quiet=self.delivery.quiet) as advance:
            done = work.run(advance)
        self.delivery.emit(rows_of(done))
        for sentence in sentences(options, done):
            self.delivery.note(sentence)
        return self._end(done)

    def _options(self, clock: Clock) -> LogOptions:
        from rmqtool.ranges import size
        from rmqtool.relog.encoder import host_of

        length = self.segment_size
        return options_of(
            LogOptions,
            self,
            segment_size=None if length is None else size("--segment-size", length),
            store_host=b"" if self.store_host is None else host_of(self.store_host),
            selection=self.choosing.selection(clock),
            expired_at=clock.ms("--drop-expired", "now") if self.drop_expired else None,
        )

    def _end(self, done: LogResult) -> int:
        """Say what could not be read, and give the exit code."""
        say_unread(done.unread)
        if done.unread:
            return IN_PART if done.messages else NOT_DONE
        if not done.messages:
            from rmqtool.query.topics import topic_hints

            topics = self.choosing.topic if done.knows_release else ()
            for sentence in topic_hints(self.sources, self.broker_conf, topics):
                self.delivery.note(sentence)
        is_whole = not (done.is_damaged or not done.messages)
        return DONE if is_whole else NO
