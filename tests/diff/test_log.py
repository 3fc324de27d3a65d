"""Where the logs of two stores part, and what only one of them has, against the plain reader."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from rmqtool.diff import StoreDifference, log_difference
from rmqtool.diff.log_bytes import Compared, compare_logs
from rmqtool.diff.log_difference import AFTER, BEFORE, SHARED
from rmqtool.diff.report import verdict
from rmqtool.diff.side import WRITTEN_LATER
from rmqtool.query.log import NoRecord
from rmqtool.store.record_heads import LogReader
from rmqtool.times import iso_time
from tests import plain_store
from tests.diff.conftest import Pair
from tests.plain_store import Record
from tests.store.faults import bad_sector
from tests.stores import fixture_names, fixture_store, held_by_another

TRAFFIC: Final = "rocketmq-5.3.3-traffic"
SEGMENT: Final = 131072

Pairs = Callable[[str], Pair]


def counted(records: Iterable[Record]) -> Counter[tuple[str, int]]:
    """Count records by topic and queue."""
    return Counter((record.topic, record.integer("queue_id")) for record in records)


def own(found: StoreDifference, side: int, *ranges: str) -> Counter[tuple[str, int]]:
    """Give what one side has alone, by topic and queue."""
    counts: Counter[tuple[str, int]] = Counter()
    for key, tally in found.log.own[side].tallies.items():
        if key.range in (ranges or (BEFORE, SHARED, AFTER)):
            counts[key.topic, key.queue_id] += tally.messages
    return counts


def overwrite(path: Path, position: int, raw: bytes) -> None:
    """Change bytes of a file."""
    with path.open("r+b") as file:
        file.seek(position)
        file.write(raw)


def offset_of(record: Record) -> int:
    """Give the place of a record in the log."""
    return int(record.path.name) + record.position


def flip(record: Record, field: str, number: int = 0) -> None:
    """Flip a bit of a field of a record."""
    place = record.places()[field][0] + number
    overwrite(record.path, record.position + place, bytes([record.raw[place] ^ 1]))


def cut_from(record: Record) -> None:
    """Make unused space of the log from a record on, as if it had never been written."""
    for path in plain_store.segments(record.path.parents[1]):
        if path.name > record.path.name:
            path.unlink()
    size = record.path.stat().st_size
    overwrite(record.path, record.position, bytes(size - record.position))


def reframe(store: Path, size: int) -> None:
    """Write the log anew in files of another length."""
    paths = plain_store.segments(store)
    first = int(paths[0].name)
    whole = b"".join(path.read_bytes() for path in paths)
    for path in paths:
        path.unlink()
    for start in range(0, len(whole), size):
        name = f"{first + start:020}"
        (store / "commitlog" / name).write_bytes(whole[start : start + size])


@pytest.mark.parametrize(
    "name",
    [
        *(fixture for fixture in fixture_names("5.3.3") if "default-geometry" not in fixture),
        *("rocketmq-4.9.3-dledger", "rocketmq-5.5.0-rocksdb-combined"),
    ],
)
def test_itself(name: str, pair: Pairs) -> None:
    """A store and its copy are the same."""
    compared = pair(name).compare()
    assert compared.is_same
    assert (compared.parts_at, compared.log.unread) == (None, 0)
    assert compared.log.compared == compared.log.a.length > 0
    assert verdict(compared).startswith("the stores are the same")


@pytest.mark.parametrize("where", [0.0, 0.3, 0.7, 0.99])
@pytest.mark.parametrize("name", [TRAFFIC, "rocketmq-4.9.3-expired", "rocketmq-5.5.0-ipv6"])
def test_cut(name: str, where: float, pair: Pairs) -> None:
    """The end of the shorter log is where they part; what the other has more is counted."""
    stores = pair(name)
    records = plain_store.records(stores.a)
    number = max(int(where * len(records)), 1)
    cut_from(plain_store.records(stores.b)[number])
    compared = stores.compare()
    assert (compared.parts_at, compared.log.first) == (compared.log.b.end, None)
    # The cut may lie behind a blank, past which the log ends.
    assert offset_of(records[number]) == compared.log.b.end
    assert (own(compared, 0, AFTER), own(compared, 1)) == (counted(records[number:]), Counter())
    assert own(compared, 0) == own(compared, 0, AFTER)
    time = iso_time(records[number - 1].integer("store_timestamp"))
    count = len(records) - number
    assert f"B is A's log up to {time} (physical offset {compared.log.b.end})" in verdict(compared)
    assert f"A has {count:,} message" in verdict(compared)
    turned = Pair(stores.b, stores.a).compare()
    assert own(turned, 1) == own(compared, 0)
    assert f"A is B's log up to {time}" in verdict(turned)


@pytest.mark.parametrize("where", [0.0, 0.4, 0.9])
@pytest.mark.parametrize("field", ["body", "topic", "total_size", "magic_code", "queue_id"])
def test_flipped_bit(field: str, where: float, pair: Pairs) -> None:
    """One record differs: it is named, and the logs are the same before and after it."""
    stores = pair(TRAFFIC)
    record = plain_store.nth(stores.b, where)
    flip(record, field, 3 if field in {"total_size", "queue_id"} else 0)
    compared = stores.compare()
    at = offset_of(record)
    assert (compared.is_same, compared.log.first, compared.log.goes_on) == (False, at, True)
    assert own(compared, 0) == counted([record])
    assert sum(own(compared, 1).values()) == (field in {"body", "topic", "queue_id"})
    damaged = [one.physical_offset for one in compared.troubles[1] if one.code]
    assert damaged == ([] if field in {"topic", "queue_id"} else [at])
    assert not [one for one in compared.troubles[0] if one.code]
    assert f"they differ first at {at}" in verdict(compared)


def test_shared_damage(pair: Pairs) -> None:
    """Damage that both have is no difference; where it is seen, it is said."""
    stores = pair(TRAFFIC)
    for store in (stores.a, stores.b):
        flip(plain_store.nth(store, 0.05), "body")
    assert stores.compare().is_same
    flip(plain_store.nth(stores.b, 0.1), "body")  # in the same file, which is scanned then
    compared = stores.compare()
    assert [len(own.own_damage) for own in compared.log.own] == [0, 1]
    assert [len(own.damage) for own in compared.log.own] == [1, 2]


def test_damage_side_by_side(pair: Pairs) -> None:
    """Damaged records that follow each other are one stretch, another one is its own."""
    stores = pair(TRAFFIC)
    harmed = [plain_store.records(stores.b)[number] for number in (600, 610, 611)]
    for record in harmed:
        flip(record, "body")
    first, second, third = harmed
    assert [
        (offset_of(first), first.size),
        (offset_of(second), second.size + third.size),
    ] == [(damage.physical_offset, damage.length) for damage in stores.compare().log.own[1].damage]


@pytest.mark.parametrize("where", [0.2, 0.8])
def test_divergence(where: float, pair: Pairs) -> None:
    """From a record on each has records of its own: there they part."""
    stores = pair(TRAFFIC)
    records = plain_store.records(stores.a)
    number = int(where * len(records))
    for record in plain_store.records(stores.b)[number:]:
        place, size = record.places()["store_timestamp"]
        later = record.integer("store_timestamp") + 1
        overwrite(record.path, record.position + place, later.to_bytes(size, "big"))
    compared = stores.compare()
    at = offset_of(records[number])
    assert (compared.log.first, compared.log.goes_on) == (at, False)
    assert own(compared, 0) == own(compared, 1) == counted(records[number:])
    assert verdict(compared).startswith(f"they part at {at}: from there A has ")
    offsets = [getattr(record, "physical_offset", None) for record in compared.records]
    assert offsets == [at, at]


def test_other_files(pair: Pairs) -> None:
    """Files of another length hold the same log; a difference is found in them, too."""
    stores = pair(TRAFFIC)
    reframe(stores.b, SEGMENT // 2)
    assert stores.compare().log.is_same
    records = plain_store.records(stores.a)
    record = records[len(records) // 2]
    at = offset_of(record)
    path = stores.b / "commitlog" / f"{at - at % (SEGMENT // 2):020}"
    place = record.places()["store_timestamp"][0] + 7
    overwrite(path, at % (SEGMENT // 2) + place, bytes([record.raw[place] ^ 1]))
    compared = stores.compare()
    assert (compared.log.first, own(compared, 0), own(compared, 1)) == (
        at,
        counted([record]),
        counted([record]),
    )


def test_rest_of_a_blank(pair: Pairs) -> None:
    """What a broker leaves in the rest of a blank, and past the end, is no difference."""
    stores = pair(TRAFFIC)
    path, position, size = next(blank for blank in plain_store.blanks(stores.b) if blank[2] > 9)
    overwrite(path, position + 8, b"\1" * (size - 8))
    last, end = plain_store.tail(stores.b)
    overwrite(last, end + 4096, bytes(64))
    with last.open("ab") as file:
        file.write(bytes(SEGMENT))
    compared = stores.compare()
    assert compared.log.is_same


def test_head_of_a_blank(pair: Pairs) -> None:
    """A blank that states another size is damage, and never the same."""
    stores = pair(TRAFFIC)
    path, position, size = plain_store.blanks(stores.b)[0]
    overwrite(path, position, (size + 1).to_bytes(4, "big"))
    compared = stores.compare()
    at = int(path.name) + position
    assert (compared.is_same, compared.log.first, compared.log.goes_on) == (False, at, True)
    assert own(compared, 0) == own(compared, 1) == Counter()
    assert [len(one.own_damage) for one in compared.log.own] == [0, 1]


def test_running(pair: Pairs) -> None:
    """That a broker holds a store is said, and is no difference."""
    stores = pair(TRAFFIC)
    with held_by_another(stores.b):
        compared = stores.compare()
    assert compared.is_same
    assert [[problem.path for problem in some] for some in compared.troubles] == [[], ["lock"]]


@pytest.mark.parametrize("name", [TRAFFIC, "rocketmq-5.5.0-ipv6"])
def test_goes_on(name: str, pair: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a running broker writes during the comparison is none of its log."""
    stores = pair(name)
    records = plain_store.records(stores.a)
    path = records[-1].path
    own_file = [number for number, record in enumerate(records) if record.path == path]
    number = own_file[len(own_file) // 2]
    whole = path.read_bytes()
    cut_from(records[number])

    def written(
        a: LogReader, b: LogReader, begin: int, ends: tuple[int, int], jobs: int | None
    ) -> Iterator[Compared]:
        path.write_bytes(whole)
        yield from compare_logs(a, b, begin, ends, jobs)

    monkeypatch.setattr(log_difference, "compare_logs", written)
    with held_by_another(stores.a):
        compared = stores.compare()
    assert (compared.log.first, compared.parts_at) == (None, compared.log.a.end)
    assert (own(compared, 0), own(compared, 1)) == (Counter(), counted(records[number:]))
    assert NoRecord(compared.log.a.end, WRITTEN_LATER) == compared.records[0]
    assert f"B has {len(records) - number:,} messages more" in verdict(compared)


def test_expired(pair: Pairs) -> None:
    """What one has let go, the other has alone: older messages."""
    stores = pair(TRAFFIC)
    first = plain_store.segments(stores.b)[0]
    records = [record for record in plain_store.records(stores.a) if record.path.name == first.name]
    first.unlink()
    compared = stores.compare()
    assert (compared.is_same, compared.parts_at) == (False, None)
    assert (compared.log.shared.begin, own(compared, 0, BEFORE)) == (SEGMENT, counted(records))
    assert own(compared, 0, SHARED, AFTER) == own(compared, 1) == Counter()
    assert f"A has {len(records):,} older messages" in verdict(compared)


def test_hole(pair: Pairs) -> None:
    """A missing file in the middle is a difference, and the log goes on after it."""
    stores = pair(TRAFFIC)
    gone = plain_store.segments(stores.b)[1]
    records = [record for record in plain_store.records(stores.a) if record.path.name == gone.name]
    gone.unlink()
    compared = stores.compare()
    assert (compared.log.first, compared.log.goes_on) == (SEGMENT, True)
    assert (own(compared, 0), own(compared, 1)) == (counted(records), Counter())


def test_nothing_in_common(pair: Pairs) -> None:
    """Logs that do not meet, and a store without a log."""
    stores = pair(TRAFFIC)
    for path in plain_store.segments(stores.a)[2:]:
        path.unlink()
    for path in plain_store.segments(stores.b)[:2]:
        path.unlink()
    shutil.rmtree(stores.a / "consumequeue")
    compared = stores.compare()
    assert "the logs have no offset in common" in verdict(compared)
    assert not compared.is_same
    shutil.rmtree(stores.b / "commitlog")
    assert "B has no message in a commitlog" in verdict(stores.compare())


@pytest.mark.parametrize("side", [0, 1])
def test_unreadable(side: int, pair: Pairs) -> None:
    """A file that the disk refuses is never the same; what lies in it is neither alone."""
    stores = pair(TRAFFIC)
    bad = plain_store.segments((stores.a, stores.b)[side])[1]
    with bad_sector(bad):
        compared = stores.compare()
    assert (compared.is_complete, compared.log.unread) == (False, SEGMENT)
    assert [bool(record) for record in compared.troubles] == [side == 0, side == 1]
    assert own(compared, 0) == own(compared, 1) == Counter()
    there = [record for record in plain_store.records(stores.a) if record.path.name == bad.name]
    assert compared.log.own[1 - side].unknown == len(there)
    assert "the stores are the same" not in verdict(compared)
    assert "some input could not be read" in verdict(compared)


def test_never_replicas(pair: Pairs, tmp_path: Path) -> None:
    """Stores of two brokers are called strangers at once; a copy with a flipped bit is not."""
    stores = pair(TRAFFIC)
    (tmp_path / "other").mkdir()
    other = fixture_store("rocketmq-5.5.0-traffic", tmp_path / "other")
    words = verdict(Pair(stores.a, other).compare())
    assert words.startswith("they were never replicas of each other: the record at 0 was stored at")
    flip(plain_store.records(stores.b)[0], "store_timestamp", 7)
    assert "never replicas" not in verdict(stores.compare())
