"""Extensions that Java cannot read: the pulls that meet them fail, and what was before is had."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.consume_queue_ext import EXT_UNIT, real_offset
from rmqtool.queues.kinds import as_units
from tests.inflict import write_at
from tests.startup.oracle import Oracle
from tests.startup.test_against_stores import ALWAYS, compare, predicted
from tests.stores import fixture_before, fixture_store, manifest

pytestmark = pytest.mark.broker

NUMBER = 73  # of the unit whose bitmap would end far past its file
PULL = 32
LONGEST = b"\x7f\xff"


def _spoil(root: Path) -> None:
    queue = next((root / "consumequeue/ext-orders/0").iterdir())
    unit = as_units(queue.with_name(f"{0:020}").read_bytes(), CQ_UNIT)[NUMBER]
    place = real_offset(int(unit["tags_code"]))
    path = root / f"consumequeue_ext/ext-orders/0/{place // 3000 * 3000:020}"
    write_at(path, place % 3000 + EXT_UNIT["bit_map_size"].end - len(LONGEST), LONGEST)


def test_pulls_fail(oracle: Oracle, tmp_path: Path) -> None:
    """Whole pulls before the unit are handed out, nothing after them; other queues are not hurt."""
    name = fixture_before(oracle.jvm.version, "ext")
    (tmp_path / "kept").mkdir()
    root = fixture_store(name, tmp_path / "kept")
    settings = {**manifest(name)["settings"], **ALWAYS}
    sound = _readable(root, oracle.jvm.version, settings)
    _spoil(root)
    told = _readable(root, oracle.jvm.version, settings)
    assert told == sound | {("ext-orders", 0): NUMBER // PULL * PULL}
    opened = tmp_path / "opened"
    shutil.copytree(root, opened)
    compare(oracle, root, opened, settings)


def _readable(root: Path, version: str, settings: dict[str, object]) -> dict[tuple[str, int], int]:
    queues = predicted(root, version, settings).queues
    return {(queue.topic, queue.queue_id): queue.readable for queue in queues}
