"""`rmqtool dump`: what is in a store, row by row."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final

from rmqtool.cli.choosing import Choosing
from rmqtool.cli.completion.values import kinds
from rmqtool.cli.declaration import Command, Only, Option, options_of
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.engines import EngineChoice, decide
from rmqtool.cli.exits import DONE, IN_PART, NO, NOT_DONE, say, say_unread
from rmqtool.cli.options import BrokerConf, Jobs, StorePaths, UnpackLimit
from rmqtool.cli.showing import Bodies, Fillers, Hex, TraceTopic, refuse_on_spark
from rmqtool.errors import UsageError
from rmqtool.render.look import Format

if TYPE_CHECKING:
    from rmqtool.tables.dump import DumpOptions, DumpOutcome


CONFIG: Final = "config"


class DumpFormat(enum.StrEnum):
    """How a dump is written."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    JSON_SCHEMA = "json-schema"
    BROKER_JSON = "broker-json"


@dataclass(frozen=True)
class Dump(Command):
    """A store root shows its messages. Bodies are shown on request only. Damage does not stop it:
    a stretch that cannot be read is a row of its own, with the code of the finding. After the rows
    of all of a file come its own defects. The exit code is 1 then, and when there is nothing to
    show. rmqtool-tables(5) says what is judged.

    With --as config --format broker-json, topics, groups and offsets are written as the JSON files
    that a broker loads. A store that keeps them in RocksDB can then be read by a broker that keeps
    them in JSON: the new directory takes the place of its config directory.
    """

    paths: StorePaths
    as_: Annotated[
        str | None,
        Option(
            "--as",
            "Its kind, or the part of a store to show: commitlog, consume-queue, index, "
            "index-header, checkpoint, config, timer-wheel, ... or all.",
            "KIND",
            completes=kinds,
        ),
    ] = None
    choosing: Choosing = Choosing()
    trace_topic: TraceTopic = ()
    limit: Annotated[int | None, Option("--limit", "The first N rows only.", "N", least=1)] = None
    tail: Annotated[int | None, Option("--tail", "The last N rows only.", "N", least=1)] = None
    follow: Annotated[
        bool,
        Option(
            "--follow",
            "After the last message, follow the messages that a running broker stores, until "
            "Ctrl-C or SIGTERM; with --tail N, begin with the last N.",
        ),
    ] = False
    bodies: Bodies = Bodies()
    hex: Hex = False
    fillers: Fillers = False
    broker_conf: BrokerConf = None
    unpack_limit: UnpackLimit = None
    jobs: Jobs = None
    format: Annotated[
        DumpFormat | None,
        Option(
            "--format",
            "How to write rows; 'table' on a terminal and 'jsonl' elsewhere by default. "
            "'json-schema' says what they are; with --as it reads nothing. "
            "'broker-json' writes the broker's own files, of --as config.",
            env="RMQTOOL_FORMAT",
        ),
    ] = None
    output: Annotated[
        str | None,
        Option(
            "--output",
            "Write rows to a new file instead of standard output; of broker-json, a new directory.",
            "FILE",
        ),
    ] = None
    delivery: Annotated[Delivery, Only("columns", "color", "time_zone", "quiet")] = Delivery()
    choice: EngineChoice = EngineChoice()

    def describe(self) -> int:
        """Write what the rows are; without `--as` the path tells what it is."""
        import os

        from rmqtool.tables.dump import DumpOptions, table_of
        from rmqtool.tables.inputs import store_of, views_of
        from rmqtool.tables.views import EVERYTHING, VIEWS

        options = DumpOptions(self.paths, self.as_, is_hex=self.hex)
        if self.as_ is not None:
            views = [view for view in VIEWS.values() if self.as_ in {view.word, EVERYTHING}]
        elif any(map(os.path.lexists, self.paths)):
            stores = [store_of(path, self.broker_conf, None) for path in self.paths]
            views = [view for store in stores for view in views_of(store, None)]
        else:
            views = [VIEWS["commitlog"]]
        views = list(dict.fromkeys(views))
        tables = [table_of(view, options).rows((), view.word) for view in views]
        return self._delivery.describe(tables, *self.paths)

    def run(self) -> int:
        """Write the rows; 1 when some are damage, or when there are none."""
        from rmqtool.tables.dump import DumpOptions, DumpOutcome

        if self.format is DumpFormat.BROKER_JSON:
            return self._write_broker_json()
        delivery = self._delivery
        delivery.keep_out_of(*self.paths)
        clock = delivery.clock
        is_spark = self.bodies.decoder is not None and decide(self.choice, self.paths)[0]
        refuse_on_spark(self.bodies.decoder, is_spark=is_spark)
        options = options_of(
            DumpOptions,
            self,
            word=self.as_,
            selection=self.choosing.selection(clock),
            body=self.bodies.options(),
            as_json=delivery.is_json,
            columns=delivery.wanted_columns,
            is_hex=self.hex,
            trace_topics=self.trace_topic,
        )
        delivery.note(clock.note)
        outcome = DumpOutcome()
        if self.follow:
            return self._follow(options, outcome)
        with self.choice.working(self.paths, delivery):
            return self._deliver(options, outcome)

    @property
    def _delivery(self) -> Delivery:
        """The way of the rows: to a file or to standard output, in one of the usual formats."""
        chosen = None if self.format is None else Format(self.format)
        return replace(self.delivery, format=chosen, output=self.output)

    def _write_broker_json(self) -> int:
        """Write the configuration as files of a broker; 3 where some of it cannot be read."""
        from rmqtool.tables.broker_json import write_broker_json
        from rmqtool.tables.file_tables import BROKER_JSON
        from rmqtool.writing.output import refuse_targets

        if self.as_ != CONFIG or len(self.paths) != 1:
            reason = "broker-json is a format of one store and of --as config"
            raise UsageError(option="--format", reason=reason)
        if self.output is None:
            raise UsageError(option="--output", reason="broker-json needs a new directory")
        refuse_targets(self.paths, self.output)
        done = write_broker_json(self.paths[0], self.broker_conf, self.output)
        self.delivery.emit(BROKER_JSON.rows([done.rows]))
        for reason in done.unread:
            say(reason)
        return IN_PART if done.unread else DONE

    def _deliver(self, options: DumpOptions, outcome: DumpOutcome) -> int:
        """Write the rows, then say how it went."""
        from rmqtool.check.of_table import with_defects
        from rmqtool.render.progress import progress
        from rmqtool.tables.dump import dump

        delivery = self._delivery
        tables = with_defects(dump(options, outcome), options, outcome)
        quiet = delivery.hides_bar(streams=True)
        with progress("dump", outcome.total_bytes or None, quiet=quiet) as outcome.advance:
            if len(tables) == 1:
                delivery.emit(tables[0])
            else:
                delivery.emit_all(tables)
        return self._tell(outcome)

    def _follow(self, options: DumpOptions, outcome: DumpOutcome) -> int:
        """Write rows until somebody says stop, then say how it went."""
        from rmqtool.cli.signals import Terminated, has_ended, whole_chunks
        from rmqtool.tables.follow import OPTION, Following

        delivery = self._delivery
        unlike = {
            "--output": self.output,
            "--format json": delivery.wanted_format is Format.JSON,
            "--engine spark": decide(self.choice, self.paths)[0],
        }
        for option, wanted in unlike.items():
            if wanted:
                raise UsageError(option=OPTION, reason=f"cannot be combined with {option}")
        following = Following(options, outcome, delivery.note)
        try:
            rows = following.rows()
            delivery.emit(replace(rows, chunks=whole_chunks(rows.chunks)))
        except (KeyboardInterrupt, Terminated):
            has_ended()
            return self._tell(outcome)
        return self._tell(outcome)

    def _tell(self, outcome: DumpOutcome) -> int:
        """Say how a dump went; give the exit code."""
        from rmqtool.plural import counted
        from rmqtool.store.moment import expired_sentences

        delivery = self._delivery
        for sentence in expired_sentences(outcome.expired):
            delivery.note(sentence)
        for begin, end in outcome.not_flushed:
            delivery.note(
                f"RocksDB has units of records before physical offset {begin}; those from there to "
                f"{end} are not flushed yet"
            )
        say_unread(outcome.unread)
        if unread := len(outcome.unread) + outcome.refused:
            return IN_PART if outcome.rows > unread else NOT_DONE
        if outcome.damaged:
            where = "it" if outcome.rows == 1 else f"{outcome.damaged} of them"
            delivery.note(f"{counted(outcome.rows, 'row')}, damage in {where}")
        elif not outcome.rows:
            delivery.note("nothing found")
        if outcome.rows == outcome.damaged:
            from rmqtool.query.topics import topic_hints

            for sentence in topic_hints(self.paths, self.broker_conf, self.choosing.topic):
                delivery.note(sentence)
        return NO if outcome.damaged or not outcome.rows else DONE
