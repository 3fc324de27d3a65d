"""`rmqtool report`: one HTML page about a store, to attach to a ticket."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from rmqtool.cli.declaration import Command, Option, options_of
from rmqtool.cli.delivery import Delivery, Quiet
from rmqtool.cli.options import BrokerConf, Jobs, StorePath, UnpackLimit
from rmqtool.errors import UsageError

if TYPE_CHECKING:
    from rmqtool.check.options import ValidateOptions
    from rmqtool.report.facts import Facts


class Depth(StrEnum):
    """How deep a report looks: the levels of `validate` that read the log."""

    FULL = "full"
    DEEP = "deep"


@dataclass(frozen=True)
class Report(Command):
    """The store is validated, and the page shows what was found. It has the findings with what
    helps, a map of each commitlog file to scale, and the traffic of each topic over time. It shows
    which queues cover the log, lag of consumer groups, dead letters, and lost messages. The file
    needs no network, no script and no other file, and stays below 5 MB however large the store is.
    It holds names of topics and groups, but no keys and no bodies. Nothing is written to the store.

    The exit code is the same as of 'rmqtool validate': 0 when no damage was found, 1 when some was,
    and 3 when something could not be read.
    """

    store: StorePath
    output: Annotated[
        str | None,
        Option("--output", "The page to write; standard output by default.", "FILE"),
    ] = None
    level: Annotated[
        Depth, Option("--level", "How deep to validate; see 'rmqtool help validate'.")
    ] = Depth.FULL
    hashes: Annotated[
        bool,
        Option(
            "--hashes",
            "Add the SHA-256 of each file, the command line, version, user, host and clock; every "
            "file is read whole.",
        ),
    ] = False
    broker_conf: BrokerConf = None
    unpack_limit: UnpackLimit = None
    jobs: Jobs = None
    delivery: Quiet = Delivery()

    def run(self) -> int:
        """Write the page; the exit code is that of a validation."""
        from rmqtool.check.options import CheckLevel, ValidateOptions
        from rmqtool.check.report import sentences
        from rmqtool.writing.output import refuse_targets

        if self.output is None and sys.stdout is not None and sys.stdout.isatty():
            reason = "is needed where standard output is a terminal"
            raise UsageError(option="--output", reason=reason, step="--output report.html")
        refuse_targets([self.store], self.output)
        facts = self._write(options_of(ValidateOptions, self, level=CheckLevel(self.level)))
        for sentence in sentences(facts.summary):
            self.delivery.note(sentence)
        if self.output is not None:
            self.delivery.note(f"wrote {self.output}: open it in a browser, or attach it")
        return facts.exit_code

    def _write(self, options: ValidateOptions) -> Facts:
        """Validate, draw, and bring the page to where it is wanted; give what it shows."""
        from rmqtool.render.sink import standard_output
        from rmqtool.writing.output import OutputFile

        if self.output is None:
            facts, drawn = self._draw(options)
            standard_output().write(drawn)
            return facts
        with OutputFile(self.output) as file:
            facts, drawn = self._draw(options)
            file.binary.write(drawn)
        return facts

    def _draw(self, options: ValidateOptions) -> tuple[Facts, bytes]:
        import time

        from rmqtool import __version__
        from rmqtool.render.progress import progress
        from rmqtool.report.gather import gather
        from rmqtool.report.page import page
        from rmqtool.store.tree import open_store

        opened = open_store(self.store, self.broker_conf)
        total = opened.commitlog.size
        with progress("report", total, quiet=self.delivery.quiet) as advance:
            facts = gather(options, advance)
        if self.hashes:
            from rmqtool.report.facts import evidence

            facts = replace(facts, evidence=evidence(opened, sys.argv[1:]))
        text = page(facts, round(time.time() * 1000), __version__)
        return facts, text.encode("utf-8", "backslashreplace")
