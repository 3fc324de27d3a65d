"""Rebuilt ext units are those of real brokers; where one cannot be, the plain tags code stays."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rmqtool import rebuild
from rmqtool.errors import UsageError
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE
from rmqtool.formats.consume_queue_ext import decode, is_ext_address, real_offset
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.undo import undo
from tests.evidence import Evidence, snapshot
from tests.rebuild.test_identity import files_of
from tests.stores import broker_conf, fixture_names, fixture_store

FAMILIES = ("consumequeue", "consumequeue_ext")
NAME = "rocketmq-5.5.0-ext"


def contents(root: Path) -> dict[str, bytes]:
    """Give the bytes of queues and ext files."""
    return {path: file.read_bytes() for path, file in files_of(root, *FAMILIES).items()}


@pytest.mark.parametrize("name", fixture_names(scenario="ext"))
def test_identity(name: str, tmp_path: Path, evidence: Evidence) -> None:
    """Queues and ext files are those of the broker, byte for byte: addresses, bits, ends of files.

    Subscriptions that came and went while messages were stored are all still in the fixture's
    configuration, which need not be so in life.
    """
    store = fixture_store(name, tmp_path)
    evidence.keep(store)
    result = rebuild.consume_queues(
        store, tmp_path / "new", ext=True, broker_conf=str(broker_conf(name))
    )
    assert (True, 0) == (result.is_complete, result.not_understood)
    assert files_of(store, "consumequeue_ext")
    assert contents(store) == contents(tmp_path / "new")


def test_in_place(tmp_path: Path) -> None:
    """In place both families are swapped, a rerun changes nothing, and undo gives the old ones."""
    store = fixture_store(NAME, tmp_path)
    expected = contents(store)
    torn = files_of(store, "consumequeue_ext")
    next(iter(torn.values())).unlink()
    shutil.rmtree(store / "consumequeue")
    before, conf = snapshot(store), str(broker_conf(NAME))
    result = rebuild.consume_queues(store, in_place=True, ext=True, broker_conf=conf)
    assert expected == contents(store)
    assert "" == rebuild.consume_queues(store, in_place=True, ext=True, broker_conf=conf).undo
    with StoreLock(store) as lock:
        undo(lock, result.undo)
    assert before == snapshot(store)


def test_topic(tmp_path: Path) -> None:
    """Only the queues of a topic get their files."""
    store = fixture_store(NAME, tmp_path)
    rebuild.consume_queues(
        store, tmp_path / "new", topic="ext-orders", ext=True, broker_conf=str(broker_conf(NAME))
    )
    expected = {path: raw for path, raw in contents(store).items() if "/ext-orders/" in path}
    assert expected == contents(tmp_path / "new")


def test_not_understood(tmp_path: Path) -> None:
    """An expression that is not understood sets its bits for each message: nothing gets lost."""
    store = fixture_store(NAME, tmp_path)
    path = store / "config" / "consumerFilter.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    groups = document["filterDataByTopic"]["ext-orders"]["groupFilterData"]
    groups["ext-rich"]["expression"] = "amount LIKE '7%'"
    path.write_text(json.dumps(document), encoding="utf-8")
    result = rebuild.consume_queues(
        store, tmp_path / "new", ext=True, broker_conf=str(broker_conf(NAME))
    )
    assert 1 == result.not_understood
    bits = groups["ext-rich"]["bloomFilterData"]["bitPos"]
    maps = [one for one in bit_maps(tmp_path / "new", "ext-orders/0") if one]
    assert maps
    assert all(one[bit // 8] >> bit % 8 & 1 for one in maps for bit in bits)


def bit_maps(root: Path, queue: str) -> list[bytes]:
    """Give the bitmap of each unit of a queue."""
    raw = b"".join(
        path.read_bytes() for path in sorted((root / "consumequeue_ext" / queue).iterdir())
    )
    found = []
    for path in sorted((root / "consumequeue" / queue).iterdir()):
        units = path.read_bytes()
        for at in range(0, len(units), CQ_UNIT_SIZE):
            tags_code = CQ_UNIT.parse(units[at : at + CQ_UNIT_SIZE])["tags_code"]
            if is_ext_address(tags_code):
                unit = decode(raw[real_offset(tags_code) :])
                assert unit is not None
                found.append(unit.bit_map)
    return found


def test_short_files(tmp_path: Path) -> None:
    """Files too short for a unit hold none, and units keep their plain tags codes."""
    store = fixture_store(NAME, tmp_path)
    conf = tmp_path / "broker.conf"
    text = broker_conf(NAME).read_text(encoding="utf-8")
    conf.write_text(f"{text}\nmappedFileSizeConsumeQueueExt=20\n", encoding="utf-8")
    shutil.rmtree(store / "consumequeue_ext")
    rebuild.consume_queues(store, tmp_path / "e", ext=True, broker_conf=str(conf))
    rebuild.consume_queues(store, tmp_path / "p", broker_conf=str(conf))
    plain = files_of(tmp_path / "p", "consumequeue")
    assert {path: file.read_bytes() for path, file in plain.items()} == {
        path: raw for path, raw in contents(tmp_path / "e").items() if "_ext" not in path
    }


def test_check_is_refused(tmp_path: Path) -> None:
    """A comparison needs no ext units: it compares what units mean."""
    with pytest.raises(UsageError, match="--ext"):
        rebuild.consume_queues(tmp_path, check=True, ext=True)
