"""`rmqtool rebuild`: rebuild consume queues and key index from the commitlog."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqtool.cli.engines import Choice
from rmqtool.cli.options import (
    BrokerConfOption,
    ColorOption,
    ColumnsOption,
    EngineOption,
    FormatOption,
    JobsOption,
    MasterOption,
    QuietOption,
    StoreArgument,
    VerboseOption,
)
from rmqtool.cli.rebuild_options import (
    BrokerVersionOption,
    CheckOption,
    DryRunOption,
    ExtOption,
    InPlaceOption,
    OutputDirectoryOption,
    TimeZoneOption,
)
from rmqtool.cli.rebuilding import Asked, run
from rmqtool.rebuild.options import Target


def rebuild(
    store: StoreArgument,
    output: OutputDirectoryOption = None,
    in_place: InPlaceOption = False,
    check: CheckOption = False,
    dry_run: DryRunOption = False,
    like_broker: Annotated[
        bool,
        typer.Option("--like-broker", help="Shift units over holes, as a broker would."),
    ] = False,
    ext: ExtOption = False,
    broker_version: BrokerVersionOption = None,
    broker_conf: BrokerConfOption = None,
    time_zone: TimeZoneOption = "UTC",
    jobs: JobsOption = None,
    format_: FormatOption = None,
    columns: ColumnsOption = None,
    color: ColorOption = "auto",
    quiet: QuietOption = False,
    engine: EngineOption = None,
    master: MasterOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Rebuild consume queues and key index from the commitlog.

    One pass over the log gives both, byte for byte what a broker would write: expired segments,
    delayed and transactional messages, light message queues and inner batches included. Nothing
    is written without --output or --in-place; evidence is opened read-only.
    """
    return run(
        Asked(
            Target.ALL,
            store,
            output=output,
            in_place=in_place,
            check=check,
            dry_run=dry_run,
            like_broker=like_broker,
            ext=ext,
            broker_version=broker_version,
            broker_conf=broker_conf,
            time_zone=time_zone,
            jobs=jobs,
            format_=format_,
            columns=columns,
            color=color,
            quiet=quiet,
            choice=Choice(engine, master, verbose),
        )
    )
