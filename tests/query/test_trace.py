"""The life of a message across topics, as the fixture's sender knows how it went."""

from __future__ import annotations

import pytest

from rmqtool.query import Answer, ById, ByOffset, ByTransaction, Lookup
from rmqtool.query.rows import message_rows
from rmqtool.query.trace import follow
from rmqtool.rows import rows_of
from tests.query.expected import Expected

SOME = 8
OUTCOMES = {
    "committed": "committed",
    "rolled-back": "rolled back",
    "undecided": "undecided",
    "discarded": "discarded",
}


def lives(expected: Expected, lookup: Lookup, kind: str) -> list[tuple[dict[str, object], Answer]]:
    """Follow some messages of a kind."""
    lines = [line for line in expected.sent() if line["kind"] == kind]
    found = []
    for line in lines[:: max(len(lines) // SOME, 1)]:
        answer = lookup.find(ByOffset(line["physical_offset"]))
        follow(lookup, answer)
        found.append((line, answer))
    return found


def test_transactions(expected: Expected, lookup: Lookup) -> None:
    """The last half message says how the transaction ended, and a commit is delivered."""
    for line, answer in lives(expected, lookup, "half"):
        halves = [hit for hit in answer.hits if hit.stage == "half"]
        assert OUTCOMES[str(line["outcome"])] in halves[-1].note, line
        commits = [hit for hit in answer.hits if hit.stage == "commit"]
        assert (line["outcome"] == "committed") == bool(commits)
        assert {line["topic"]} >= {commit.record.message.topic for commit in commits}


@pytest.mark.parametrize("kind", ["delay", "timer"])
def test_delays(kind: str, expected: Expected, lookup: Lookup) -> None:
    """A delayed message is found where it waits, and again where it was delivered."""
    waits = {"delay": "scheduled", "timer": "timer"}[kind]
    for line, answer in lives(expected, lookup, kind):
        stages = [hit.stage for hit in answer.hits]
        assert waits in stages
        delivered = [hit for hit in answer.hits if hit.stage == "delivered"]
        assert {line["topic"]} >= {hit.record.message.topic for hit in delivered}
        if line["outcome"] == "recalled":
            assert "recall" in stages


def test_retries(expected: Expected, lookup: Lookup) -> None:
    """From a dead letter the way leads back to the message, through every retry."""
    for record in expected.fixture.records:
        if not record.topic.startswith("%DLQ%"):
            continue
        answer = lookup.find(ByOffset(record.physical_offset))
        follow(lookup, answer)
        (rows,) = message_rows(answer).chunks
        stages = [row["stage"] for row in rows_of(rows)]
        assert "message" == stages[0]
        assert {"scheduled retry", "retry", "dead letter"} <= set(stages)


def test_transaction_ids(expected: Expected, lookup: Lookup) -> None:
    """A transaction's ID leads to its half message."""
    for line, _ in lives(expected, lookup, "half")[:2]:
        answer = lookup.find(ByTransaction(str(line["unique_key"])))
        assert line["physical_offset"] in [hit.record.physical_offset for hit in answer.hits]


def test_members(expected: Expected, lookup: Lookup) -> None:
    """A message inside of a batch leads to the record that holds it."""
    for line, _ in lives(expected, lookup, "inner-batch"):
        answer = lookup.find(ById(str(line["unique_key"])))
        assert [line["physical_offset"]] == [hit.record.physical_offset for hit in answer.hits]
        follow(lookup, answer)
        assert {"batch"} == {hit.stage for hit in answer.hits}
