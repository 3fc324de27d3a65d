"""`rmqtool repair`: bridge damage, put derived files right, take it back."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqtool.cli.answer_repair import Asked, run
from rmqtool.cli.options import (
    BrokerConfOption,
    ColorOption,
    ColumnsOption,
    FormatOption,
    JobsOption,
    QuietOption,
    StoreArgument,
)


def repair(
    store: StoreArgument,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only say what would be done; so it is by default."),
    ] = False,
    in_place: Annotated[
        bool,
        typer.Option(
            "--in-place",
            help="Change the store itself. The broker must be down; what is replaced is kept in "
            "rmqtool-undo-TIME, and a killed run is finished by the next one.",
        ),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="DIR", help="Write a repaired copy: a new directory."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --in-place on a terminal: really do it.")
    ] = False,
    plan: Annotated[
        str | None, typer.Option("--plan", metavar="FILE", help="Save the plan to a new file.")
    ] = None,
    apply: Annotated[
        str | None,
        typer.Option(
            "--apply",
            metavar="FILE",
            help="Make just the edits of a saved plan; refused if the store has changed since.",
        ),
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take the latest edit in place back, times included.")
    ] = False,
    quarantine: Annotated[
        str | None,
        typer.Option(
            "--quarantine",
            metavar="DIR",
            help="Keep the original bytes of what is replaced in a new directory, as evidence.",
        ),
    ] = None,
    bridge_missing: Annotated[
        bool,
        typer.Option(
            "--bridge-missing", help="Write files of bridges where whole segments are missing."
        ),
    ] = False,
    clamp_offsets: Annotated[
        bool,
        typer.Option(
            "--clamp-offsets",
            help="Move committed consumer and delay offsets that lie outside of their queue.",
        ),
    ] = False,
    broker_version: Annotated[
        str | None,
        typer.Option(
            "--broker-version",
            metavar="X.Y.Z",
            help="Release that is to run on the store; by default the one that wrote it.",
        ),
    ] = None,
    broker_conf: BrokerConfOption = None,
    jobs: JobsOption = None,
    format_: FormatOption = None,
    columns: ColumnsOption = None,
    color: ColorOption = "auto",
    quiet: QuietOption = False,
) -> int:
    """Repair a store so that every undamaged message survives a start.

    First comes a plan: each edit with its place, its reason and what is lost. Nothing is written
    without --in-place or --output. A damaged record is bridged: a record of the same length takes
    its place, which brokers walk over and deliver to nobody; the unit of its queue repeats the
    neighbour's, so that later messages keep their queue offset: the neighbour is delivered twice,
    no other message is lost. No message is invented, and no checksum is made for bad bytes.

    Afterwards the store is validated, and the next start foretold. The exit code is 1 when
    something is, or would be, left that is worse than a note; for a plan, when there is anything
    to do.
    """
    return run(
        Asked(
            store,
            dry_run,
            in_place,
            output,
            yes,
            plan,
            apply,
            undo,
            quarantine,
            bridge_missing,
            clamp_offsets,
            broker_version,
            broker_conf,
            jobs,
            format_,
            columns,
            color,
            quiet,
        )
    )
