"""`rmqtool rebuild-cq`: rebuild consume queues from the commitlog."""

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
)
from rmqtool.cli.rebuilding import Asked, run
from rmqtool.rebuild.options import Target


def rebuild_cq(
    store: StoreArgument,
    output: OutputDirectoryOption = None,
    in_place: InPlaceOption = False,
    check: CheckOption = False,
    dry_run: DryRunOption = False,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="TOPIC", help="Only queues of this topic.")
    ] = None,
    queue: Annotated[
        int | None, typer.Option("--queue", metavar="ID", min=0, help="Only this queue of it.")
    ] = None,
    like_broker: Annotated[
        bool,
        typer.Option("--like-broker", help="Shift units over holes, as a broker would."),
    ] = False,
    ext: ExtOption = False,
    broker_version: BrokerVersionOption = None,
    broker_conf: BrokerConfOption = None,
    jobs: JobsOption = None,
    format_: FormatOption = None,
    columns: ColumnsOption = None,
    color: ColorOption = "auto",
    quiet: QuietOption = False,
    engine: EngineOption = None,
    master: MasterOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Rebuild consume queues from the commitlog.

    A unit is written at the queue offset that its record states. A hole in the sequence (its
    records are lost) is filled with units that consumers pass over; a broker would append instead
    and so shift all later units, which --like-broker reproduces. Units have the plain tags code,
    which is right for every consumer: a broker without the bits of --ext looks at the message.
    """
    return run(
        Asked(
            Target.QUEUES,
            store,
            output=output,
            in_place=in_place,
            check=check,
            dry_run=dry_run,
            topic=topic,
            queue=queue,
            like_broker=like_broker,
            ext=ext,
            broker_version=broker_version,
            broker_conf=broker_conf,
            jobs=jobs,
            format_=format_,
            columns=columns,
            color=color,
            quiet=quiet,
            choice=Choice(engine, master, verbose),
        )
    )
