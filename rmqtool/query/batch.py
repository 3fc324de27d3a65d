"""Many requests in one run: one open store, and one pass over the log for all that need it.

Each request is first answered from index and queues. What is left over, because an index does
not cover a part of the log or a queue is missing, is searched for together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.query.answer import BY_SEARCH, Answer, Hit
from rmqtool.query.log import LogRange
from rmqtool.query.lookup import LIGHT_BYTES
from rmqtool.query.match import PLACE, RecordNeed
from rmqtool.query.requests import ById, ByKey, ByQueueOffset, ByTransaction

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.query.lookup import Lookup
    from rmqtool.query.requests import Request

FEW = 8  # requests; so few are searched for one by one


def find_all(lookup: Lookup, requests: Sequence[Request]) -> Iterator[Answer]:
    """Answer many requests, in their order.

    Raises:
        UnreadablePath: what is needed for any answer may not be read.
    """
    if len(requests) <= FEW or lookup.scan is False:
        for request in requests:
            yield lookup.find(request)
        return
    whole = [LogRange(lookup.log.start, lookup.log.end)]
    stretches = whole if lookup.scan else lookup.uncovered()
    is_little = sum(stretch.length for stretch in stretches) <= LIGHT_BYTES // len(requests)
    if is_little and lookup.keeps_queues:
        for request in requests:
            yield lookup.find(request)
    else:
        yield from _searched_later(lookup, requests, stretches)


def _searched_later(
    lookup: Lookup, requests: Sequence[Request], stretches: list[LogRange]
) -> Iterator[Answer]:
    """Answer from index and queues, then search the log once for all requests."""
    asked, lookup.scan = lookup.scan, False
    try:
        answers = [lookup.find(request) for request in requests]
    finally:
        lookup.scan = asked
    for answer in answers:
        answer.trail.searched = [line for line in answer.trail.searched if "--no-scan" not in line]
    _search_keys(lookup, answers, stretches)
    _search_places(lookup, answers)
    yield from answers


def _search_keys(lookup: Lookup, answers: list[Answer], stretches: list[LogRange]) -> None:
    from rmqtool.query.scan import find_keys

    by_text: dict[str, list[tuple[RecordNeed, Answer]]] = {}
    for answer in answers:
        for wanted in _wanted(answer.request):
            by_text.setdefault(wanted.text, []).append((wanted, answer))
            for stretch in stretches:
                answer.trail.search(lookup.log.described(stretch))
    if not by_text or not stretches:
        return
    all_wanted = [wanted for pairs in by_text.values() for wanted, _ in pairs]
    trails = [answer.trail for answer in answers]
    for record, _ in find_keys(lookup.log, all_wanted, stretches, trails):
        message = record.message
        for text in {message.unique_key or "", *message.keys}:
            for wanted, answer in by_text.get(text, ()):
                if how := wanted.match(message):
                    answer.take(Hit(record, BY_SEARCH, how))


def _wanted(request: Request) -> list[RecordNeed]:
    match request:
        case ByKey():
            return [RecordNeed(request.key, as_key=True, topics=request.topics)]
        case ById():
            return [
                RecordNeed(text) for text in dict.fromkeys((request.text, request.text.upper()))
            ]
        case ByTransaction():
            return [RecordNeed(request.text, as_transaction=True)]
    return []


def _search_places(lookup: Lookup, answers: list[Answer]) -> None:
    """Search for places of queues whose queue or unit is lost."""
    lost: dict[ByQueueOffset, list[Answer]] = {}
    for answer in answers:
        if isinstance(answer.request, ByQueueOffset) and answer.may_search and not answer.hits:
            lost.setdefault(answer.request, []).append(answer)
    if not lost:
        return
    from rmqtool.query.scan import find_places

    stretch = LogRange(lookup.log.start, lookup.log.end)
    trails = [answer.trail for asked in lost.values() for answer in asked]
    for record, place in find_places(lookup.log, list(lost), [stretch], trails):
        for answer in lost[place]:
            answer.take(Hit(record, BY_SEARCH, PLACE))
    for asked in lost.values():
        for answer in asked:
            answer.trail.search(lookup.log.described(stretch))
            answer.problem = "" if answer.hits else answer.problem
