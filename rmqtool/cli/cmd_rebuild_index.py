"""`rmqtool rebuild-index`: rebuild the key index from the commitlog."""

from __future__ import annotations

from rmqtool.cli.delivery import Delivery
from rmqtool.cli.engines import Choice, EngineOption, MasterOption, VerboseOption, working
from rmqtool.cli.options import (
    BrokerConfOption,
    ColorOption,
    ColumnsOption,
    FormatOption,
    JobsOption,
    QuietOption,
    StoreArgument,
)
from rmqtool.cli.rebuilding import (
    BrokerVersionOption,
    CheckOption,
    DryRunOption,
    InPlaceOption,
    OutputDirectoryOption,
    TimeZoneOption,
    run,
)


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
    from rmqtool.rebuild.options import RebuildOptions, Target

    delivery = Delivery(format_, None, columns, color, quiet)
    options = RebuildOptions(
        store,
        Target.INDEX,
        output=output,
        in_place=in_place,
        check=check,
        dry_run=dry_run,
        time_zone=time_zone,
        broker_version=broker_version,
        broker_conf=broker_conf,
        jobs=jobs,
    )
    with working(Choice(engine, master, verbose), [store], delivery):
        return run(options, delivery)
