"""`rmqtool validate`: prove a whole store sound, or say exactly what is wrong."""

from __future__ import annotations

import enum
import gc
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from rmqtool import memory
from rmqtool.cli import engines
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.options import (
    BrokerConfOption,
    ColorOption,
    ColumnsOption,
    FormatOption,
    JobsOption,
    OutputOption,
    QuietOption,
    StoresArgument,
)
from rmqtool.cli.signals import Terminated
from rmqtool.errors import UsageError
from rmqtool.findings import Severity

if TYPE_CHECKING:
    from rmqtool.cli.validating import Reports, Validation

Choice = TypeVar("Choice", bound=enum.StrEnum)
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="AREA|CODE",
        help="Only this area (layout, commitlog, consumequeue, index, checkpoint, timer, config, "
        "offsets, ...) or finding code; may be given several times, or comma separated.",
    ),
]
LevelOption = Annotated[
    str,
    typer.Option(
        "--level",
        metavar="quick|full|deep",
        help="quick: names, lengths, headers, tails. full: every record, unit and entry, with "
        "checksums. deep: also decompress bodies and take batches and properties apart.",
    ),
]
TopicOption = Annotated[
    str | None,
    typer.Option(
        "--topic", metavar="T", help="Compare the queues of this topic only; leave the index out."
    ),
]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore", metavar="CODE", help="Do not report or count this finding code; repeatable."
    ),
]
FailOnOption = Annotated[
    str,
    typer.Option(
        "--fail-on",
        metavar="note|warning|damage",
        help="The least severity that makes the exit code 1.",
    ),
]
VersionOption = Annotated[
    str | None,
    typer.Option(
        "--broker-version",
        metavar="V",
        help="The broker that is to run on the store; by default the one that wrote it.",
    ),
]
SarifOption = Annotated[
    str | None, typer.Option("--sarif", metavar="FILE", help="Write the findings as SARIF 2.1.0.")
]
JunitOption = Annotated[
    str | None, typer.Option("--junit", metavar="FILE", help="Write the findings as JUnit XML.")
]
ManifestOption = Annotated[
    str | None,
    typer.Option(
        "--manifest",
        metavar="FILE",
        help="Write what the files are now: sizes, times, record counts, SHA-256. It may replace "
        "the one that --since-manifest names.",
    ),
]
RangeOption = Annotated[
    bool,
    typer.Option(
        "--range-checksum",
        help="In the manifest, also give each new sealed segment the murmur3 checksum that a "
        "broker (5.0 and later) computes for its range; takes half a minute for each GiB.",
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since-manifest",
        metavar="FILE",
        help="Say what changed since this manifest, and do not read sealed log segments again "
        "whose size, time and inode are the same (at --level deep, read all).",
    ),
]


def validate(
    paths: StoresArgument,
    only: OnlyOption = None,
    level: LevelOption = "full",
    topic: TopicOption = None,
    ignore: IgnoreOption = None,
    fail_on: FailOnOption = "damage",
    broker_version: VersionOption = None,
    broker_conf: BrokerConfOption = None,
    jobs: JobsOption = None,
    sarif: SarifOption = None,
    junit: JunitOption = None,
    manifest: ManifestOption = None,
    since_manifest: SinceOption = None,
    range_checksum: RangeOption = False,
    format_: FormatOption = None,
    output: OutputOption = None,
    columns: ColumnsOption = None,
    color: ColorOption = "auto",
    quiet: QuietOption = False,
    engine: engines.EngineOption = None,
    master: engines.MasterOption = None,
    verbose: engines.VerboseOption = False,
) -> int:
    """Prove a whole store sound, or say exactly what is wrong with it.

    Every record, consume queue unit and index entry is read, and all are compared with each other,
    with the checkpoint, the timer and the configuration. Each defect is a row with its place and
    its remedy; 'rmqtool help CODE' explains a finding code. The summary on stderr says what was
    read and what was not. Nothing is written to the store.

    The exit code is 0 when nothing as bad as --fail-on was found, 1 when it was, and 3 when
    something could not be read: then nothing is proven. Ctrl-C shows what was found so far.

    For every night: --since-manifest FILE --manifest FILE reads the end of the log only. A byte
    that rots in what was read before is found by a run without --since-manifest, once a week.
    """
    memory.give_back_arrays()
    gc.disable()  # what is imported stays: looking through it again and again takes 40 of 500 ms
    from rmqtool.check.options import Level, ValidateOptions
    from rmqtool.cli.validating import Reports, Validation

    delivery = Delivery(format_, output, columns, color, quiet)
    reports = Reports(sarif, junit, manifest, since_manifest)
    reports.refuse(paths, output)
    validation = Validation(
        [
            ValidateOptions(
                store=path,
                only=_words(only),
                level=_choice(Level, "--level", level),
                topic=topic,
                ignore=_words(ignore),
                fail_on=_choice(Severity, "--fail-on", fail_on),
                broker_version=broker_version,
                broker_conf=broker_conf,
                jobs=jobs,
                since=since_manifest,
                keeps_book=manifest is not None,
                range_checksums=range_checksum,
            )
            for path in paths
        ]
    )
    gc.enable()
    if topic is not None:
        from rmqtool.cli.hints import topic_hints

        for sentence in topic_hints(paths, broker_conf, [topic]):
            delivery.note(sentence)
    with engines.working(engines.Choice(engine, master, verbose), paths, delivery):
        return _deliver(validation, delivery, reports)


def _deliver(validation: Validation, delivery: Delivery, reports: Reports) -> int:
    """Show what is found, sum it up, write the reports."""
    try:
        validation.show(delivery)
    except (KeyboardInterrupt, Terminated):
        # Inside of this block no further signal is raised: what was found gets out.
        validation.show_rest(delivery)
        validation.say(delivery)
        validation.write_reports(reports)
        raise
    validation.say(delivery)
    validation.write_reports(reports)
    return validation.exit_code


def _words(given: list[str] | None) -> frozenset[str]:
    return frozenset(word for text in given or () for word in text.split(",") if word)


def _choice(kind: type[Choice], option: str, word: str) -> Choice:
    """Read one of a few words.

    Raises:
        UsageError: it is none of them.
    """
    try:
        return kind(word)
    except ValueError as error:
        reason = f"{word!r} is none of: {' '.join(kind)}"
        raise UsageError(option=option, reason=reason) from error
