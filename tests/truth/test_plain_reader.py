"""The comparison itself: a byte that is not the broker's is noticed, wherever it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from construct import ConstructError

from rmqtool.errors import DecodeError
from tests.stores import fixture_names, fixture_store
from tests.truth import test_fixtures_truth as truth
from tests.truth.fixture import Fixture

QUEUE = "consumequeue/traffic-orders/0/00000000000000000000"
LOG = "commitlog/00000000000000000000"
DAMAGES: dict[str, tuple[str, int, Callable[[Fixture], None]]] = {
    "physical offset of a unit": (QUEUE, 7, truth.test_consume_queues),
    "tags code of a unit": (QUEUE, 20 + 19, truth.test_consume_queues),
    "unused space of a queue": (QUEUE, -1, truth.test_consume_queues),
    "begin in the index header": ("index", 7, truth.test_index),
    "count in the index header": ("index", 39, truth.test_index),
    "an index slot": ("index", 43, truth.test_index),
    "an index entry": ("index", -15, truth.test_index),
    "entry 0": ("index", 40 + 4 * 500, truth.test_index),
    "total size of a record": (LOG, 3, truth.test_consume_queues),
    "body or properties of a record": (LOG, 100, truth.test_sent),
    "store host of a record": (LOG, 67, truth.test_sent),
    "flag of a record": (LOG, 19, truth.test_sent),
}


@pytest.mark.parametrize(("path", "position", "compare"), DAMAGES.values(), ids=DAMAGES)
def test_noticed(
    path: str, position: int, compare: Callable[[Fixture], None], tmp_path: Path
) -> None:
    """One flipped bit makes the comparison fail, which passes without it."""
    name = fixture_names(scenario="traffic")[0]
    store = fixture_store(name, tmp_path)
    found = store / path
    file = min(found.iterdir()) if found.is_dir() else found
    raw = bytearray(file.read_bytes())
    raw[position] ^= 1
    file.write_bytes(raw)
    with pytest.raises((AssertionError, ConstructError, DecodeError, LookupError, ValueError)):
        compare(Fixture(name, store))
