"""`rmqtool validate`: prove a whole store sound, or say exactly what is wrong."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final

from rmqtool.check.options import CheckLevel
from rmqtool.cli.completion.values import areas, broker_versions, codes, topics
from rmqtool.cli.declaration import Command, Option, options_of
from rmqtool.cli.delivery import Delivery, Untimed
from rmqtool.cli.engines import EngineChoice, decide
from rmqtool.cli.options import (
    AsUser,
    BrokerConf,
    Jobs,
    MaxRate,
    StorePaths,
    StoresFile,
    UnpackLimit,
)
from rmqtool.errors import UsageError
from rmqtool.findings.catalogue import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.options import ValidateOptions
    from rmqtool.cli.validation import Reports, Validation

SLOWEST: Final = 1 << 20  # bytes a second: a window is read in four seconds


@dataclass(frozen=True)
class Validate(Command):
    """Every record, consume queue unit and index entry is read. All are compared with each other,
    with the checkpoint, the timer and the configuration. Each defect is a row with its place and
    its remedy; 'rmqtool help CODE' explains a finding code. The summary on stderr lists the parts
    that were read and those not read. Nothing is written to the store.

    Several PATHs, a pattern in quotes such as '/backups/*/store', and --stores-file give a row a
    store: release, messages, verdict and worst finding. One that cannot be read does not stop the
    others, and on Spark all of them are one job.

    The exit code is 0 when nothing as bad as --fail-on was found, 1 when it was, and 3 when
    something could not be read: then nothing is proven. Ctrl-C shows what was found so far.

    For every night: --since-manifest FILE --manifest FILE reads the end of the log only. A byte
    that changes in a part read before is found by a run without --since-manifest, once a week.
    Beside a running broker: --every 10m keeps watch, --max-rate 100MB leaves the disk to it.
    """

    paths: StorePaths = ()
    only: Annotated[
        frozenset[str],
        Option(
            "--only",
            "Only this area (layout, commitlog, consumequeue, index, checkpoint, timer, config, "
            "offsets, ...) or finding code; may be given several times, or comma separated.",
            "AREA|CODE",
            completes=areas,
        ),
    ] = frozenset()
    level: Annotated[
        CheckLevel,
        Option(
            "--level",
            "quick: names, lengths, headers, tails. full: every record, unit and entry, with "
            "checksums. deep: also decompress bodies and take batches and properties apart.",
        ),
    ] = CheckLevel.FULL
    topic: Annotated[
        str | None,
        Option(
            "--topic",
            "Compare the queues of this topic only; leave the index out.",
            "T",
            completes=topics,
        ),
    ] = None
    ignore: Annotated[
        frozenset[str],
        Option(
            "--ignore",
            "Do not report or count this finding code; repeatable.",
            "CODE",
            completes=codes,
        ),
    ] = frozenset()
    fail_on: Annotated[
        Severity, Option("--fail-on", "The least severity that makes the exit code 1.")
    ] = Severity.DAMAGE
    broker_version: Annotated[
        str | None,
        Option(
            "--broker-version",
            "The broker that is to run on the store; by default the one that wrote it.",
            "V",
            completes=broker_versions,
        ),
    ] = None
    broker_conf: BrokerConf = None
    unpack_limit: UnpackLimit = None
    as_user: AsUser = None
    jobs: Jobs = None
    sarif: Annotated[
        str | None, Option("--sarif", "Write the findings as SARIF 2.1.0.", "FILE")
    ] = None
    junit: Annotated[str | None, Option("--junit", "Write the findings as JUnit XML.", "FILE")] = (
        None
    )
    manifest: Annotated[
        str | None,
        Option(
            "--manifest",
            "Write what the files are now: sizes, times, record counts, SHA-256. It may replace "
            "the one that --since-manifest names.",
            "FILE",
        ),
    ] = None
    since_manifest: Annotated[
        str | None,
        Option(
            "--since-manifest",
            "Say what changed since this manifest. Sealed log segments whose size, time and inode "
            "are the same are not read again (at --level deep, all are read).",
            "FILE",
        ),
    ] = None
    range_checksums: Annotated[
        bool,
        Option(
            "--range-checksum",
            "In the manifest, also give each new sealed segment the murmur3 checksum that a "
            "broker (5.0 and later) computes for its range; takes half a minute for each GiB.",
        ),
    ] = False
    recursive: Annotated[
        bool,
        Option(
            "--recursive",
            "Validate every store below PATH: a row for each.",
        ),
    ] = False
    stores_file: StoresFile = None
    findings: Annotated[
        str | None,
        Option(
            "--findings",
            "Of several stores, write all findings as JSON lines, with the columns store and "
            "broker.",
            "FILE",
        ),
    ] = None
    every: Annotated[
        str | None,
        Option(
            "--every",
            "Keep watch: validate again and again, this long from begin to begin, until SIGTERM or "
            "Ctrl-C. A round reads what is new since the last one (at --level deep, everything). "
            "A finding is shown once.",
            "10m",
        ),
    ] = None
    max_rate: MaxRate = None
    delivery: Untimed = Delivery()
    choice: EngineChoice = EngineChoice()

    def describe(self) -> int:
        """Write what findings are, or the rows of stores."""
        from rmqtool.check.many import STORES
        from rmqtool.findings.finding import FINDINGS

        return self.delivery.describe([STORES if self._is_many else FINDINGS], *self.paths)

    @property
    def _is_many(self) -> bool:
        """Whether each store is a row."""
        from rmqtool.store.address import is_pattern

        if self.recursive or self.stores_file is not None or any(map(is_pattern, self.paths)):
            return True
        return len(self.paths) > 1 and self.sarif is None and self.junit is None

    def run(self) -> int:
        """Validate the stores; the exit code is that of the worst."""
        from rmqtool import memory

        memory.give_back_arrays()
        with memory.lasting():
            from rmqtool.cli.validation import Reports, Validation

        if self.every is not None:
            return self._watch(self.every)
        if not self.paths and self.stores_file is None:
            raise UsageError(option="PATH", reason="is missing: which store?")
        if self._is_many:
            return self._each()
        if self.findings is not None:
            raise UsageError(option="--findings", reason="is for several stores; see --output")
        reports = Reports(self.sarif, self.junit, self.manifest, self.since_manifest)
        reports.refuse(self.paths, self.delivery.output)
        with memory.lasting():  # what checks is imported here
            validation = Validation([self._options(path) for path in self.paths])
        if self.topic is not None:
            from rmqtool.query.topics import topic_hints

            for sentence in topic_hints(self.paths, self.broker_conf, [self.topic]):
                self.delivery.note(sentence)
        with self._working():
            return self._deliver(validation, reports)

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Read within the block, by the engine and at the rate that were asked for."""
        from rmqtool.ranges import size
        from rmqtool.store.place import paced

        text = None if self.max_rate is None else self.max_rate.removesuffix("/s")
        rate = None if text is None else size("--max-rate", text)
        if rate is not None and rate < SLOWEST:
            raise UsageError(option="--max-rate", reason=f"{SLOWEST:,} bytes a second at least")
        if rate is not None and decide(self.choice, self.paths)[0]:
            reason = "is kept by this process only: --engine local"
            raise UsageError(option="--max-rate", reason=reason)
        with self.choice.working(self.paths, self.delivery), paced(rate):
            yield

    def _watch(self, every: str) -> int:
        """Validate one store again and again."""
        from rmqtool.cli.watching import Watch

        unlike = {
            "--recursive": self.recursive,
            "--stores-file": self.stores_file,
            "--findings": self.findings,
            "--sarif": self.sarif,
            "--junit": self.junit,
            "--manifest": self.manifest,
            "--since-manifest": self.since_manifest,
            "--output": self.delivery.output,
            "PATH": self.paths[1:],
        }
        watch = Watch(replace(self._options(self.paths[0]), keeps_book=True), every, unlike)
        with self._working():
            return watch.run(self.delivery)

    def _each(self) -> int:
        """Validate many stores, a row each."""
        from rmqtool.check.many import STORES, Stores
        from rmqtool.cli.fleet_findings import FleetFindings
        from rmqtool.plural import counted as number_of
        from rmqtool.render.progress import counted
        from rmqtool.writing.output import refuse_targets

        files = {"--sarif": self.sarif, "--junit": self.junit, "--manifest": self.manifest}
        for option, file in {**files, "--since-manifest": self.since_manifest}.items():
            if file is not None:
                raise UsageError(option=option, reason="is of one store; give one PATH")
        refuse_targets(self.paths, self.delivery.output, self.findings)
        options = self._options("")
        stores = Stores(options, self.paths, self.stores_file, is_above=self.recursive)
        keeps = self.findings is not None
        hides = self.delivery.hides_bar(streams=True)
        with (
            self._working(),
            counted("validate", quiet=hides) as watch,
            FleetFindings(self.findings, options) as written,
        ):
            verdicts = map(written.put, stores.verdicts(watch, keeps_findings=keeps))
            self.delivery.emit(STORES.rows([verdict.row] for verdict in verdicts))
        self.delivery.note(number_of(len(stores.stores), "store"))
        return stores.exit_code

    def _options(self, path: str) -> ValidateOptions:
        from rmqtool.check.options import ValidateOptions

        return options_of(
            ValidateOptions,
            self,
            store=path,
            since=self.since_manifest,
            keeps_book=self.manifest is not None,
        )

    def _deliver(self, validation: Validation, reports: Reports) -> int:
        """Show what is found, sum it up, write the reports."""
        from rmqtool.cli.signals import Terminated

        try:
            validation.show(self.delivery)
        except (KeyboardInterrupt, Terminated):
            # Inside of this block no further signal is raised: what was found gets out.
            validation.show_rest(self.delivery)
            validation.say(self.delivery)
            validation.write_reports(reports)
            raise
        validation.say(self.delivery)
        validation.write_reports(reports)
        return validation.exit_code
