"""Keys that collide or are odd, offsets and topics that are not there: each says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool.errors import UsageError
from rmqtool.formats import java
from rmqtool.query import (
    Answer,
    Boundary,
    ById,
    ByKey,
    ByOffset,
    ByQueueOffset,
    ByTime,
    Lookup,
    parse_line,
    parse_lines,
)
from rmqtool.store.tree import open_store
from tests.query.expected import offsets
from tests.query.small_store import FIRST_TIME, build

# "Aa" and "BB" have the same hash in Java, and so has whatever is equal otherwise.
COLLIDING = ("Aa-1", "BB-1")


def key_of_smallest_hash(prefix: str) -> str:
    """Make a text that gives a prefix the Java hash of Integer.MIN_VALUE."""
    length = 8
    goal = (-(2**31) - java.string_hash(prefix) * 31**length) % 2**32
    goal += 2**32 * (0x4000 * 31 ** (length - 1) // 2**32)  # letters far from control characters
    units = []
    for power in range(length - 1, -1, -1):
        unit = min(goal // 31**power, 0xD000) - (32 if power else 0)
        units.append(unit)
        goal -= unit * 31**power
    return "".join(map(chr, units))


SMALLEST = key_of_smallest_hash("Topic#")
ODD = {
    "beyond the BMP": "order-\U0001f600-\U00020000",
    "hash of Integer.MIN_VALUE": SMALLEST,
    "one character": "k",
    "percent and slash": "%2F/../x",
}


@pytest.fixture
def lookup(tmp_path: Path) -> Lookup:
    """Open a store with odd keys."""
    records = [("Topic", {"KEYS": key}) for key in (*COLLIDING, *ODD.values())]
    records += [("Topic", {"UNIQ_KEY": "with a space", "KEYS": "first second"})]
    build(tmp_path / "store", records)
    return Lookup(open_store(tmp_path / "store"))


def test_colliding(lookup: Lookup) -> None:
    """Of two keys with one hash only the one that was asked for is found, the other is named."""
    assert java.key_hash("Topic", COLLIDING[0]) == java.key_hash("Topic", COLLIDING[1])
    for number, key in enumerate(COLLIDING):
        answer = lookup.find(ByKey(key, ("Topic",)))
        assert [key] == [hit.record.message.keys[0] for hit in answer.hits]
        steps = [step.result for step in answer.trail.steps]
        assert f"hash collision with Topic#{COLLIDING[1 - number]}" in steps


@pytest.mark.parametrize("key", ODD.values(), ids=ODD)
def test_odd_keys(key: str, lookup: Lookup) -> None:
    """Keys beyond the BMP, of the smallest hash and short ones are found by the index."""
    answer = lookup.find(ByKey(key))
    assert [key] == [hit.record.message.keys[0] for hit in answer.hits]
    assert {"index"} == {hit.found_by for hit in answer.hits}


def test_smallest_hash() -> None:
    """Where Math.abs fails the entry is filed under 0."""
    assert -(2**31) == java.string_hash(f"Topic#{SMALLEST}")
    assert 0 == java.key_hash("Topic", SMALLEST)


def test_space(lookup: Lookup) -> None:
    """A unique key may hold a space, a key cannot, and that is said."""
    assert 1 == len(lookup.find(ById("with a space")).hits)
    answer = lookup.find(ByKey("first second"))
    assert [] == answer.hits
    assert "cut keys at spaces" in answer.problem
    assert lookup.find(ByKey("second")).hits


def problem_of(answer: Answer) -> str:
    """Give the sentence of an answer that is none."""
    assert not answer.is_found
    return answer.summary


def test_nearest(lookup: Lookup) -> None:
    """What is not there is named with the nearest thing that is."""
    end = lookup.log.end
    assert f"[0, {end})" in problem_of(lookup.find(ByOffset(2**40)))
    assert "the record before it is at" in problem_of(lookup.find(ByOffset(end + 1)))
    assert "like it: Topic" in problem_of(lookup.find(ByQueueOffset("topik", 0, 0)))
    assert "like it: Topic" in problem_of(lookup.find(ByKey("x", ("Topics",))))
    assert "has queues: 0" in problem_of(lookup.find(ByQueueOffset("Topic", 7, 0)))
    assert "has offsets [0, 7)" in problem_of(lookup.find(ByQueueOffset("Topic", 0, 7)))
    assert "like it: Topic" in problem_of(lookup.find(ByTime(0, "TOPIC")))
    assert "records were stored from" in problem_of(lookup.find(ByTime(2**62)))
    assert problem_of(lookup.find(ByQueueOffset("../..", 0, 0)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("7F0000010000882", "15 characters"),
        ("7F00000100008823000000000000000G", "'G' is not a hex digit"),
        ("../../etc/passwd", "16 characters"),
        ("7F000001000088237FFFFFFFFFFFFFFF", "outside of the log"),
        ("\0\ud800", "2 characters"),
    ],
)
def test_malformed_ids(text: str, reason: str, lookup: Lookup) -> None:
    """A malformed ID is answered with what is wrong about it."""
    assert reason in problem_of(lookup.find(ById(text)))


def test_lookalike(tmp_path: Path) -> None:
    """A record inside of a body does not cover its bytes: the one around it does."""
    build(tmp_path / "first", [("Topic", {"KEYS": "bait"})])
    with Lookup(open_store(tmp_path / "first")) as lookup:
        bait = bytearray(lookup.find(ByOffset(0)).hits[0].record.raw)
    bait[28:36] = (88).to_bytes(8, "big")  # says that it lies where the body of the first begins
    build(tmp_path / "second", [("Topic", {"KEYS": "outer"})] * 2, bytes(bait))
    with Lookup(open_store(tmp_path / "second")) as lookup:
        assert [0] == offsets(lookup.find(ByOffset(88)))
        assert [0] == offsets(lookup.find(ByOffset(88 + len(bait) // 2)))
        assert [] == lookup.find(ByKey("bait")).hits


def test_times(lookup: Lookup) -> None:
    """A time gives the first record stored at or after it, or the last at or before."""
    first = lookup.find(ByTime(FIRST_TIME)).hits[0].record
    assert 0 == first.physical_offset
    second = lookup.find(ByTime(FIRST_TIME + 1)).hits[0].record
    assert first.end == second.physical_offset
    upper = lookup.find(ByTime(FIRST_TIME + 1, boundary=Boundary.UPPER)).hits[0].record
    assert 0 == upper.physical_offset


@pytest.mark.parametrize(
    ("after", "lower", "upper"), [(-1, 0, 0), (0, 0, 0), (1, 1, 0), (1000, 1, 1), (1001, 2, 1)]
)
def test_times_of_a_queue(after: int, lower: int, upper: int, lookup: Lookup) -> None:
    """In a queue, too, a message that was stored at that very time is the answer either way."""
    for boundary, expected in ((Boundary.LOWER, lower), (Boundary.UPPER, upper)):
        rows = lookup.find(ByTime(FIRST_TIME + after, "Topic", 0, boundary)).rows or []
        assert [expected] == [row["queue_offset"] for row in rows]


def test_words_of_a_time() -> None:
    """What was asked for is shown in words of the command line, and nothing else is."""
    assert "--time 2023-11-14T22:13:20.000Z" == str(ByTime(FIRST_TIME))
    said = "--time 2023-11-14T22:13:20.000Z --topic orders --queue 3 --boundary upper"
    assert said == str(ByTime(FIRST_TIME, "orders", 3, Boundary.UPPER))


LINES = {
    "0A00000112345A6B4C0000000000000F": ById,
    "4096": ByOffset,
    "0x1000": ByOffset,
    "orders 3 17": ByQueueOffset,
    "2026-11-21T03:00:00Z": ByTime,
    "order-17": ByKey,
    "--key order-17 --topic orders": ByKey,
    '{"key": "with a space"}': ByKey,
    '{"topic": "orders", "queue": 3, "queue_offset": 17}': ByQueueOffset,
    "--id ABC": ById,
}


@pytest.mark.parametrize(("line", "kind"), LINES.items(), ids=LINES)
def test_lines(line: str, kind: type) -> None:
    """A line of a file is understood without being told what it is."""
    assert kind is type(parse_line(line))


@pytest.mark.parametrize(
    "line",
    [
        *("--key", "--nothing x", "--key a --id b", "{", '{"key": []}', "--topic a", '"'),
        *("--queue-offset 3", "--at x", "--at 99999999999999999999", "--time never", "--key 'a"),
        *('{"key": "a", "queue": 3}', "--key a --topic"),
    ],
)
def test_bad_lines(line: str) -> None:
    """A line that cannot be meant is refused, with its number."""
    if line == '"':
        assert [ByKey('"')] == list(parse_lines([line]))
        return
    with pytest.raises(UsageError, match="line 2"):
        list(parse_lines(["# a comment", line]))


def test_largest_number() -> None:
    """An offset may be the largest long, and no more."""
    assert ByOffset(2**63 - 1) == parse_line(f"--at {2**63 - 1}")
    with pytest.raises(UsageError, match="is more than"):
        parse_line(f"--at {2**63}")
