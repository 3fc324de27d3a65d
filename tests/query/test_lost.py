"""Messages that are lost: what is said of them is what they were before the damage."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.errors import UnreadablePath
from rmqtool.formats import java
from rmqtool.ledger.numbers import LostNumbers
from rmqtool.library import open_store
from rmqtool.query import lost
from rmqtool.query.lost import DOUBTFUL, LOST, UNKNOWN, UNLISTED, lost_messages
from rmqtool.store.tree import open_store as open_tree
from rmqtool.tables.lost_messages import LOST_MESSAGES
from tests import inflict
from tests.stores import fixture_store

TRAFFIC = "rocketmq-5.3.3-traffic"
CASES: dict[str, tuple[str, Callable[[Path], None], str, int]] = {
    "zero sector": (TRAFFIC, inflict.zero_sector(), LOST, 2),
    "zero sector, 4.9.3": ("rocketmq-4.9.3-traffic", inflict.zero_sector(), LOST, 1),
    "flipped body": (TRAFFIC, inflict.flip_field("body"), DOUBTFUL, 1),
    "flipped physical offset": (TRAFFIC, inflict.flip_field("physical_offset"), DOUBTFUL, 1),
    "torn tail": ("rocketmq-5.3.3-crash", inflict.tear_tail, DOUBTFUL, 1),
    "segment gone": (TRAFFIC, inflict.remove_segment(1), LOST, 300),
    "no log": (TRAFFIC, inflict.remove("commitlog"), LOST, 1000),
}


@pytest.mark.parametrize("case", CASES)
def test_facts(case: str, tmp_path: Path) -> None:
    """Each fact is that of the message which stood there, and has its source."""
    name, harm, fate, least = CASES[case]
    store = fixture_store(name, tmp_path)
    before = {row["physical_offset"]: row for row in open_store(str(store)).rows()}
    harm(store)
    rows = lost_messages(open_tree(str(store)), list(validate(ValidateOptions(str(store)))))
    assert least <= len(rows)
    # The first record of a zeroed sector may have all but its end: it is doubtful.
    assert fate in {row["fate"] for row in rows} <= {LOST, DOUBTFUL}
    for row in rows:
        assert LOST_MESSAGES.names == tuple(row)
        was = before[row["physical_offset"]]
        for column in ("topic", "queue_id", "queue_offset", "size"):
            assert was[column] == row[column]
        assert row["unique_key"] in {None, was["unique_key"]}
        assert set(row["keys"] or ()) <= set(was["keys"])
        assert row["sources"]
        if row["store_time"] and row["fate"] == LOST:
            assert row["store_time"][:16] <= was["store_time"]
        assert (row["stored_after"] or "") <= was["store_time"] <= (row["stored_before"] or "9")
    with_hashes = [row for row in rows if row["key_hashes"]]
    assert with_hashes


def test_first_record(tmp_path: Path) -> None:
    """The hashes are those of its keys: entries that are not in use have its offset, 0, too."""
    store = fixture_store("rocketmq-5.5.0-traffic", tmp_path)
    (was, *_) = open_store(str(store)).rows()
    inflict.write_at(inflict.segment_at(store, 0), 100, b"\xee" * 20)
    (row, *_) = lost_messages(open_tree(str(store)), list(validate(ValidateOptions(str(store)))))
    hashes = {java.key_hash(was["topic"], key) for key in (was["unique_key"], *was["keys"])}
    assert 0 == row["physical_offset"]
    assert hashes <= {*row["key_hashes"]}
    assert 0 not in row["key_hashes"]


def test_sound(tmp_path: Path) -> None:
    """A sound store has lost nothing, and what expired is not lost."""
    for name in (TRAFFIC, "rocketmq-5.3.3-expired"):
        (tmp_path / name).mkdir()
        store = fixture_store(name, tmp_path / name)
        findings = list(validate(ValidateOptions(str(store))))
        assert [] == lost_messages(open_tree(str(store)), findings)


def test_copy_tells_the_key(tmp_path: Path) -> None:
    """A neighbour of a lost message may have its unique key; the index confirms it."""
    store = fixture_store(TRAFFIC, tmp_path)
    before = {row["physical_offset"]: row for row in open_store(str(store)).rows()}
    inflict.zero_sector()(store)
    rows = lost_messages(open_tree(str(store)), list(validate(ValidateOptions(str(store)))))
    rows = [row for row in rows if row["fate"] == LOST]
    assert rows
    assert [before[row["physical_offset"]]["unique_key"] for row in rows] == [
        row["unique_key"] for row in rows
    ]
    assert all("confirmed by the index" in row["sources"][-1] for row in rows)


def test_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no room in the list is counted, and a row says so."""
    store = fixture_store(TRAFFIC, tmp_path)
    inflict.remove_segment(1)(store)
    findings = list(validate(ValidateOptions(str(store))))
    whole = lost_messages(open_tree(str(store)), findings)
    monkeypatch.setattr(lost, "LISTED", 7)
    *listed, rest = lost_messages(open_tree(str(store)), findings)
    assert listed == [row for row in whole if row["physical_offset"] in places(listed)]
    assert 7 == len(places(listed))
    assert (UNLISTED, len(whole) - len(listed)) == (rest["fate"], rest["messages"])


def places(rows: list[dict[str, object]]) -> set[object]:
    """Give the physical offsets of rows."""
    return {row["physical_offset"] for row in rows}


def test_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody could look, no list is empty."""
    store = fixture_store(TRAFFIC, tmp_path)

    def refused(_: object, __: object) -> None:
        raise UnreadablePath(path="commitlog", reason="permission denied")

    monkeypatch.setattr(lost.DoubtfulPlaces, "of", refused)
    (row,) = lost_messages(open_tree(str(store)), [])
    assert (UNKNOWN, ["commitlog: permission denied"]) == (row["fate"], row["sources"])


def test_past_all_numbers() -> None:
    """A file whose name puts its end past the largest number holds what comes before that."""
    places = lost.DoubtfulPlaces([(2**63 - 4096, 2**63 + 4096, None), (2**64, 2**65, None)])
    assert [False, True] == places.holds(np.array([4096, 2**63 - 2])).tolist()


def test_many_numbers() -> None:
    """A queue that has lost half of its messages, one by one, is listed as it is counted."""
    count = 50_000
    row: dict[str, Any] = dict.fromkeys(LOST_MESSAGES.names)
    rows = [
        {**row, "fate": LOST, "topic": "t", "queue_id": 0, "messages": 1, "sources": []}
        | {"queue_offset": 2 * number, "physical_offset": number}
        for number in range(count)
    ]
    numbers = [LostNumbers("t", 0, 4 * number, 2) for number in range(count // 2)]
    told = lost.as_counted(rows, numbers)
    found = Counter(row["fate"] for row in told)
    assert {LOST: count // 2 + lost.LISTED, DOUBTFUL: count // 2} == found


def test_index_alone(tmp_path: Path) -> None:
    """Without queues the index tells what was in files that the log has lost at its end."""
    store = fixture_store(TRAFFIC, tmp_path)
    gone = inflict.segment_at(store, -1)
    gone.unlink()
    shutil.rmtree(store / "consumequeue")
    rows = lost_messages(open_tree(str(store)), list(validate(ValidateOptions(str(store)))))
    assert [row for row in rows if row["physical_offset"] >= int(gone.name)]
