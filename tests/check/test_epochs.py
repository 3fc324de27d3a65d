"""Epochs against the log that they are of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqtool.formats.epoch import EpochEntry, encode
from tests import plain_store
from tests.check.validation import run

NAME = "rocketmq-5.3.3-traffic"
NAMES = ("epoch 2 begins inside a record", "epoch 2 begins past the end of the log")


def _messages(store: Path, level: str, *starts: int) -> list[str]:
    """Write an epoch file with these starts; give what is said of it."""
    entries = tuple(EpochEntry(number, start) for number, start in enumerate(starts, 1))
    (store / "epochFileCheckpoint").write_bytes(encode(entries))
    return [finding.message for finding in run(store, level)[0] if finding.code.area == "epoch"]


@pytest.mark.parametrize("level", ["quick", "full"])
def test_places(level: str, copy_of: Callable[[str], Path]) -> None:
    """An epoch begins at a record, at the blank of a file, or at the end of the log."""
    store = copy_of(NAME)
    log = plain_store.records(store)
    middle, last = log[len(log) // 2], log[-1]
    end = last.physical_offset + last.size
    for sound in (middle.physical_offset, end):
        assert [] == _messages(store, level, 0, sound)
    assert [NAMES[0]] == _messages(store, level, 0, middle.physical_offset + 1)
    assert [NAMES[1]] == _messages(store, level, 0, end + 1)


def test_blank(copy_of: Callable[[str], Path]) -> None:
    """The end of the last record of a file is a place, too: a blank follows."""
    store = copy_of(NAME)
    log = plain_store.records(store)
    ends = {record.physical_offset + record.size for record in log}
    blanks = sorted(ends - {record.physical_offset for record in log})[:-1]
    assert blanks
    assert [] == _messages(store, "full", 0, blanks[0])


def test_expired(copy_of: Callable[[str], Path]) -> None:
    """The oldest epoch may begin before the log; one that ends there is left over."""
    store = copy_of("rocketmq-5.3.3-expired")
    first = plain_store.records(store)[0].physical_offset
    assert first
    assert [] == _messages(store, "full", 0, first)
    assert ["epoch 1 ends before the log begins"] == _messages(store, "full", 0, first // 2, first)
