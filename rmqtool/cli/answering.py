"""How `query` shows what a lookup finds: one answer, many, or what a group has consumed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.cli.exits import DONE, NO, say
from rmqtool.errors import UsageError
from rmqtool.render.look import Format

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.cli.delivery import Delivery
    from rmqtool.query.answer import Answer
    from rmqtool.query.lookup import Lookup
    from rmqtool.query.requests import Request
    from rmqtool.query.traced import Row
    from rmqtool.rows import Rows
    from rmqtool.tables.bodies import BodyOptions

FEW: Final = 3  # messages that are shown a field a line


class Show(NamedTuple):
    """What of an answer is wanted."""

    trace: bool  # the whole life of each message
    explain: bool  # the steps, too
    is_hex: bool  # every byte with its field
    body: BodyOptions  # how bodies are shown
    trace_topics: tuple[str, ...] = ()  # where clients write traces, besides the usual ones


def answer_one(lookup: Lookup, request: Request, show: Show, delivery: Delivery) -> int:
    """Answer one request."""
    from rmqtool.query.rows import message_rows, span_rows, step_table, time_rows
    from rmqtool.query.traced import summary
    from rmqtool.tables.trace_table import TRACES

    answer = lookup.find(request)
    _extend(lookup, answer, show)
    kinds: list[Rows] = []
    if answer.rows:
        kinds.append(time_rows(answer))
    elif answer.hits and show.is_hex:
        kinds.append(span_rows(answer))
    elif answer.hits:
        kinds.append(_for_people(message_rows(answer, show.body), answer, delivery))
    if traces := _traces(lookup, answer, show):
        kinds.append(TRACES.rows([traces]))
    if show.explain:
        kinds.append(step_table(answer))
    _emit(kinds, delivery)
    if answer.is_found:
        for sentence in filter(None, (answer.summary, summary(traces))):
            delivery.note(sentence)
        return DONE
    say(answer.summary)
    from rmqtool.query.next_step import deleted, next_steps

    if words := deleted(lookup, answer):
        delivery.note(words)
    for step in next_steps(lookup, answer):
        delivery.note(f"try: {step}")
    return NO


def answer_consumed(lookup: Lookup, requests: list[Request], name: str, delivery: Delivery) -> int:
    """Say whether a group has consumed what was asked for; 1 when not all of it, for all we know.

    Raises:
        UsageError: a time was asked for, or nothing is known of the group.
    """
    from rmqtool.query.consumed import EVERY_GROUP, YES, consumed_rows, groups_of, verdict_of
    from rmqtool.query.groups import CONSUMED, ConsumerGroup
    from rmqtool.query.requests import ByTime
    from rmqtool.rows import turned

    groups = [] if name == EVERY_GROUP else [ConsumerGroup(lookup, name)]
    for group in groups:
        group.require()
    if any(isinstance(request, ByTime) for request in requests):
        raise UsageError(option="--group", reason="is for messages, not for times")
    rows: list[dict[str, object]] = []
    is_found = True
    for request in requests:
        answer = lookup.find(request)
        for group in groups or groups_of(lookup, answer):
            rows += consumed_rows(lookup, answer, group)
        if not answer.hits:
            is_found = False
            say(answer.summary)
    consumed = CONSUMED.rows([rows])
    is_table = delivery.wanted_format is Format.TABLE and delivery.columns is None
    if rows:
        delivery.emit(turned(consumed) if is_table and len(rows) <= FEW else consumed)
    if is_found and name == EVERY_GROUP:
        delivery.note(verdict_of(rows))
    is_done = is_found and bool(rows) and all(row["consumed"] == YES for row in rows)
    return DONE if is_done else NO


def _extend(lookup: Lookup, answer: Answer, show: Show) -> None:
    """Add the life of messages, or what was stored around one that was found by its time."""
    from rmqtool.query.requests import ByTime

    if show.trace and answer.hits:
        from rmqtool.query.trace import follow

        follow(lookup, answer, show.trace_topics)
    elif isinstance(answer.request, ByTime) and not show.is_hex:
        from rmqtool.query.store_times import add_neighbours

        add_neighbours(lookup, answer)


def _emit(kinds: list[Rows], delivery: Delivery) -> None:
    """Write rows of one kind, or of several; columns are chosen of the first."""
    if len(kinds) > 1:
        rows, *others = kinds
        replace(delivery, columns=None).emit_all([delivery.chosen(rows), *others])
    elif kinds:
        delivery.emit(kinds[0])


def _traces(lookup: Lookup, answer: Answer, show: Show) -> list[Row]:
    """Give what clients wrote of a message whose life was asked for."""
    if not show.trace or show.is_hex or not answer.hits:
        return []
    from rmqtool.query.traced import trace_rows

    return trace_rows(lookup, answer, show.trace_topics)


def _for_people(rows: Rows, answer: Answer, delivery: Delivery) -> Rows:
    """Turn a few messages round where a person looks, who wants to see all fields."""
    is_table = delivery.wanted_format is Format.TABLE
    is_trace = any(hit.stage for hit in answer.hits)
    from rmqtool.rows import turned

    if is_table and not is_trace and delivery.columns is None and len(answer.hits) <= FEW:
        return turned(rows)
    return rows


def answer_many(lookup: Lookup, requests: list[Request], show: Show, delivery: Delivery) -> int:
    """Answer many requests in one pass; 1 when one of them has no answer."""
    from rmqtool.query.batch import find_all
    from rmqtool.query.rows import batch_rows

    if show.explain or show.is_hex:
        option = "--explain" if show.explain else "--hex"
        raise UsageError(option=option, reason="is for one request")
    missing = 0

    def answers() -> Iterator[Answer]:
        nonlocal missing
        answers: Iterable[Answer] = find_all(lookup, requests)
        if lookup.store.moment.is_live:  # what expires is looked for again, before any row
            answers = list(answers)
        for answer in answers:
            if show.trace and answer.hits:
                from rmqtool.query.trace import follow
                from rmqtool.query.traced import note_traces

                follow(lookup, answer, show.trace_topics)
                note_traces(lookup, answer, show.trace_topics)
            missing += not answer.hits
            yield answer

    delivery.emit(batch_rows(answers(), show.body))
    delivery.note(f"{len(requests) - missing:,} of {len(requests):,} requests found something")
    return NO if missing else DONE
