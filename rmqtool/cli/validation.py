"""Run validations and show them while they run; write reports for CI systems after them."""

from __future__ import annotations

import os
import re
import shlex
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmqtool import __version__
from rmqtool.check.options import CheckLevel
from rmqtool.check.report import row_of, sentences
from rmqtool.errors import UsageError
from rmqtool.findings.finding import FINDINGS
from rmqtool.ledger.account import may_have_lost
from rmqtool.render.look import Format
from rmqtool.render.progress import progress
from rmqtool.rows import Rows
from rmqtool.store.address import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from rmqtool.check.many import StoreVerdict
    from rmqtool.check.options import ValidateOptions
    from rmqtool.check.validate import Findings
    from rmqtool.cli.delivery import Delivery
    from rmqtool.findings.finding import Finding

VERSION: Final = "VERSION"  # how the catalogue calls the release in a command
PLACEHOLDER: Final = re.compile(rf"(\brmqtool [a-z-]+ |--broker-version )(STORE|{VERSION})\b")
STREAMED = (Format.JSONL, Format.CSV)


@dataclass(frozen=True, slots=True)
class Reports:
    """Files that were asked for beside the rows."""

    sarif: str | None = None  # where to write the findings as SARIF
    junit: str | None = None  # the same as JUnit XML
    manifest: str | None = None  # where to write what the files are now
    since: str | None = None  # the manifest of an earlier run, to be read

    @property
    def replaces_manifest(self) -> bool:
        """Whether the new manifest takes the place of the earlier one."""
        paths = (self.manifest, self.since)
        return None not in paths and len({place_of(path or "") for path in paths}) == 1

    def refuse(self, stores: Sequence[str], output: str | None) -> None:
        """Refuse what cannot be meant, and what cannot or must not be written.

        Raises:
            UsageError: a manifest of more than one store.
            OutputExists, WriteFailed: see `refuse_targets`.
        """
        if (self.manifest or self.since) and len(stores) > 1:
            option = "--manifest" if self.manifest else "--since-manifest"
            raise UsageError(option=option, reason="a manifest is of one store; give one PATH")
        new = None if self.replaces_manifest else self.manifest
        if outputs := [name for name in (output, self.sarif, self.junit, new) if name is not None]:
            from rmqtool.writing.output import refuse_targets  # most write no file

            refuse_targets(stores, *outputs)


class Validation:
    """The validations of one command line.

    Attributes:
        findings: the findings so far, for each store.
    """

    def __init__(self, options: Sequence[ValidateOptions]) -> None:
        from rmqtool.check.validate import validate

        self._options = options
        self._advance: Callable[[int], None] = _ignore
        self._runs: list[Findings] = [validate(option, self._watch) for option in options]
        self.findings: list[list[Finding]] = [[] for _ in options]
        self._is_shown = False

    def _watch(self, done: int) -> None:
        self._advance(done)

    def show(self, delivery: Delivery) -> None:
        """Show the findings: while they are found, or at the end, worst first, as formats allow."""
        total = sum(run.total_bytes for run in self._runs)
        streams = delivery.wanted_format in STREAMED
        with progress("validate", total, quiet=delivery.hides_bar(streams=streams)) as advance:
            self._advance = advance
            if streams:
                self._is_shown = True
                with closing(self._find()) as rows:
                    delivery.emit(self._rows(rows))
                return
            for _ in self._find():
                pass
        self.show_rest(delivery)

    def show_rest(self, delivery: Delivery) -> None:
        """Show what was found so far, if it was not shown while it was found."""
        if self._is_shown:
            return
        self._is_shown = True
        everything = (
            self._row(defect, number)
            for number, findings in enumerate(self.findings)
            for defect in sorted(findings, key=lambda defect: -defect.severity.rank)
        )
        delivery.emit(FINDINGS.rows([list(everything)]))

    def _find(self) -> Generator[dict[str, object], None, None]:
        for number, run in enumerate(self._runs):
            with closing(iter(run)) as findings:  # an interrupted one knows how long it took
                for finding in findings:
                    self.findings[number].append(finding)
                    yield self._row(finding, number)

    def _rows(self, rows: Iterator[dict[str, object]]) -> Rows:
        return FINDINGS.rows([row] for row in rows)

    def _row(self, finding: Finding, number: int) -> dict[str, object]:
        return ready_row(finding, self._options[number], self._runs[number], self._prefix(number))

    def _prefix(self, number: int) -> str:
        if len(self._options) == 1:
            return ""
        return f"{os.fspath(self._options[number].store).rstrip('/')}/"

    def say(self, delivery: Delivery) -> None:
        """Sum up on stderr."""
        for number, run in enumerate(self._runs):
            prefix = self._prefix(number).rstrip("/")
            changes = run.ledger.sentences() if run.ledger else ()
            lost = self._lost(number)
            for sentence in (*sentences(run.summary), *lost, *changes):
                delivery.note(f"{prefix}: {sentence}" if prefix else sentence)

    def _lost(self, number: int) -> Iterator[str]:
        """Say how many messages a store has lost, where all of it was looked at."""
        options, summary = self._options[number], self._runs[number].summary
        is_part = bool(options.only or options.topic) or options.level is CheckLevel.QUICK
        if is_part or not summary.is_finished or not may_have_lost(summary.codes):
            return
        from rmqtool.startup.account import account_of  # most stores have lost nothing
        from rmqtool.store.tree import open_store

        store = open_store(options.store, options.broker_conf)
        account = account_of(store, summary.codes, options.broker_version)
        if account is not None and account.messages:
            command = shlex.join(["rmqtool", "doctor", os.fspath(options.store)])
            yield f"{account.sentence()}: {command} lists them"

    @property
    def exit_code(self) -> int:
        """The worst of all stores: unread before damaged before sound."""
        return max(run.exit_code for run in self._runs)

    def write_reports(self, reports: Reports) -> None:
        """Write the reports that were asked for.

        Raises:
            OutputExists: a target is there.
            WriteFailed: the system refused.
        """
        if reports.sarif is not None:
            _write(reports.sarif, self._sarif())
        if reports.junit is not None:
            _write(reports.junit, self._junit())
        ledger = self._runs[0].ledger
        if reports.manifest is not None and ledger is not None and ledger.manifest is not None:
            # None of an interrupted run: it is not whole.
            from rmqtool.check.manifest.circumstances import circumstances  # few ask for one

            data = ledger.manifest._replace(made=circumstances(sys.argv[1:], __version__)).encode()
            _write(reports.manifest, data, overwrite=reports.replaces_manifest)

    def _sarif(self) -> bytes:
        from rmqtool.findings.registry import CODES
        from rmqtool.render.sarif import SarifRun, sarif

        return sarif(
            [
                SarifRun(
                    findings=findings,
                    rules=tuple(CODES.values()),
                    store=run.location,
                    unread=run.summary.account.reasons,
                    left_out=run.summary.account.left_out,
                    is_finished=run.summary.is_finished,
                )
                for run, findings in zip(self._runs, self.findings, strict=True)
            ],
            __version__,
        )

    def _junit(self) -> bytes:
        from rmqtool.findings.registry import CODES
        from rmqtool.render.junit import JunitSuite, junit

        return junit(
            [
                JunitSuite(
                    name=run.location,
                    findings=findings,
                    codes=[(code.area, code) for code in CODES.values() if options.looks_for(code)],
                    seconds=run.summary.seconds,
                    fail_on=options.fail_on,
                    unread=run.summary.account.reasons,
                    left_out=run.summary.account.left_out,
                    unproven=_unproven(options, is_finished=run.summary.is_finished),
                    is_finished=run.summary.is_finished,
                )
                for options, run, findings in zip(
                    self._options, self._runs, self.findings, strict=True
                )
            ]
        )


def ready_row(
    finding: Finding, options: ValidateOptions, run: Findings | StoreVerdict, prefix: str = ""
) -> dict[str, object]:
    """Give a finding as a row, with the command that helps ready to be pasted.

    Args:
        finding: what was found.
        options: of the validation that found it.
        run: that validation, or what came of it.
        prefix: of the path, where several stores are validated.
    """

    def word(match: re.Match[str]) -> str:
        """Give a command with the store, or the release that wrote it, in place of its name."""
        if match[2] == VERSION:
            return f"{match[1]}{run.version}"
        given, root = os.fspath(options.store), run.location
        is_root = str(place_of(given)) == root  # else it is a part of the store, or one file
        return f"{match[1]}{shlex.quote(given if is_root else root)}"

    row = row_of(finding, prefix)
    row["repair"] = PLACEHOLDER.sub(word, finding.repair)
    return row


def _unproven(options: ValidateOptions, *, is_finished: bool) -> dict[str, str]:
    """Give the codes whose absence proves nothing, with the reason."""
    from rmqtool.check.options import LOG_AREAS
    from rmqtool.findings.registry import CODES

    if not is_finished:
        return dict.fromkeys(CODES, "interrupted")
    if options.level.reads_log:
        return {}
    why = f"--level {options.level} reads no records"
    return {code: why for code in CODES.values() if code.area in LOG_AREAS}


def _ignore(_: int) -> None:
    """Take progress before there is a bar."""


def _write(path: str, data: bytes, *, overwrite: bool = False) -> None:
    from rmqtool.writing.output import OutputFile

    with OutputFile(path, overwrite=overwrite) as file:
        file.binary.write(data)
