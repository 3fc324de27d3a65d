"""What is at a place of the log or of a queue, and all of one message."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from rmqtool.query.glance import glance
from rmqtool.query.log import LogRecord
from rmqtool.query.lookup import Lookup
from rmqtool.query.whole_message import hex_lines, log_row, message_fields, places_after, queue_row
from rmqtool.store.tree import open_store
from rmqtool.tables.bodies import BodyMode
from tests.stores import fixture_names, fixture_store

DAMAGED_AT: Final = 131072 + 27308  # in fixtures/tour/store
TOUR: Final = Path(__file__).parents[2] / "fixtures" / "tour" / "store"


@pytest.mark.parametrize("name", fixture_names(scenario="traffic"))
def test_places_tile(name: str, tmp_path: Path) -> None:
    """From the first place on, each begins where the one before ended, up to the end of the log."""
    with Lookup(open_store(fixture_store(name, tmp_path))) as lookup:
        log = lookup.log
        places = [log.start, *places_after(log, log.start)]
        records = [log.record_at(place) for place in places]
        ends = [record.end if isinstance(record, LogRecord) else None for record in records]
        assert all(
            end in {None, after} for end, (_, after) in zip(ends, pairwise(places), strict=False)
        )
        assert places[-1] < log.end
        assert log.end == ends[-1]
        rows = [log_row(lookup, *pair) for pair in pairwise([*places, log.end])]
        assert {None} == {row.get("severity") for row in rows}  # blanks are no damage


def test_long_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a stretch that is too long to be searched, the files that follow are read."""
    store = fixture_store("rocketmq-4.9.3-traffic", tmp_path)
    hurt = store / "commitlog" / f"{131072:020}"
    with hurt.open("r+b") as file:
        file.seek(20_000)
        file.write(bytes(131072 - 20_000))
    monkeypatch.setattr("rmqtool.query.log.LARGEST_WINDOW", 1000)
    with Lookup(open_store(store)) as lookup:
        log = lookup.log
        places = [log.start, *places_after(log, log.start)]
        bad = [place for place in places if not isinstance(log.record_at(place), LogRecord)]
        assert [131072 <= place < 262144 for place in bad[-1:]] == [True]
        assert places[-1] > 262144
        assert "damage" == log_row(lookup, bad[-1], 262144)["severity"]


def test_queue_rows() -> None:
    """A place of a queue gives its message, or says why there is none."""
    with Lookup(open_store(TOUR)) as lookup:
        row = queue_row(lookup, "traffic-orders", 0, 7)
        assert ("traffic-orders", 0, 7) == (row["topic"], row["queue_id"], row["queue_offset"])
        assert row["unique_key"]
        lost = queue_row(lookup, "traffic-orders", 1, 120)
        assert "damage" == lost["severity"]
        assert lost["note"]
        assert "the queue has no unit here" == queue_row(lookup, "no-topic", 0, 0)["note"]


def test_message_and_bytes() -> None:
    """Fields, pointers and body of a message; its bytes tile."""
    with Lookup(open_store(TOUR)) as lookup:
        at = int(str(queue_row(lookup, "traffic-orders", 0, 7)["physical_offset"]))
        fields = list(message_fields(lookup, at, BodyMode.TEXT))
        pointers = dict(fields)
        assert "traffic-orders 0 7: consumequeue/traffic-orders/0" in str(pointers["queue unit"])
        assert "index entry" in pointers
        lines = list(hex_lines(lookup, at))
        sizes = [len(bytes.fromhex(str(line["hex"]))) for line in lines]
        assert [line["position"] for line in lines] == [sum(sizes[:n]) for n in range(len(sizes))]
        record = lookup.log.record_at(at)
        assert isinstance(record, LogRecord)
        assert record.raw == bytes.fromhex("".join(str(line["hex"]) for line in lines))
        ((name, reason),) = message_fields(lookup, 1 << 40, BodyMode.TEXT)
        assert "note" == name
        assert str(reason).startswith("outside of the log")


def test_glance() -> None:
    """A first look says what the log has, and samples its times."""
    with Lookup(open_store(TOUR)) as lookup:
        seen = glance(lookup)
    assert 393216 == seen.size
    assert sorted(offset for _, offset in seen.samples) == [offset for _, offset in seen.samples]
    assert max(time for time, _ in seen.samples) <= (seen.newest or 0)
    assert {"release", "stopped", "commitlog"} <= {name for name, _ in seen.lines}
