"""`rmqtool extract`: messages of stores, as they were sent, in a new file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from rmqtool.cli.choosing import Choosing
from rmqtool.cli.declaration import Argument, Command, Only, Option, options_of
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.exits import DONE, IN_PART, NO, NOT_DONE, say_unread
from rmqtool.cli.options import BrokerConf, Held, Jobs, UnpackLimit
from rmqtool.cli.showing import DecoderChoice
from rmqtool.messages.options import ExtractFormat, ExtractOptions

if TYPE_CHECKING:
    from rmqtool.clock import Clock
    from rmqtool.messages.extract import Extracted


@dataclass(frozen=True)
class Extract(Command):
    """Each message is written once, with the topic and the queue that it was sent to. A delayed
    message that still waits is written out of SCHEDULE_TOPIC_XXXX; a copy of one that was delivered
    is left out. Copies of retried and dead messages are left out of a whole store if their first
    record is written. Batch records are taken apart, and bodies are
    decompressed. A line has the place of its message in the log.

    A file that ends in .rmq has whole records as they are stored, one after the other. Each begins
    with its own length.

    The file appears complete or not at all. Damage does not stop it, but the summary tells of it,
    and the exit code is then 1.
    """

    stores: Annotated[
        tuple[str, ...],
        Argument("STORE", "Store roots, their commitlog, files of it, or archives.", opens=True),
    ]
    output: Annotated[str, Option("--output", "The new file.", "FILE")]
    format: Annotated[
        ExtractFormat | None,
        Option(
            "--format",
            "JSON lines, records as they are stored, or a Parquet file; the end of the file's name "
            "says it by default, otherwise 'jsonl'. 'json-schema' writes what the lines are, and "
            "reads nothing.",
        ),
    ] = None
    choosing: Choosing = Choosing()
    unconsumed_by: Annotated[
        str | None,
        Option(
            "--unconsumed-by",
            "Only what this consumer group has not consumed, by its committed offsets; its retry "
            "topics, too, and messages that it popped and did not acknowledge. A queue without an "
            "offset counts whole. What lies in several of its light queues is written once.",
            "GROUP",
        ),
    ] = None
    dead_letters: Annotated[
        str | None,
        Option("--dead-letters", "Only what this consumer group gave up.", "GROUP"),
    ] = None
    held: Held = False
    where: Annotated[
        str | None,
        Option(
            "--where",
            "Only messages whose properties fulfil this SQL92 expression, as brokers judge: "
            "\"region = 'eu' AND amount > 10\".",
            "EXPRESSION",
        ),
    ] = None
    undecided: Annotated[
        bool,
        Option(
            "--undecided",
            "Only half messages of open transactions, the newest copy of each; stderr says who has "
            "to decide.",
        ),
    ] = False
    pending: Annotated[
        bool,
        Option(
            "--pending",
            "Only what waits: timers, messages of delay levels, and half messages of open "
            "transactions, the newest copy of each. Property TIMER_OUT_MS says when a timer is "
            "due.",
        ),
    ] = False
    lost_in: Annotated[
        str | None,
        Option(
            "--lost-in",
            "Only messages that this other store, or FILE.rmq, lacks: by topic and unique "
            "key, otherwise by queue, queue offset, store time and checksum.",
            "OTHER",
            opens=True,
        ),
    ] = None
    body_limit: Annotated[str, Option("--body-limit", "Write no body that is larger.", "SIZE")] = (
        "64MiB"
    )
    decoder: DecoderChoice = None
    broker_conf: BrokerConf = None
    unpack_limit: UnpackLimit = None
    jobs: Jobs = None
    delivery: Annotated[Delivery, Only("columns", "time_zone", "quiet")] = Delivery()

    def describe(self) -> int:
        """Write what the lines of the file are into it."""
        from rmqtool.messages.sent import SENT

        return replace(self.delivery, output=self.output).describe([SENT], *self.stores)

    def run(self) -> int:
        """Write the file; 1 when something is damaged, or nothing was found."""
        from rmqtool.messages.extract import ExtractRun
        from rmqtool.messages.sent import EXTRACT
        from rmqtool.render.progress import progress
        from rmqtool.writing.output import refuse_targets

        others = () if self.lost_in is None else (self.lost_in,)
        refuse_targets((*self.stores, *others), self.output)
        clock = self.delivery.clock
        work = ExtractRun(self._options(clock))
        self.delivery.note(clock.note)
        with progress("extract", work.total_bytes or None, quiet=self.delivery.quiet) as advance:
            done = work.run(advance)
        replace(self.delivery, columns=None).emit(EXTRACT.rows([[EXTRACT.row(done)]]))
        return self._end(done)

    def _options(self, clock: Clock) -> ExtractOptions:
        from rmqtool.ranges import size

        if self.decoder is not None:
            from rmqtool.tables.decoders import decoder_of

            decoder_of(self.decoder)  # before anything is read
        return options_of(
            ExtractOptions,
            self,
            paths=self.stores,
            selection=self.choosing.selection(clock),
            columns=self.delivery.wanted_columns,
            body_limit=size("--body-limit", self.body_limit),
        )

    def _end(self, done: Extracted) -> int:
        """Say what is not in the file, and give the exit code."""
        from rmqtool.messages.extract import sentences

        for sentence in sentences(done, self.unconsumed_by):
            self.delivery.note(sentence)
        say_unread(done.unread)
        if done.unread:
            return IN_PART if done.messages else NOT_DONE
        if not done.messages:
            from rmqtool.query.topics import topic_hints

            self.delivery.note("nothing found")
            for sentence in topic_hints(self.stores, self.broker_conf, self.choosing.topic):
                self.delivery.note(sentence)
        return NO if done.damaged or done.gaps or not done.messages else DONE
