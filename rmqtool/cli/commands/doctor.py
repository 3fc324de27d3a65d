"""`rmqtool doctor`: what ails a store, what follows, and the command to run next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rmqtool.cli.declaration import Command, Only, options_of
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.options import (
    AsUser,
    At,
    BrokerConf,
    Jobs,
    Lang,
    NextRelease,
    StorePath,
    UnpackLimit,
)
from rmqtool.languages import chosen
from rmqtool.render.look import Format


@dataclass(frozen=True)
class Doctor(Command):
    """The one command to know. It tells what the store is and who wrote it, and whether a broker
    starts on it as it is. It counts the messages that a start would lose, which messages the broker
    deletes on its first day, and which are already lost. Then come the cause, the consequence and
    the command to run next. Nothing is written.

    It asks validate, startup and the plan of repair, so it reads the whole log. It also looks at
    owner and modes of the files, the mount, free space, and the lock of a running broker. Give
    --broker-conf: a broker starts under its configuration.

    A table is one screen. '--format json' gives all of it as one document: the diagnosis, the
    steps, all findings, the losses, the queues that change, and the edits of the plan. The exit
    code is 1 when something is damaged, lost or in the way, and 3 when not all could be read.
    """

    store: StorePath
    broker_version: NextRelease = None
    broker_conf: BrokerConf = None
    unpack_limit: UnpackLimit = None
    as_user: AsUser = None
    at: At = None
    lang: Lang = None
    jobs: Jobs = None
    delivery: Annotated[Delivery, Only("format", "output", "color", "quiet")] = Delivery()

    def describe(self) -> int:
        """Write what the rows of the document are."""
        from rmqtool.doctor.report import TABLES

        return self.delivery.describe(TABLES, self.store)

    def run(self) -> int:
        """Examine the store; 1 when something is to be done about it."""
        from rmqtool import memory

        memory.give_back_arrays()
        with memory.lasting():
            from rmqtool.doctor.examination import examine_store
            from rmqtool.doctor.report import exit_code, screen, sections, summary
            from rmqtool.render.progress import progress
            from rmqtool.repair.options import RepairOptions
            from rmqtool.store.tree import open_store

        self.delivery.keep_out_of(self.store)
        now = None if self.at is None else self.delivery.clock.ms("--at", self.at)
        total = open_store(self.store, self.broker_conf).commitlog.size
        with progress("doctor", total, quiet=self.delivery.quiet) as advance:
            options = options_of(RepairOptions, self)
            seen = examine_store(options, advance, self.as_user, now)
        if self.delivery.wanted_format is Format.TABLE:
            language = chosen(self.lang)
            self.delivery.emit(screen(seen, language))
            if more := summary(seen, language):
                self.delivery.note(more)
        else:
            self.delivery.emit_all(sections(seen))
        return exit_code(seen)
