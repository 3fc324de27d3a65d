"""`rmqtool dump`: what is in a store, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from rmqtool.cli.choosing import Bodies, Choosing, Fillers, Hex
from rmqtool.cli.completion.values import kinds
from rmqtool.cli.declaration import Command, Option
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.engines import EngineChoice
from rmqtool.cli.exits import DONE, IN_PART, NO, NOT_DONE, say
from rmqtool.cli.options import BrokerConf, Jobs, StorePaths

if TYPE_CHECKING:
    from rmqtool.tables.dump import DumpOptions, DumpOutcome


@dataclass(frozen=True)
class Dump(Command):
    """A store root shows its messages. Bodies are shown on request only. Damage does not stop it:
    a stretch that cannot be read is a row of its own, with the code of the finding, and the exit
    code is then 1, as it is when there is nothing to show.
    """

    paths: StorePaths
    as_: Annotated[
        str | None,
        Option(
            "--as",
            "What it is, or what of a store to show: commitlog, consume-queue, index, "
            "index-header, checkpoint, config, timer-wheel, ... or all.",
            "KIND",
            completes=kinds,
        ),
    ] = None
    choosing: Choosing = Choosing()
    limit: Annotated[int | None, Option("--limit", "The first N rows only.", "N", least=1)] = None
    tail: Annotated[int | None, Option("--tail", "The last N rows only.", "N", least=1)] = None
    bodies: Bodies = Bodies()
    hex: Hex = False
    fillers: Fillers = False
    broker_conf: BrokerConf = None
    jobs: Jobs = None
    delivery: Delivery = Delivery()
    choice: EngineChoice = EngineChoice()

    def run(self) -> int:
        """Write the rows; 1 when some are damage, or when there are none."""
        from rmqtool.tables.dump import DumpOptions, DumpOutcome

        self.delivery.keep_out_of(*self.paths)
        clock = self.delivery.clock
        options = DumpOptions(
            paths=self.paths,
            word=self.as_,
            broker_conf=self.broker_conf,
            selection=self.choosing.selection(clock),
            body=self.bodies.options(),
            limit=self.limit,
            tail=self.tail,
            fillers=self.fillers,
            as_json=self.delivery.is_json,
            columns=self.delivery.wanted_columns,
            jobs=self.jobs,
            is_hex=self.hex,
        )
        self.delivery.note(clock.said)
        outcome = DumpOutcome()
        with self.choice.working(self.paths, self.delivery):
            return self._deliver(options, outcome)

    def _deliver(self, options: DumpOptions, outcome: DumpOutcome) -> int:
        """Write the rows, then say how it went."""
        from rmqtool.render.progress import progress
        from rmqtool.tables.dump import dump
        from rmqtool.words import counted

        delivery = self.delivery
        found = dump(options, outcome)
        quiet = delivery.hides_bar(streams=True)
        with progress("dump", outcome.total_bytes or None, quiet=quiet) as outcome.advance:
            if len(found) == 1:
                delivery.emit(found[0])
            else:
                delivery.emit_all(found)
        for error in outcome.unread:
            say(str(error))
        for step in dict.fromkeys(error.next_step for error in outcome.unread):
            say(f"try: {step}")
        if outcome.unread:
            return IN_PART if outcome.rows > len(outcome.unread) else NOT_DONE
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
