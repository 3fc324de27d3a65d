"""A stream beside a real broker with kills on both sides, in short; and its judge, without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.stream_campaign import Trial, campaign
from tests.spark.stream_judge import CUT, EXPIRED, Rows, judge
from tests.spark.stream_log import Given, KeptLog, walk
from tests.stores import fixture_store, sent

TRAFFIC = "rocketmq-5.3.3-traffic"
STEPS = (Trial.driver_killed, Trial.power_lost, Trial.expired_unread, Trial.both_killed)


def records(count: int, store_time: int = 1) -> list[Given]:
    """Give records of 100 bytes."""
    return [Given(100 * at, 100, store_time, "t", 0, at, 7) for at in range(count)]


def rows(given: list[Given]) -> Rows:
    """Give rows of records."""
    return [{**one._asdict(), "extent": None, "code": None} for one in given]


def marker(code: str, begin: int, end: int) -> dict[str, Any]:
    """Give a row that tells of a loss."""
    return {"physical_offset": begin, "size": end - begin, "extent": "gap", "code": code}


OLD, NEW = records(8), records(6, store_time=2)
AFTER_CUT = [*OLD[:4], *NEW[4:]]  # the log was cut at 400
SOUND = {
    "whole": ([rows(OLD[:3]), rows(OLD[3:])], OLD),
    "cut": ([rows(OLD), [marker(CUT, 300, 800), *rows(AFTER_CUT[3:])]], AFTER_CUT),
    "expired": ([rows(OLD[:2]), [marker(EXPIRED, 200, 500), *rows(OLD[5:])]], OLD),
    "cut before it was read": ([rows(OLD[:4]), rows(NEW[4:])], AFTER_CUT),
}
WRONG = {
    "twice": ([rows(OLD), rows(OLD[3:4])], OLD, "records twice"),
    "twice in a batch": ([rows([*OLD, OLD[3]])], OLD, "records twice"),
    "missing": ([rows(OLD[:3]), rows(OLD[4:])], OLD, "missing, unannounced"),
    "cut unannounced": ([rows(OLD)], AFTER_CUT, "no longer has, unannounced"),
    "announced too short": (
        [rows(OLD[:2]), [marker(EXPIRED, 200, 400), *rows(OLD[5:])]],
        OLD,
        "missing, unannounced",
    ),
    "announced in vain": ([rows(OLD), [marker(EXPIRED, 200, 300)]], OLD, "given and announced"),
    "not given again": ([rows(OLD), [marker(CUT, 300, 800)]], AFTER_CUT, "missing, unannounced"),
    "never there": ([rows([*OLD, *records(9, 3)[8:]])], OLD, "never in the log"),
    "damage": ([[*rows(OLD), marker("CL-MAGIC", 800, 900)]], OLD, "rows of damage"),
}


@pytest.mark.parametrize("name", SOUND)
def test_judge_takes(name: str) -> None:
    """What is told or there is not wrong."""
    given, final = SOUND[name]
    assert [] == judge(given, set(final), {*OLD, *NEW}).wrong


@pytest.mark.parametrize("name", WRONG)
def test_judge_finds(name: str) -> None:
    """Each way to be wrong is found."""
    given, final, said = WRONG[name]
    assert said in " / ".join(judge(given, set(final), {*OLD, *NEW}).wrong)


def test_walk(tmp_path: Path) -> None:
    """Each message that the broker has acknowledged is found, and is what it answered."""
    store = fixture_store(TRAFFIC, tmp_path)
    found = {
        one.physical_offset: (one.topic, one.queue_offset)
        for path in (store / "commitlog").iterdir()
        for one in walk(path, int(path.name))
    }
    normal = [one for one in sent(TRAFFIC) if one["kind"] == "normal"]
    assert normal
    for one in normal:
        assert (one["topic"], one["queue_offset"]) == found[one["physical_offset"]]


def test_kept(tmp_path: Path) -> None:
    """A file that goes stays known; one that a recovery takes away is not counted as left."""
    store = fixture_store(TRAFFIC, tmp_path)
    kept = KeptLog(store / "commitlog", tmp_path / "kept")
    kept.take()
    paths = sorted((store / "commitlog").iterdir())
    last = set(walk(paths[-1], int(paths[-1].name)))
    assert last
    paths[-1].unlink()
    kept.recovered()
    kept.keep()
    paths[0].unlink()
    assert kept.ever - last == kept.final()
    assert kept.cut(1000) > 0
    assert len(kept.final()) < len(kept.ever - last)


@pytest.mark.broker
def test_campaign(tmp_path: Path) -> None:
    """With kills on both sides, lost pages and expiry, each record is there once or announced."""
    done, judgement = campaign("5.3.3", tmp_path, 1, STEPS, is_plain=True)
    assert [] == judgement.wrong
    assert len(STEPS) <= sum(done.values())
    assert judgement.figures["cuts announced"] > 0
    assert judgement.figures["records of announced expiries"] > 0
