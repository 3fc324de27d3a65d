"""`rmqtool export`: a table of a store as files for other programs."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from rmqtool.cli.choosing import Choosing
from rmqtool.cli.declaration import Command, Only, Option
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.engines import EngineChoice, EngineName, decide, everywhere, stores_of
from rmqtool.cli.exits import DONE, IN_PART, NO, say
from rmqtool.cli.options import BrokerConf, Jobs, StorePath, StoresFile, UnpackLimit
from rmqtool.cli.showing import Bodies, Fillers
from rmqtool.engine import LocalEngine
from rmqtool.errors import StoreError
from rmqtool.reads.export_options import ExportFormat, ExportOptions
from rmqtool.reads.options import SourceOptions, TableName

if TYPE_CHECKING:
    from rmqtool.clock import Clock
    from rmqtool.reads.export import ExportResult


@dataclass(frozen=True)
class Export(Command):
    """This process does it, without Java, or Spark: both write the same files. Each file appears
    complete; _SUCCESS appears when all of them are there. A run that was stopped is completed by
    the same command; another one into the same directory is refused. Damage is rows, as in dump:
    then the exit code is 1, and _DAMAGED appears instead of _SUCCESS. What cannot be read makes the
    exit code 3, and neither appears.
    With --since-last, the same command each night exports each message once: new messages go
    to DIR/batch=N, of many stores to DIR/store=PATH/batch=N. It is refused where the log was cut or
    has expired since.
    A pattern in quotes such as '/backups/*/store', and --stores-file, export many stores as one
    table: columns store and broker come first, and a store that cannot be read stops no other.
    """

    output: Annotated[
        str,
        Option(
            "--output",
            "A new directory, or a URI such as s3://bucket/prefix; a stopped export "
            "there is completed.",
            "DIR",
        ),
    ]
    store: StorePath = ""
    stores_file: StoresFile = None
    table: Annotated[
        TableName,
        Option(
            "--table",
            "Which rows of the store: messages (default), queue_units, index_entries, findings, "
            "segments, topics, queues, groups, consumer_offsets, delay_offsets, checkpoint, "
            "lost_messages, pending_timers, pop_in_flight or traces.",
            "TABLE",
        ),
    ] = TableName.MESSAGES
    format: Annotated[ExportFormat, Option("--format", "How to write rows.")] = ExportFormat.PARQUET
    partition_by: Annotated[
        str | None,
        Option(
            "--partition-by",
            "Directories for the values of these columns: topic, queue_id, and date, the day "
            "of store_time; of many stores also store and broker.",
            "A,B,...",
        ),
    ] = None
    choosing: Choosing = Choosing()
    bodies: Bodies = Bodies()
    fillers: Fillers = False
    since_last: Annotated[
        bool,
        Option(
            "--since-last",
            "Only messages that the log has got since the last run with this option into DIR; "
            "each run makes a directory batch=N in DIR.",
        ),
    ] = False
    split: Annotated[
        str | None,
        Option(
            "--split",
            "Log that one task reads, a file or more: 128MiB, or 1GiB with --partition-by, as "
            "a task writes a file into each directory.",
            "SIZE",
        ),
    ] = None
    target_file_size: Annotated[
        str, Option("--target-file-size", "From here on a file is closed, another begun.", "SIZE")
    ] = "256MiB"
    broker_conf: BrokerConf = None
    unpack_limit: UnpackLimit = None
    delivery: Annotated[Delivery, Only("columns", "time_zone", "quiet")] = Delivery()
    jobs: Jobs = None
    choice: EngineChoice = EngineChoice()

    def run(self) -> int:
        """Write the files; 1 when rows tell of damage, 3 when some input could not be read."""
        from rmqtool.reads.export_options import EXPORT
        from rmqtool.store.moment import expired_sentences

        clock = self.delivery.clock
        options = self._options(clock)
        self.delivery.note(clock.note)
        if self.since_last and options.source.is_fleet:
            result = self._of_fleet(options)
        else:
            done = self._since_last(options) if self.since_last else self._export(options)
            if done is None:
                self.delivery.note("the log has nothing new since the last batch")
                return DONE
            result = done
        replace(self.delivery, columns=None).emit(EXPORT.rows([[EXPORT.row(result)]]))
        for sentence in expired_sentences(result.expired):
            self.delivery.note(sentence)
        for path in result.unread:
            self.delivery.note(f"{path}: could not be read")
        if result.was_complete:
            self.delivery.note("an earlier run had done it all: nothing was written")
        if result.damaged:
            note = f"{result.damaged:,} of {result.rows:,} rows report damage: see column code"
            self.delivery.note(note)
        if not result.is_complete:
            note = "not complete, so there is no _SUCCESS; the same command tries again"
            self.delivery.note(note)
            return IN_PART
        if result.damaged:
            self.delivery.note("_DAMAGED stands for _SUCCESS: validate says what is damaged")
        return NO if result.damaged else DONE

    def _since_last(self, options: ExportOptions) -> ExportResult | None:
        """Export the next batch of a store; None where there is not one."""
        from rmqtool.reads.export_batches import next_batch

        batch = next_batch(options)
        if batch is None:
            return None
        self.delivery.note(f"new messages go to {batch.directory}")
        return self._export(batch.options(options))

    def _of_fleet(self, options: ExportOptions) -> ExportResult:
        """Export the next batch of each store; one that cannot be read stops no other."""
        from rmqtool.reads.export import ExportResult
        from rmqtool.reads.export_batches import of_stores

        result = ExportResult()
        with ExitStack() as held:
            if decide(self.choice, [self.store])[0]:  # one start of Spark for all of them
                held.enter_context(self.choice.spark(self.delivery, forwards=True))
            for name, own in of_stores(options):
                try:
                    done = self._since_last(own)
                except StoreError as error:
                    say(str(error))
                    result.unread.append(name)
                else:
                    result.merge(done or ExportResult())
        return result

    def _options(self, clock: Clock) -> ExportOptions:
        from rmqtool.ranges import size
        from rmqtool.render.values import as_csv

        source = SourceOptions(
            **stores_of(self.store, self.stores_file),
            table=self.table,
            columns=self.delivery.wanted_columns,
            selection=self.choosing.selection(clock),
            body=self.bodies.options(),
            fillers=self.fillers,
            split=size("--split", self.split or ("1GiB" if self.partition_by else "128MiB")),
            broker_conf=self.broker_conf and everywhere(self.broker_conf),
        )
        by = tuple(filter(None, (self.partition_by or "").split(",")))
        target = size("--target-file-size", self.target_file_size)
        return ExportOptions(source, self.output, self.format, by, as_csv, target)

    def _export(self, options: ExportOptions) -> ExportResult:
        """Do it; what is wrong with the options is said before Spark is started."""
        from rmqtool.reads.export import ExportRun
        from rmqtool.render.progress import progress

        is_spark, why = decide(self.choice, [self.store])
        if self.choice.engine is EngineName.AUTO or (is_spark and self.choice.engine is None):
            self.delivery.note(f"engine: {'spark' if is_spark else 'local'}, {why}")
        if is_spark:
            from rmqtool.spark.available import check_spark

            check_spark(self.choice.master)
        work = ExportRun(options)
        done = work.finished()
        if done is not None:
            return done
        total, quiet = work.total_bytes or None, self.delivery.quiet
        if not is_spark:
            with progress("export", total, quiet=quiet) as advance:
                return work.run(LocalEngine(self.jobs), advance)
        with (
            self.choice.spark(self.delivery, forwards=True) as engine,
            progress("export", total, quiet=quiet) as advance,
        ):
            return work.run(engine, advance)
