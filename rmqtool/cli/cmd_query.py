"""`rmqtool query`: from a pasted string to the message, and how that is known."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from rmqtool.cli.delivery import Delivery
from rmqtool.cli.main import DONE, NO, say
from rmqtool.cli.options import (
    BrokerConfOption,
    ColorOption,
    ColumnsOption,
    FormatOption,
    JobsOption,
    OutputOption,
    QuietOption,
    StoreArgument,
)
from rmqtool.cli.ranges import size
from rmqtool.errors import UnreadablePath, UsageError
from rmqtool.query.requests import Boundary, Request, parse_lines, request_of
from rmqtool.render.emit import Format
from rmqtool.tables.bodies import BodyMode, BodyOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.query.answer import Answer
    from rmqtool.query.lookup import Lookup
    from rmqtool.rows import Rows

STANDARD_INPUT = "-"
FEW = 3  # messages that are shown a field a line


@dataclass(frozen=True, slots=True)
class Show:
    """What of an answer is wanted.

    Attributes:
        trace: the whole life of each message.
        explain: the steps, too.
        is_hex: every byte with its field.
        body: how bodies are shown.
    """

    trace: bool
    explain: bool
    is_hex: bool
    body: BodyOptions


def query(
    store: StoreArgument,
    requests: Annotated[
        str | None,
        typer.Argument(
            metavar="[REQUESTS]",
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
    body: Annotated[
        BodyMode,
        typer.Option("--body", help="How to show bodies; compressed ones are decompressed."),
    ] = BodyMode.NONE,
    raw: Annotated[bool, typer.Option("--raw", help="Show bodies as they are stored.")] = False,
    body_limit: Annotated[
        str, typer.Option("--body-limit", metavar="SIZE", help="Show no body that is larger.")
    ] = "64MiB",
    hex_: Annotated[
        bool,
        typer.Option("--hex", help="Show every byte with the name and the value of its field."),
    ] = False,
    broker_conf: BrokerConfOption = None,
    jobs: JobsOption = None,
    format_: FormatOption = None,
    output: OutputOption = None,
    columns: ColumnsOption = None,
    color: ColorOption = "auto",
    quiet: QuietOption = False,
) -> int:
    """Find a message by ID, key, offset, queue offset or time, and say how it is known.

    What index and queues say is verified with the record; where they are missing or damaged the
    log itself is searched. Exit code 1: not found, and stderr says what was searched.
    """
    del jobs  # searches take all processors; there for the sake of scripts
    from rmqtool.query.lookup import Lookup
    from rmqtool.store.tree import open_store

    delivery = Delivery(format_, output, columns, color, quiet)
    show = Show(trace or transaction is not None, explain, hex_,
                BodyOptions(body, raw, size("--body-limit", body_limit)))  # fmt: skip
    given = {"id": id_, "at": at, "queue": queue, "queue-offset": queue_offset, "time": time,
             "transaction": transaction}  # fmt: skip
    asked = {name: text for name, text in given.items() if text is not None}
    topics = tuple(topic or ())
    if like_broker is not None:
        from rmqtool.query.broker_time import version_of

        version_of(like_broker)
        if time is None or not topics:
            raise UsageError(option="--like-broker", reason="needs --time and --topic")
    if requests is not None:
        if asked or key or topics:
            raise UsageError(option="REQUESTS", reason="cannot be combined with other requests")
        with Lookup(open_store(store, broker_conf), scan=scan) as lookup:
            return _many(lookup, list(parse_lines(_lines(requests))), show, delivery)
    wanted = [
        request_of(one, topics=topics, boundary=boundary, like_broker=like_broker)
        for one in ([{**asked, "key": text} for text in key] if key else [asked])
    ]
    with Lookup(open_store(store, broker_conf), scan=scan) as lookup:
        if len(wanted) > 1:
            return _many(lookup, wanted, show, delivery)
        return _one(lookup, wanted[0], show, delivery)


def _one(lookup: Lookup, request: Request, show: Show, delivery: Delivery) -> int:
    """Answer one request."""
    from rmqtool.query.rows import message_rows, span_rows, step_table, time_rows

    answer = lookup.find(request)
    if show.trace and answer.found:
        from rmqtool.query.trace import follow

        follow(lookup, answer)
    kinds: list[Rows] = []
    if answer.rows:
        kinds.append(time_rows(answer))
    elif answer.found and show.is_hex:
        kinds.append(span_rows(answer))
    elif answer.found:
        kinds.append(_for_people(message_rows(answer, show.body), answer, delivery))
    if show.explain:
        kinds.append(step_table(answer))
    if len(kinds) > 1:
        delivery.emit_all(kinds)
    elif kinds:
        delivery.emit(kinds[0])
    if answer.is_found:
        delivery.note(answer.summary)
        return DONE
    say(answer.summary)
    return NO


def _for_people(rows: Rows, answer: Answer, delivery: Delivery) -> Rows:
    """Turn a few messages round where a person looks, who wants to see all fields."""
    from rmqtool.query.rows import field_rows

    is_table = delivery.format is Format.TABLE or (
        delivery.format is None and delivery.output is None and sys.stdout.isatty()
    )
    is_trace = any(found.stage for found in answer.found)
    if is_table and not is_trace and delivery.columns is None and len(answer.found) <= FEW:
        return field_rows(rows)
    return rows


def _many(lookup: Lookup, requests: list[Request], show: Show, delivery: Delivery) -> int:
    """Answer many requests in one pass; 1 when one of them has no answer."""
    from rmqtool.query.batch import find_all
    from rmqtool.query.rows import batch_rows

    if show.explain or show.is_hex:
        option = "--explain" if show.explain else "--hex"
        raise UsageError(option=option, reason="is for one request")
    missing = 0

    def answers() -> Iterator[Answer]:
        nonlocal missing
        for answer in find_all(lookup, requests):
            if show.trace and answer.found:
                from rmqtool.query.trace import follow

                follow(lookup, answer)
            missing += not answer.found
            yield answer

    delivery.emit(batch_rows(answers(), show.body))
    delivery.note(f"{len(requests) - missing} of {len(requests)} requests found something")
    return NO if missing else DONE


def _lines(source: str) -> Iterator[str]:
    """Read the lines of a file or of standard input."""
    if source == STANDARD_INPUT:
        for raw in sys.stdin.buffer:
            yield raw.decode("utf-8", "replace")
        return
    try:
        with open(source, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            yield from file
    except OSError as error:
        raise UnreadablePath(path=source, reason=error.strerror or str(error)) from error
