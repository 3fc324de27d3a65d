"""`rmqtool dump`: what is in a store, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmqtool.cli.choosing import (
    BODY_LIMIT,
    BodyLimitOption,
    BodyOption,
    FillersOption,
    FromOption,
    HexOption,
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
from rmqtool.cli.engines import Choice, working
from rmqtool.cli.exits import DONE, IN_PART, NO, NOT_DONE, say
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
    TimeZoneOption,
    VerboseOption,
)
from rmqtool.ranges import size
from rmqtool.render.progress import progress
from rmqtool.tables.bodies import BodyMode
from rmqtool.words import counted

if TYPE_CHECKING:
    from rmqtool.rows import Rows
    from rmqtool.tables.dump import DumpOptions, DumpOutcome


def dump(
    path: StoresArgument,
    as_: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="KIND",
            help="What it is, or what of a store to show: commitlog, consume-queue, index, "
            "index-header, checkpoint, config, timer-wheel, ... or all.",
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
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="The first N rows only.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option("--tail", metavar="N", min=1, help="The last N rows only.")
    ] = None,
    body: BodyOption = BodyMode.NONE,
    raw: RawOption = False,
    body_limit: BodyLimitOption = BODY_LIMIT,
    hex_: HexOption = False,
    fillers: FillersOption = False,
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
    """Show what is in a store, a directory or a file of it, row by row.

    A store root shows its messages. Bodies are shown on request only. Damage does not stop it:
    a stretch that cannot be read is a row of its own, with the code of the finding, and the exit
    code is then 1, as it is when there is nothing to show.
    """
    from rmqtool.tables.bodies import BodyOptions
    from rmqtool.tables.dump import DumpOptions, DumpOutcome

    delivery = Delivery(format_, output, columns, color, quiet, time_zone)
    delivery.keep_out_of(*path)
    options = DumpOptions(
        paths=tuple(path),
        word=as_,
        broker_conf=broker_conf,
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
        limit=limit,
        tail=tail,
        fillers=fillers,
        as_json=delivery.is_json,
        columns=delivery.wanted_columns,
        jobs=jobs,
        is_hex=hex_,
    )
    outcome = DumpOutcome()
    with working(Choice(engine, master, verbose), path, delivery):
        return _deliver(options, outcome, delivery)


def _deliver(options: DumpOptions, outcome: DumpOutcome, delivery: Delivery) -> int:
    """Write the rows, then say how it went."""
    from rmqtool.tables.dump import dump as rows_of

    found: list[Rows] = rows_of(options, outcome)
    is_seen = delivery.quiet or not delivery.is_unseen  # who sees rows needs no bar between them
    with progress("dump", outcome.total_bytes or None, quiet=is_seen) as outcome.advance:
        if len(found) == 1:
            delivery.emit(found[0])
        else:
            delivery.emit_all(found)
    for error in outcome.unread:
        say(str(error))
    for step in dict.fromkeys(error.next_step for error in outcome.unread):
        say(f"try: {step}")
    if outcome.unread:
        return IN_PART if outcome.rows > len(outcome.unread) else NOT_DONE
    if outcome.damaged:
        where = "it" if outcome.rows == 1 else f"{outcome.damaged} of them"
        delivery.note(f"{counted(outcome.rows, 'row')}, damage in {where}")
    elif not outcome.rows:
        delivery.note("nothing found")
    if outcome.rows == outcome.damaged:
        from rmqtool.cli.hints import topic_hints

        conf, topics = options.broker_conf, options.selection.topics
        for sentence in topic_hints(options.paths, conf, topics):
            delivery.note(sentence)
    return NO if outcome.damaged or not outcome.rows else DONE
