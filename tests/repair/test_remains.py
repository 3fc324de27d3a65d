"""Records behind a gap: one damaged time does not make remains of a truncation of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from rmqtool import repair
from rmqtool.store.record_heads import TIME_TOLERANCE_MS, are_remains
from tests import inflict, plain_store
from tests.repair.broker.survivors import Truth
from tests.stores import broker_conf, fixture_store

NAMES: Final = ("rocketmq-5.3.3-traffic", "rocketmq-5.3.3-batch-queue", "rocketmq-4.9.3-traffic")
BEHIND: Final = 6  # records behind the gap
T: Final = 1_700_000_000_000
LATER: Final = T + TIME_TOLERANCE_MS + 1
FAR: Final = T + (1 << 46)


@pytest.mark.parametrize("flipped", [None, -1, 1], ids=["none", "before", "behind"])
@pytest.mark.parametrize("name", NAMES)
def test_kept(name: str, flipped: int | None, tmp_path: Path) -> None:
    """All that lies undamaged behind a gap survives a repair, whichever time beside it is wrong."""
    root = fixture_store(name, tmp_path)
    truth, log = Truth.of(root), plain_store.records(root)
    lost = log[-1 - BEHIND]
    assert lost.path == log[-1].path
    inflict.write_at(lost.path, lost.position, bytes(lost.size))
    if flipped is not None:
        beside = log[-1 - BEHIND + flipped]
        position, _ = beside.places()["store_timestamp"]
        # Up to the year 4200, or down to 1970.
        inflict.flip_bits(beside.path, beside.position + position + 2, 0x40 if flipped < 0 else 1)
    (root / "abort").touch()
    undamaged = truth.undamaged(root)
    plan = repair.plan(root, broker_conf=str(broker_conf(name)))
    repair.apply(plan, in_place=True)
    assert undamaged <= truth.undamaged(root)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((), (T,), False),
        ((LATER,), (T,), True),
        ((T,), (T,), False),
        ((T, FAR), (T,), False),
        ((T, T, FAR), (T, T, T), False),
        ((LATER, LATER, FAR), (T, T), True),
        ((LATER, LATER, 5), (T, T, T), True),
        ((LATER, LATER, LATER), (5, LATER), False),
        ((LATER, LATER, LATER), (5, LATER, LATER), False),
        ((LATER, LATER, LATER), (T, T, FAR), True),
        ((T,), (-1,), False),
    ],
)
def test_rule(before: Sequence[int], after: Sequence[int], *, expected: bool) -> None:
    """Of three times the middle counts, of two the one that keeps records."""
    assert expected == are_remains(before, after)
