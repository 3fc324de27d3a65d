"""Timers that wait in the timer log, and the wheel through which a broker finds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from rmqtool import repair
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests import inflict
from tests.check.validation import run

NAME: Final = "rocketmq-5.3.3-timer"
EARLIER_MS: Final = 25_000  # then timers of the oldest file wait, too


def _zero(wheel: Path) -> None:
    wheel.write_bytes(bytes(wheel.stat().st_size))


@pytest.mark.parametrize("harm", [_zero, Path.unlink], ids=["zeroed", "gone"])
def test_waiting_timers_without_slots(
    harm: Callable[[Path], None], copy_of: Callable[[str], Path]
) -> None:
    """A wheel of zeros, or none, is damage where a start does not read the timers again."""
    store = copy_of(NAME)
    inflict.edit_integer("config/timercheck", 0, 8, lambda old: old - EARLIER_MS)(store)
    before = predict(open_store(store), "5.3.3")
    assert (before.timers > 2, before.timers_lost) == (True, 0)
    harm(store / "timerwheel")
    (finding,) = (finding for finding in run(store)[0] if finding.severity != "note")
    after = predict(open_store(store), "5.3.3")
    assert ("TW-LOST", before.timers) == (finding.code, after.timers)
    assert finding.message.startswith(f"{after.timers_lost} waiting timer message")
    assert 0 < after.timers_lost < after.timers
    repair.apply(repair.plan(store), in_place=True)
    assert [] == [finding for finding in run(store)[0] if finding.severity != "note"]
    assert 0 == predict(open_store(store), "5.3.3").timers_lost
    assert [] == repair.plan(store).edits


def test_wheel_that_a_start_makes_anew(copy_of: Callable[[str], Path]) -> None:
    """Nothing is lost with the wheel where a start reads all that waits in the timer log."""
    store = copy_of(NAME)
    (store / "timerwheel").unlink()
    assert [] == [finding for finding in run(store)[0] if finding.severity != "note"]


@pytest.mark.parametrize(("version", "lost"), [("4.9.3", 2), ("5.0.0", 0), ("5.5.0", 0)])
def test_release_without_timers(version: str, lost: int, copy_of: Callable[[str], Path]) -> None:
    """Before 5.0.0 no broker knows timers: a start of such a one loses what waits."""
    prediction = predict(open_store(copy_of(NAME)), version)
    assert (2, lost) == (prediction.timers, prediction.timers_lost)
    assert prediction.loses is bool(lost)
