"""A sending as rows and as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.sending.counts import MOST_BAD
from rmqtool.sending.options import shown
from rmqtool.table import Column, Table, Type
from rmqtool.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.rows import Row, Rows
    from rmqtool.sending.counts import SendContent, SendResult
    from rmqtool.sending.options import SendOptions

SENDING: Final = Table(
    "sending",
    "messages of a file that go to one queue of a cluster",
    (
        Column("topic", Type.TEXT, "topic that they go to", has_few=True),
        Column("broker", Type.TEXT, "name of the broker; null where no name server was asked"),
        Column("address", Type.TEXT, "address of its master, as the name server told"),
        Column("queue_id", Type.INT32, "queue of the topic there; null where any will do"),
        Column("messages", Type.INT64, "messages of the file that go there", "messages"),
        Column("sent_before", Type.INT64, "those that earlier runs sent", "messages"),
        Column("sent", Type.INT64, "those that this run sent", "messages"),
    ),
)
NOT_SENT: Final = Table(
    "not_sent",
    "a message of a file that cannot be sent, or that a broker refused",
    (
        Column("line", Type.INT64, "number of the line or of the record, from 1 on"),
        Column("position", Type.INT64, "its first byte in the file", "bytes"),
        Column("reason", Type.TEXT, "why not"),
    ),
    below=("reason",),
)
_NAMED: Final = 5


def kinds(outcome: SendResult) -> list[Rows]:
    """Give the rows of both kinds; the second one only where there are any."""
    refused = [*outcome.checked.bad, *outcome.refused]
    found = [SENDING.rows([_queues(outcome)])]
    if refused:
        rows: list[Row] = [one._asdict() for one in refused]
        found.append(NOT_SENT.rows([rows]))
    return found


def _queues(outcome: SendResult) -> list[Row]:
    if outcome.planned:
        return [
            {
                "topic": topic,
                "broker": queue.broker.name,
                "address": shown(*queue.broker.address),
                "queue_id": queue.queue_id,
                "messages": count,
                "sent_before": outcome.sent_before[topic, queue],
                "sent": outcome.sent[topic, queue],
            }
            for (topic, queue), count in sorted(outcome.planned.items())
        ]
    places = sorted(
        outcome.checked.messages.items(),
        key=lambda one: (one[0][0], -1 if one[0][1] is None else one[0][1]),
    )
    return [
        {
            "topic": topic,
            "broker": None,
            "address": None,
            "queue_id": queue_id,
            "messages": count,
            "sent_before": None,
            "sent": 0,
        }
        for (topic, queue_id), count in places
    ]


def sentences(options: SendOptions, outcome: SendResult) -> Iterator[str]:
    """Give what the rows do not say."""
    checked = outcome.checked
    yield from _left_out(checked)
    if checked.bad_count:
        bad = counted(checked.bad_count, "message")
        named = f"; the first {MOST_BAD:,} are named" if checked.bad_count > MOST_BAD else ""
        if options.skip_bad:
            yield f"{bad} cannot be sent{named}"
        else:
            yield f"{bad} cannot be sent, so nothing is{named}; --skip-bad sends the others"
            return
    if not checked.total:
        yield "nothing to send"
        return
    if options.dry_run:
        size = sum(checked.bytes.values())
        what = counted(checked.total, "message")
        yield f"{what}, {size:,} bytes of bodies; nothing was sent"
        if not options.name_servers:
            yield "queues are those of the file; --name-server tells which ones the cluster has"
        return
    yield from _of_run(outcome)
    if outcome.stopped is not None:
        yield "next: the same command; it goes on where this one stopped"
    yield f"ledger: {options.ledger_path}"


def _of_run(outcome: SendResult) -> Iterator[str]:
    sent, before = outcome.sent.total(), outcome.sent_before.total()
    yield f"sent {counted(sent, 'message')} in {outcome.seconds:.2f} s"
    if before:
        yield f"{counted(before, 'message')} had been sent before"
    if outcome.half_stored:
        what = counted(outcome.half_stored, "message")
        yield f"{what} stored on the master alone, or not yet on the disk; the ledger names them"
    if outcome.twice:
        numbers = ", ".join(map(str, outcome.twice[:_NAMED]))
        more = f" and {len(outcome.twice) - _NAMED:,} more" if len(outcome.twice) > _NAMED else ""
        yield (
            f"may have been sent twice: message {numbers}{more}; an earlier run ended before its "
            "answer"
        )
    if outcome.unsure is not None:
        yield f"message {outcome.unsure} was on its way, and may be stored: it goes again"


def _left_out(checked: SendContent) -> Iterator[str]:
    if checked.held:
        what = counted(checked.held, "half message or timer copy", "half messages and timer copies")
        yield f"left out: {what}; --held sends them"
    if checked.system:
        what = counted(checked.system, "message")
        yield f"left out: {what} of brokers' own topics; --system-topics sends them"
    if checked.others:
        yield f"left out: {counted(checked.others, 'message')} of other topics"
