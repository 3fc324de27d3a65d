"""`rmqtool export`: a table of a store as files for other programs, by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmqtool.cli.choosing import (
    BODY_LIMIT,
    BodyLimitOption,
    BodyOption,
    FillersOption,
    FromOption,
    KeyOption,
    OffsetsOption,
    QueueOffsetsOption,
    QueueOption,
    RawOption,
    TagOption,
    ToOption,
    TopicsOption,
    WherePropertyOption,
    selection,
)
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.engines import everywhere, spark_engine
from rmqtool.cli.exits import DONE, IN_PART
from rmqtool.cli.options import (
    BrokerConfOption,
    ColumnsOption,
    MasterOption,
    QuietOption,
    StoreArgument,
    VerboseOption,
)
from rmqtool.ranges import size
from rmqtool.render.progress import progress
from rmqtool.spark.export_options import ExportFormat, ExportOptions
from rmqtool.spark.options import SourceOptions, TableName
from rmqtool.tables.bodies import BodyMode, BodyOptions

if TYPE_CHECKING:
    from rmqtool.spark.export import ExportResult


def export(
    store: StoreArgument,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            metavar="DIR",
            help="A new directory, or a URI such as s3://bucket/prefix; that of an export which "
            "was stopped is completed.",
        ),
    ],
    table: Annotated[
        TableName, typer.Option("--table", help="Which rows of the store.")
    ] = TableName.MESSAGES,
    format_: Annotated[
        ExportFormat, typer.Option("--format", help="How to write rows.")
    ] = ExportFormat.PARQUET,
    partition_by: Annotated[
        str | None,
        typer.Option(
            "--partition-by",
            metavar="A,B,...",
            help="Directories for the values of these columns: topic, queue_id, and date, the day "
            "of store_time.",
        ),
    ] = None,
    topic: TopicsOption = None,
    queue: QueueOption = None,
    tag: TagOption = None,
    key: KeyOption = None,
    where_property: WherePropertyOption = None,
    from_: FromOption = None,
    to: ToOption = None,
    offsets: OffsetsOption = None,
    queue_offsets: QueueOffsetsOption = None,
    body: BodyOption = BodyMode.NONE,
    raw: RawOption = False,
    body_limit: BodyLimitOption = BODY_LIMIT,
    fillers: FillersOption = False,
    split: Annotated[
        str,
        typer.Option("--split", metavar="SIZE", help="Log that one task reads, a file or more."),
    ] = "128MiB",
    columns: ColumnsOption = None,
    broker_conf: BrokerConfOption = None,
    master: MasterOption = None,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> int:
    """Write a table of a store to Parquet, CSV or JSON lines files.

    Spark does it, on this machine or on a cluster. Each file appears complete; _SUCCESS appears
    when all of them are there. A run that was stopped is completed by the same command; another one
    into the same directory is refused. Damage is rows, as in dump. What cannot be read makes the
    exit code 3, and there is no _SUCCESS then.
    """
    from rmqtool.render.values import as_csv

    delivery = Delivery(columns=columns, quiet=quiet)
    source = SourceOptions(
        path=everywhere(store),
        table=table,
        columns=delivery.wanted_columns,
        selection=selection(
            topic=topic,
            queue=queue,
            tag=tag,
            key=key,
            where_property=where_property,
            from_=from_,
            to=to,
            offsets=offsets,
            queue_offsets=queue_offsets,
        ),
        body=BodyOptions(body, raw, size("--body-limit", body_limit)),
        fillers=fillers,
        split=size("--split", split),
        broker_conf=broker_conf and everywhere(broker_conf),
    )
    by = tuple(filter(None, (partition_by or "").split(",")))
    options = ExportOptions(source, output, format_, by, as_csv)
    return _deliver(_run(options, master, Delivery(quiet=quiet), verbose=verbose), quiet)


def _run(
    options: ExportOptions, master: str | None, delivery: Delivery, *, verbose: bool
) -> ExportResult:
    """Do it, on Spark; what is wrong with the options is said before Spark is started."""
    from rmqtool.spark.export import Export
    from rmqtool.spark.session import check_spark

    check_spark(master)
    work = Export(options)
    done = work.finished()
    if done is not None:
        return done
    with (
        spark_engine(master, delivery, verbose=verbose, forwards=True) as engine,
        progress("export", work.total_bytes or None, quiet=delivery.quiet) as advance,
    ):
        return work.run(engine, advance)


def _deliver(result: ExportResult, quiet: bool) -> int:
    """Say what was written, in one row."""
    from rmqtool.spark.export import EXPORT

    delivery = Delivery(quiet=quiet)
    row = {name: getattr(result, name) for name in EXPORT.names}
    delivery.emit(EXPORT.rows([[row]]))
    for path in result.unread:
        delivery.note(f"{path}: could not be read")
    if result.was_complete:
        delivery.note("an earlier run had done it all: nothing was written")
    if result.damaged:
        delivery.note(f"{result.damaged} of {result.rows} rows tell of damage: see column code")
    if not result.is_complete:
        delivery.note("not complete, so there is no _SUCCESS; the same command tries again")
    return DONE if result.is_complete else IN_PART
