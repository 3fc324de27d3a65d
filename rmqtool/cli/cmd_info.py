"""`rmqtool info`: a store at a glance, section by section."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqtool.cli.answer_info import Asked, run
from rmqtool.cli.options import (
    BrokerConfOption,
    ColorOption,
    ColumnsOption,
    FormatOption,
    OutputOption,
    QuietOption,
    StoreArgument,
    TimeZoneOption,
)

SectionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--section",
        metavar="NAME",
        help="Only this section; may be given several times. Default: all of them.",
    ),
]


def info(
    store: StoreArgument,
    section: SectionOption = None,
    broker_conf: BrokerConfOption = None,
    format_: FormatOption = None,
    output: OutputOption = None,
    columns: ColumnsOption = None,
    color: ColorOption = "auto",
    time_zone: TimeZoneOption = None,
    quiet: QuietOption = False,
) -> int:
    """Show a store at a glance: its content, its writer, how it was left.

    Nothing is scanned, so it takes the same time for a small and for a large commitlog. Sections:
    store, release, geometry, segments, oddities, end, dispatch, topics, queues, index,
    checkpoint, groups, databases, disk, problems.
    """
    return run(
        Asked(store, section, broker_conf, format_, output, columns, color, time_zone, quiet)
    )
