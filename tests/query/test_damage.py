"""The answers stay the same when index or queues are gone or torn; chains that lie end."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqtool import engine
from rmqtool.formats.index import (
    INDEX_ENTRY,
    INDEX_HEADER,
    INDEX_SLOT,
    entry_position,
    slot_position,
)
from rmqtool.query import Boundary, ById, ByKey, ByOffset, ByQueueOffset, ByTime, Lookup, Request
from rmqtool.query.answer import BY_SEARCH
from rmqtool.query.batch import FEW, find_all
from rmqtool.query.next_step import next_steps
from rmqtool.store.index_files import index_file
from rmqtool.store.key_index import DENSE, PAGE, SLOTS_COUNTED, IndexReader
from rmqtool.store.place import Place
from rmqtool.store.tree import open_store
from tests import inflict, plain_store
from tests.query.expected import Expected, offsets
from tests.store.test_index_files import write_index
from tests.stores import broker_conf, fixture_names, fixture_store
from tests.truth.fixture import Fixture

SOME = 12
NAMES = [
    *fixture_names(scenario="traffic"),
    *fixture_names(scenario="batch-queue"),
    *fixture_names("5.5.0", "lmq"),
    *fixture_names("5.3.3", "dledger"),
    *fixture_names("4.9.3", "expired"),
]


def remove_index(store: Path) -> None:
    """Delete the whole index."""
    shutil.rmtree(store / "index")


def index_files(store: Path) -> list[Path]:
    """Give the index files, oldest first."""
    return sorted((store / "index").iterdir())


def tear_in_half(store: Path) -> None:
    """Cut the first index file."""
    file = index_files(store)[0]
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def lose_slots(store: Path) -> None:
    """Zero the slots of the first index file, as a crash that loses a page does."""
    file = index_files(store)[0]
    raw = bytearray(file.read_bytes())
    raw[INDEX_HEADER.size : slot_position(200)] = bytes(800)
    file.write_bytes(raw)


def lose_entries(store: Path) -> None:
    """Zero some entries of the last index file."""
    file = index_files(store)[-1]
    raw = bytearray(file.read_bytes())
    begin = entry_position(500, 10)
    raw[begin : begin + 30 * INDEX_ENTRY.size] = bytes(30 * INDEX_ENTRY.size)
    file.write_bytes(raw)


def lose_header(store: Path) -> None:
    """Zero the header of the last index file."""
    file = index_files(store)[-1]
    file.write_bytes(bytes(INDEX_HEADER.size) + file.read_bytes()[INDEX_HEADER.size :])


def remove_queues(store: Path) -> None:
    """Delete the consume queues."""
    shutil.rmtree(store / "consumequeue", ignore_errors=True)
    shutil.rmtree(store / "batchconsumequeue", ignore_errors=True)


def remove_everything(store: Path) -> None:
    """Leave nothing but the log."""
    remove_index(store)
    remove_queues(store)
    shutil.rmtree(store / "config")


DAMAGES = (
    *(remove_index, tear_in_half, lose_slots, lose_entries, lose_header),
    *(remove_queues, remove_everything),
)


@pytest.mark.parametrize("name", NAMES)
def test_same_answers(name: str, tmp_path: Path) -> None:
    """Keys, unique keys and places find the same records under every damage."""
    for damage in DAMAGES:
        place = tmp_path / damage.__name__
        place.mkdir()
        expected = Expected(Fixture(name, fixture_store(name, place)))
        assert expected.by_place
        damage(expected.fixture.store)
        check(expected, damage)


def check(expected: Expected, damage: Callable[[Path], None]) -> None:
    """Look some of each kind up."""
    name, store = expected.fixture.name, expected.fixture.store
    why = f"{name} {damage.__name__}"
    with Lookup(open_store(store, broker_conf(name))) as lookup:
        for key in expected.key_names(SOME):
            assert expected.by_key[key] == offsets(lookup.find(ByKey(key))), (why, key)
        for line in expected.sent(SOME):
            if known := expected.by_unique_key.get(line["unique_key"]):
                assert known == offsets(lookup.find(ById(line["unique_key"]))), (why, line)
        for queue_place in expected.places(SOME):
            answer = lookup.find(ByQueueOffset(*queue_place))
            assert [expected.by_place[queue_place]] == offsets(answer), (why, queue_place)


@pytest.mark.parametrize("damage", [None, *DAMAGES])
def test_batch(damage: Callable[[Path], None] | None, tmp_path: Path) -> None:
    """Many requests in one pass have the answers of each alone, in their order."""
    name = fixture_names("5.3.3", "traffic")[0]
    expected = Expected(Fixture(name, fixture_store(name, tmp_path)))
    keys, places = expected.key_names(200), expected.places(200)
    if damage is not None:
        damage(expected.fixture.store)
    requests: list[Request] = [
        *map(ByKey, keys),
        *(ByQueueOffset(*place) for place in places),
        ByKey("nobody"),
    ]
    with Lookup(open_store(expected.fixture.store, broker_conf(name))) as lookup:
        answers = list(find_all(lookup, requests))
    assert requests == [answer.request for answer in answers]
    wanted = [expected.by_key[key] for key in keys]
    wanted += [[expected.by_place[place]] for place in places]
    assert [*wanted, []] == [offsets(answer) for answer in answers]


def test_search_is_said(tmp_path: Path) -> None:
    """Without an index the answer says that it comes from the log, and from which part."""
    name = fixture_names("5.5.0", "traffic")[0]
    expected = Expected(Fixture(name, fixture_store(name, tmp_path)))
    remove_index(expected.fixture.store)
    with Lookup(open_store(expected.fixture.store)) as lookup:
        key = expected.key_names(1)[0]
        answer = lookup.find(ByKey(key))
        assert {BY_SEARCH} == {hit.found_by for hit in answer.hits}
        assert any("the log [" in one for one in answer.trail.searched)
        lookup.scan = False
        assert [] == lookup.find(ByKey(key)).hits


WILD = (1, 2, 5, 10**9, -1, -(2**31), 2**31 - 1)


# An entry that ends its chain too early looks like any other last one: only --scan passes that.
@pytest.mark.parametrize(
    ("previous", "head"),
    [(0, True), *((number, head) for number in WILD for head in (True, False))],
)
def test_hostile_chains(previous: int, head: bool, tmp_path: Path) -> None:
    """Cycles and wild numbers in slots and entries end, and what they hide is found all the same.

    Every slot, or every entry, gets the same number.
    """
    name = fixture_names("4.9.3", "traffic")[0]
    expected = Expected(Fixture(name, fixture_store(name, tmp_path)))
    slots, entries = expected.fixture.index_geometry
    for file in index_files(expected.fixture.store):
        raw = bytearray(file.read_bytes())
        written = (previous & 0xFFFFFFFF).to_bytes(4, "big")
        if head:
            raw[slot_position(0) : slot_position(slots)] = written * slots
        else:
            for number in range(1, entries):
                end = entry_position(slots, number + 1)
                raw[end - 4 : end] = written
        file.write_bytes(raw)
    with Lookup(open_store(expected.fixture.store, broker_conf(name))) as lookup:
        for key in expected.key_names(4):
            assert expected.by_key[key] == offsets(lookup.find(ByKey(key)))


def test_page_of_slots(tmp_path: Path) -> None:
    """In a large and dense index an empty slot is a lost page where all slots of its page are."""
    path, slots = tmp_path / "20260101000000000", SLOTS_COUNTED + 8
    write_index(path, slots, 5000, [*range(0, slots, DENSE - 1)])
    raw = bytearray(path.read_bytes())
    raw[PAGE : 2 * PAGE] = bytes(PAGE)
    path.write_bytes(raw)
    reader = IndexReader(index_file(Place.of(path), path.name, slots, 5000))
    assert "" == reader.trouble
    first, beyond = ((page * PAGE - INDEX_HEADER.size) // INDEX_SLOT.size for page in (1, 2))
    said = f"slots {first} to {beyond - 1} are all empty: a lost page"
    for slot in (1, first - 1, first, beyond - 1, beyond, slots - 1):
        assert (said if first <= slot < beyond else "") == reader.chain(slot).trouble, slot
    reader.close()


@pytest.mark.parametrize("name", ["rocketmq-4.9.3-traffic", "rocketmq-5.5.0-batch-queue"])
def test_times_without_queues(name: str, tmp_path: Path) -> None:
    """Where queues are lost the records give the same places for a time, in every queue."""
    fixture = Fixture(name, fixture_store(name, tmp_path))
    elsewhere = {"delay", "half"}  # the topics that these were sent to are not their records'
    topics = sorted({line["topic"] for line in fixture.sent if line["kind"] not in elsewhere})
    times = sorted({int(record.fields["store_timestamp"]) for record in fixture.records})
    asked = [
        ByTime(time + 1, topic, queue_id, boundary)
        for time in [times[0] - 2, *times[:: len(times) // 5], times[-1]]
        for topic in topics
        for queue_id in (None, 0)
        for boundary in Boundary
    ]
    with Lookup(open_store(fixture.store, broker_conf(name))) as lookup:
        expected = [places(lookup.find(request).rows) for request in asked]
    assert any(expected)
    remove_queues(fixture.store)
    with Lookup(open_store(fixture.store, broker_conf(name)), jobs=1) as lookup:
        assert expected == [places(lookup.find(request).rows) for request in asked]
        lookup.scan = False
        assert None is lookup.find(asked[0]).rows


def test_times_without_one_queue(tmp_path: Path) -> None:
    """Where the queues of one topic are lost its records tell; no other name has the log read."""
    name, topic = "rocketmq-5.5.0-traffic", "traffic-orders"
    store = fixture_store(name, tmp_path)
    requests = [ByTime(0, topic), ByTime(0, "traffic-order")]
    with Lookup(open_store(store, broker_conf(name))) as lookup:
        expected = places(lookup.find(requests[0]).rows)
    shutil.rmtree(store / "consumequeue" / topic)
    with Lookup(open_store(store, broker_conf(name)), jobs=1) as lookup:
        answer, unknown = map(lookup.find, requests)
    assert expected == places(answer.rows) != []
    assert "this comes from its records" in answer.problem
    assert (None, []) == (unknown.rows, [one for one in unknown.trail.searched if "log" in one])


def places(rows: list[dict[str, object]] | None) -> list[tuple[object, ...]]:
    """Give queue, answer, offset and range of each row, but for queues without a message."""
    names = ("queue_id", "queue_offset", "physical_offset", "min_offset", "max_offset")
    return [tuple(row.get(name) for name in names) for row in rows or () if row["max_offset"]]


def test_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many threads as were asked for search the log, and find the same."""

    def refuse() -> int:
        raise AssertionError

    monkeypatch.setattr(engine, "default_jobs", refuse)
    name = fixture_names("5.5.0", "traffic")[0]
    expected = Expected(Fixture(name, fixture_store(name, tmp_path)))
    remove_index(expected.fixture.store)
    keys = expected.key_names(20)
    requests = [*map(ByKey, keys)]
    for jobs in (1, 3):
        with Lookup(open_store(expected.fixture.store), jobs=jobs) as lookup:
            answers = list(find_all(lookup, requests))
        assert [expected.by_key[key] for key in keys] == [offsets(answer) for answer in answers]
    with Lookup(open_store(expected.fixture.store)) as lookup, pytest.raises(AssertionError):
        list(find_all(lookup, requests))


def test_log_with_a_hole(tmp_path: Path) -> None:
    """What is said to have been searched leaves out what no file holds."""
    name = fixture_names("5.3.3", "traffic")[0]
    root = fixture_store(name, tmp_path)
    segments = plain_store.segments(root)
    begin, end = int(segments[1].name), int(segments[2].name)
    segments[1].unlink()
    with Lookup(open_store(root, broker_conf(name)), scan=True) as lookup:
        said = lookup.find(ByKey("no such key", ())).summary
    assert f"without [{begin}, {end}), which no file holds" in said


def test_no_log(tmp_path: Path) -> None:
    """Without a commitlog every answer says so, and what to do."""
    name = fixture_names("5.3.3", "traffic")[0]
    root = fixture_store(name, tmp_path)
    inflict.remove_log(root)
    with Lookup(open_store(root, broker_conf(name))) as lookup:
        for request in (ByKey("ORDER-1", ()), ByQueueOffset("traffic-orders", 1, 3), ByOffset(0)):
            assert "there is no commitlog: mount or restore it" in lookup.find(request).summary


def test_says_what_was_not_searched(tmp_path: Path) -> None:
    """Bytes of the log that hold no record are named by each answer that a search did not find."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    segment = store / "commitlog" / "00000000000000131072"
    raw = bytearray(segment.read_bytes())
    raw[60_000:64_096] = bytes(4096)
    segment.write_bytes(raw)
    shutil.rmtree(store / "index")
    keys = [ByKey(f"no-such-key-{number}") for number in range(2 * FEW)]
    with Lookup(open_store(str(store)), scan=True) as lookup:
        for answer in find_all(lookup, keys):
            assert not answer.hits
            assert "bytes of the log hold no record" in answer.summary
        single = lookup.find(keys[0])
        assert any("rmqtool validate" in step for step in next_steps(lookup, single))


def test_a_unit_of_zeros(tmp_path: Path) -> None:
    """The trail says what is wrong with the unit, and the message is found all the same."""
    name = "rocketmq-5.3.3-traffic"
    store = fixture_store(name, tmp_path)
    queue = store / "consumequeue/traffic-orders/1"
    path, position = inflict.unit_place(queue, 3)
    request = ByQueueOffset("traffic-orders", 1, 3)
    with Lookup(open_store(store, broker_conf(name))) as lookup:
        before = offsets(lookup.find(request))
    inflict.write_at(path, position, bytes(20))
    with Lookup(open_store(store, broker_conf(name))) as lookup:
        answer = lookup.find(request)
    assert before == offsets(answer) != []
    (step,) = (step for step in answer.trail.steps if step.action == "queue unit")
    assert (str(path.relative_to(store)), position) == (step.path, step.position)
    assert step.result
