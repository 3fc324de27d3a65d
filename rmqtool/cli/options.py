"""Options and arguments that commands share, each declared once."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqtool.cli.engines import Engine
from rmqtool.render.emit import Format

ENGINE = "Engine"  # a panel of the help

StoreArgument = Annotated[
    str, typer.Argument(metavar="STORE", help="A store root, a directory of it, or a file.")
]
StoresArgument = Annotated[
    list[str],
    typer.Argument(metavar="PATH", help="Store roots, directories of a store, or files."),
]
BrokerConfOption = Annotated[
    str | None,
    typer.Option(
        "--broker-conf",
        metavar="FILE",
        help="The broker's configuration, for paths and file lengths that are not the usual ones.",
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", min=1, help="Threads; one for each processor by default."),
]
FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="How to write rows; 'table' on a terminal and 'jsonl' elsewhere by default.",
    ),
]
OutputOption = Annotated[
    str | None,
    typer.Option(
        "--output", metavar="FILE", help="Write rows to a new file instead of standard output."
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option("--columns", metavar="A,B,...", help="Only these columns, in this order."),
]
ColorOption = Annotated[
    str,
    typer.Option(
        "--color", metavar="WHEN", help="Colour in tables: auto, always or never; NO_COLOR counts."
    ),
]
TimeZoneOption = Annotated[
    str | None,
    typer.Option(
        "--time-zone",
        metavar="ZONE",
        help="Show the times of tables as clocks there do: Europe/Berlin, local, ... Other formats "
        "stay in UTC, as does what is given.",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on stderr but errors.")]
EngineOption = Annotated[
    Engine | None,
    typer.Option(
        "--engine",
        rich_help_panel=ENGINE,
        help="Who does the work: this process, or Spark. auto, the default, takes Spark when a "
        "master is named or configured or the store is remote.",
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        rich_help_panel=ENGINE,
        help="Where Spark runs: local[*], spark://HOST:PORT, yarn, k8s://..., or sc://HOST for "
        "Spark Connect.",
    ),
]
VerboseOption = Annotated[
    bool,
    typer.Option(
        "--verbose", rich_help_panel=ENGINE, help="Keep what Spark says in a log file, and name it."
    ),
]
