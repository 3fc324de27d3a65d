"""Extensions that a start after a crash appends to: where older units then lead."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from rmqtool.formats.consume_queue_ext import EXT_UNIT, address
from rmqtool.startup import Prediction
from rmqtool.startup.extension import Extension, ExtensionRules
from tests import inflict
from tests.startup.oracle import Oracle
from tests.startup.test_against_stores import ALWAYS, compare, predicted
from tests.stores import fixture_before, fixture_store, manifest

QUEUE: Final = "ext-orders", 0
LENGTH: Final = 100  # of a file: a unit of 20 bytes, three more, and the end mark


def _crashed(name: str, place: Path) -> Path:
    """Zero units in the queue, the first one but for some bytes: its address is now that of 0."""
    root = fixture_store(name, place)
    inflict.write_at(root / "consumequeue/ext-orders/0/00000000000000002000", 1536, bytes(464))
    (root / "abort").touch()
    return root


def _foretold(root: Path, name: str) -> Prediction:
    return predicted(root, name.split("-")[1], {**manifest(name)["settings"], **ALWAYS})


def test_overwritten(tmp_path: Path) -> None:
    """Recovery cuts at the newest address; what is appended there is no unit for older ones."""
    name = "rocketmq-5.5.0-ext"
    told = {
        (queue.topic, queue.queue_id): queue
        for queue in _foretold(_crashed(name, tmp_path), name).queues
    }
    assert (0, 180) == (told[QUEUE].readable, told[QUEUE].maximum)
    assert 180 == told["ext-orders", 1].readable


@pytest.mark.broker
def test_overwritten_for_a_store(oracle: Oracle, tmp_path: Path) -> None:
    """A real message store delivers what is foretold."""
    name = fixture_before(oracle.jvm.version, "ext")
    (tmp_path / "kept").mkdir()
    root = _crashed(name, tmp_path / "kept")
    opened = tmp_path / "opened"
    shutil.copytree(root, opened)
    compare(oracle, root, opened, {**manifest(name)["settings"], **ALWAYS})


def test_appended() -> None:
    """A file that has no room for a unit gets an end mark, and the next one begins."""
    extension = ExtensionRules(LENGTH, {}).new("orders", 0)
    places = [extension.put(7, 1000) for _ in range(6)]
    assert [address(at) for at in (0, 20, 40, 60, 100, 120)] == places
    with extension.files.files[0].open() as reader:
        assert -1 == EXT_UNIT["size"].of(reader.read_at(80, EXT_UNIT.size))
    extension.delete_before(address(101))
    assert ["consumequeue_ext/orders/0/00000000000000000100"] == extension.files.created


def test_bit_maps_take_room() -> None:
    """A unit is as long as the bitmap of its topic; one that is longer than its file has none."""
    assert address(28) == _second(ExtensionRules(LENGTH, {"orders": 8}).new("orders", 0))
    assert _second(ExtensionRules(LENGTH, {"orders": 80}).new("orders", 0)) is None


def _second(extension: Extension) -> int | None:
    extension.put(7, 1000)
    return extension.put(7, 1000)
