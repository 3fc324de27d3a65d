"""`rmqtool query`: from a pasted string to the message, and how that is known."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqtool.cli.answer_query import Asked, run
from rmqtool.cli.choosing import (
    BODY_LIMIT,
    BodyLimitOption,
    BodyOption,
    HexOption,
    RawOption,
)
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.engines import Choice, working
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
    StoreArgument,
    TimeZoneOption,
    VerboseOption,
)
from rmqtool.errors import UsageError
from rmqtool.query.requests import Boundary
from rmqtool.tables.bodies import BodyMode


def query(
    store: StoreArgument,
    requests: Annotated[
        str | None,
        typer.Argument(
            metavar="REQUESTS",
            help="A file of requests, one a line, or '-': bare IDs, offsets, keys, "
            "'TOPIC QUEUE OFFSET', the options below, or JSON objects with their names.",
        ),
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Offset message ID or unique key of the client."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="KEY", help="A key; may be repeated."),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Topic of a key, a queue or a time."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="OFFSET", help="Physical offset, also inside of a record."),
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="ID", help="Number of the queue.")
    ] = None,
    queue_offset: Annotated[
        str | None,
        typer.Option("--queue-offset", metavar="N", help="Offset in the queue."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time", metavar="TIME", help="First message stored at or after: ISO 8601 or ms."
        ),
    ] = None,
    boundary: Annotated[
        Boundary,
        typer.Option("--boundary", help="upper: the last one stored at or before, instead."),
    ] = Boundary.LOWER,
    transaction: Annotated[
        str | None,
        typer.Option("--transaction", metavar="ID", help="Transaction ID; implies --trace."),
    ] = None,
    trace: Annotated[
        bool,
        typer.Option("--trace", help="Follow the message across topics, in order of time."),
    ] = False,
    like_broker: Annotated[
        str | None,
        typer.Option(
            "--like-broker",
            metavar="VERSION",
            help="Say what a broker of that release would answer to --time, too.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the way to the answer, step by step.")
    ] = False,
    scan: Annotated[
        bool | None,
        typer.Option(
            "--scan/--no-scan",
            help="Always, or never, search the log itself; by default where index or queues fail.",
        ),
    ] = None,
    body: BodyOption = BodyMode.NONE,
    raw: RawOption = False,
    body_limit: BodyLimitOption = BODY_LIMIT,
    hex_: HexOption = False,
    broker_conf: BrokerConfOption = None,
    jobs: JobsOption = None,
    format_: FormatOption = None,
    output: OutputOption = None,
    columns: ColumnsOption = None,
    color: ColorOption = "auto",
    time_zone: TimeZoneOption = None,
    quiet: QuietOption = False,
    engine: EngineOption = None,
    master: MasterOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Find a message by ID, key, offset or time, verified and explained.

    What index and queues say is verified with the record; where they are missing or damaged the
    log itself is searched. Exit code 1: not found, and stderr says what was searched. Spark helps
    with --scan only.
    """
    asked = Asked(
        store=store,
        requests=requests,
        id_=id_,
        key=key,
        topic=topic,
        at=at,
        queue=queue,
        queue_offset=queue_offset,
        time=time,
        boundary=boundary,
        transaction=transaction,
        trace=trace,
        like_broker=like_broker,
        explain=explain,
        scan=scan,
        body=body,
        raw=raw,
        body_limit=body_limit,
        hex_=hex_,
        broker_conf=broker_conf,
        format_=format_,
        output=output,
        columns=columns,
        color=color,
        time_zone=time_zone,
        quiet=quiet,
        jobs=jobs,
    )
    if not scan:
        if engine is not None or master is not None:
            raise UsageError(
                option="--engine", reason="needs --scan; a lookup is done at once here"
            )
        return run(asked)
    delivery = Delivery(format_, output, columns, color, quiet)
    with working(Choice(engine, master, verbose), [store], delivery):
        return run(asked)
