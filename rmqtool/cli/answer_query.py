"""`rmqtool query` without its options' declarations: what it does with their values.

Apart from `cmd_query`, so that a plain lookup needs no Typer: see `direct`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.broker.release import Version
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.exits import DONE, NO, say
from rmqtool.errors import UsageError
from rmqtool.query.lookup import Lookup
from rmqtool.query.requests import Boundary, Request, parse_lines, request_of
from rmqtool.ranges import size
from rmqtool.render.emit import Format
from rmqtool.rows import turned
from rmqtool.store.tree import open_store
from rmqtool.tables.bodies import BodyMode, BodyOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.query.answer import Answer
    from rmqtool.rows import Rows

STANDARD_INPUT = "-"
FEW = 3  # messages that are shown a field a line


class Asked(NamedTuple):
    """The values of the command line; names and defaults are those of `cmd_query.query`."""

    store: str
    requests: str | None = None
    id_: str | None = None
    key: list[str] | None = None
    topic: list[str] | None = None
    at: str | None = None
    queue: str | None = None
    queue_offset: str | None = None
    time: str | None = None
    boundary: Boundary = Boundary.LOWER
    transaction: str | None = None
    trace: bool = False
    like_broker: str | None = None
    explain: bool = False
    scan: bool | None = None
    body: BodyMode = BodyMode.NONE
    raw: bool = False
    body_limit: str = "64MiB"
    hex_: bool = False
    broker_conf: str | None = None
    format_: Format | None = None
    output: str | None = None
    columns: str | None = None
    color: str = "auto"
    time_zone: str | None = None
    quiet: bool = False
    jobs: int | None = None

    @property
    def named(self) -> dict[str, str]:
        """What was asked for, by the names of `request_of`."""
        given = {
            "id": self.id_,
            "at": self.at,
            "queue": self.queue,
            "queue-offset": self.queue_offset,
            "time": self.time,
            "transaction": self.transaction,
        }
        return {name: text for name, text in given.items() if text is not None}

    def wanted(self) -> list[Request]:
        """Give the requests of the options.

        Raises:
            UsageError: they cannot be meant.
        """
        like = None
        if self.like_broker is not None:
            like = Version.parse(self.like_broker, "--like-broker")
            if self.time is None or not self.topic:
                raise UsageError(option="--like-broker", reason="needs --time and --topic")
        named = [{**self.named, "key": text} for text in self.key or ()] or [self.named]
        topics = tuple(self.topic or ())
        return [
            request_of(one, topics=topics, boundary=self.boundary, like_broker=like)
            for one in named
        ]


class Show(NamedTuple):
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


def run(asked: Asked) -> int:
    """Answer what was asked and return the exit code."""
    delivery = Delivery(
        asked.format_, asked.output, asked.columns, asked.color, asked.quiet, asked.time_zone
    )
    delivery.keep_out_of(asked.store)
    body = BodyOptions(asked.body, asked.raw, size("--body-limit", asked.body_limit))
    is_trace = asked.trace or asked.transaction is not None
    show = Show(is_trace, asked.explain, asked.hex_, body)
    if asked.requests is not None:
        if asked.named or asked.key or asked.topic:
            raise UsageError(option="REQUESTS", reason="cannot be combined with other requests")
        wanted = list(parse_lines(_lines(asked.requests)))
    else:
        wanted = asked.wanted()
    store = open_store(asked.store, asked.broker_conf)
    with Lookup(store, scan=asked.scan, jobs=asked.jobs) as lookup:
        if asked.requests is not None or len(wanted) > 1:
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
        rows, steps = kinds
        replace(delivery, columns=None).emit_all([delivery.chosen(rows), steps])
    elif kinds:
        delivery.emit(kinds[0])
    if answer.is_found:
        delivery.note(answer.summary)
        return DONE
    say(answer.summary)
    from rmqtool.query.next_step import next_steps

    for step in next_steps(lookup, answer):
        delivery.note(f"try: {step}")
    return NO


def _for_people(rows: Rows, answer: Answer, delivery: Delivery) -> Rows:
    """Turn a few messages round where a person looks, who wants to see all fields."""
    is_table = delivery.wanted_format is Format.TABLE
    is_trace = any(found.stage for found in answer.found)
    if is_table and not is_trace and delivery.columns is None and len(answer.found) <= FEW:
        return turned(rows)
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
        raise UsageError(option="REQUESTS", reason=f"{source}: {error.strerror}") from error
