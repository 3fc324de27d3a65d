"""`rmqtool rebuild-index`: rebuild the key index from the commitlog."""

from __future__ import annotations

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
    InPlaceOption,
    OutputDirectoryOption,
    TimeZoneOption,
)
from rmqtool.cli.rebuilding import Asked, run
from rmqtool.rebuild.options import Target


def rebuild_index(
    store: StoreArgument,
    output: OutputDirectoryOption = None,
    in_place: InPlaceOption = False,
    check: CheckOption = False,
    dry_run: DryRunOption = False,
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
    """Rebuild the key index from the commitlog.

    Entries, slots and chains are those of a broker. A broker names a file by its clock; here the
    name is that of the file on disk which begins with the same record, else the store time of its
    first record.
    """
    return run(
        Asked(
            Target.INDEX,
            store,
            output=output,
            in_place=in_place,
            check=check,
            dry_run=dry_run,
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
