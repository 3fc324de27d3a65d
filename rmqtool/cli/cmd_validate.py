"""`rmqtool validate`: prove a whole store sound, or say exactly what is wrong."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqtool.cli.answer_validate import Asked, run
from rmqtool.cli.engines import Choice
from rmqtool.cli.options import (
    BrokerConfOption,
    ColorOption,
    ColumnsOption,
    EngineOption,
    FormatOption,
    JobsOption,
    MasterOption,
    OutputOption,
    QuietOption,
    StoresArgument,
    VerboseOption,
)

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
    engine: EngineOption = None,
    master: MasterOption = None,
    verbose: VerboseOption = False,
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
    return run(
        Asked(
            paths,
            only,
            level,
            topic,
            ignore,
            fail_on,
            broker_version,
            broker_conf,
            jobs,
            sarif,
            junit,
            manifest,
            since_manifest,
            range_checksum,
            format_,
            output,
            columns,
            color,
            quiet,
            Choice(engine, master, verbose),
        )
    )
