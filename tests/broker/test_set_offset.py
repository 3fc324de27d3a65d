"""A real broker loads offsets that `repair --set-offset` has set, as it loads its own."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.cli.main import main
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests.broker.jvm import Jvm
from tests.broker.test_broker_json import loaded
from tests.repair.repaired import traces
from tests.stores import broker_conf, fixture_store, manifest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

NAMES = {
    "5.3.3": "rocketmq-5.3.3-traffic",
    "5.5.0": "rocketmq-5.5.0-traffic",
}


def of_group(table: dict[str, Any], group: str) -> dict[str, Any]:
    """Give the offsets of a group by topic."""
    pairs = ((key.partition("@"), offsets) for key, offsets in table.items())
    return {topic: offsets for (topic, _, whose), offsets in pairs if whose == group}


@pytest.mark.parametrize("version", NAMES)
def test_loaded(version: str, tmp_path: Path) -> None:
    """One group is at its end, a new one is like another, one is gone; the rest is as it was."""
    (tmp_path / "jvm").mkdir()
    store = fixture_store(NAMES[version], tmp_path)
    settings = manifest(NAMES[version])["settings"]
    topic = "traffic-orders"
    table = open_store(str(store)).config("consumerOffset.json").document["offsetTable"]
    before = {key: {int(one): at for one, at in queues.items()} for key, queues in table.items()}
    changes = ["traffic-slow=last", "copy=like:traffic-reader", "traffic-reader=none"]
    words = [word for change in changes for word in ("--set-offset", change)]
    assert 0 == main(["repair", str(store), "--in-place", "--yes", "--quiet", *words])
    with Jvm(version, tmp_path / "jvm") as jvm:
        after = loaded(jvm, store, settings)["offsets"]
    reader = {
        key.partition("@")[0]: value for key, value in before.items() if "traffic-reader" in key
    }
    assert reader == {
        key.partition("@")[0]: value for key, value in after.items() if "@copy" in key
    }
    assert not [key for key in after if key.endswith("@traffic-reader")]
    assert all(
        after[f"{topic}@traffic-slow"][queue] > number
        for queue, number in before[f"{topic}@traffic-slow"].items()
    )
    kept = {key for key in before if "traffic-slow" not in key and "traffic-reader" not in key}
    assert {key: before[key] for key in kept} == {key: after[key] for key in kept}


ROCKSDB = {"5.3.3": "rocketmq-5.3.3-rocksdb", "5.5.0": "rocketmq-5.5.0-rocksdb"}


@pytest.mark.parametrize("version", ROCKSDB)
def test_loaded_from_rocksdb(version: str, tmp_path: Path) -> None:
    """Offsets in RocksDB are set by a file that brokers take into a new database, once."""
    (tmp_path / "jvm").mkdir()
    name = ROCKSDB[version]
    store, conf = fixture_store(name, tmp_path), str(broker_conf(name))
    before = traces(store)
    repair = ["repair", str(store), "--broker-conf", conf, "--quiet"]
    change = [
        "--set-offset",
        "reader@rocksdb-orders=last",
        "--set-offset",
        "slow@rocksdb-orders:0=7",
    ]
    assert 0 == main([*repair, "--in-place", "--yes", *change])
    ends = {int(queue.queue_id): queue.maximum for queue in predict(open_store(store, conf)).queues}
    wanted = {"rocksdb-orders@reader": ends, "rocksdb-orders@slow": {0: 7}}
    told = open_store(str(store), conf).config("consumerOffset.json").document["offsetTable"]
    assert wanted == {key: {int(one): at for one, at in own.items()} for key, own in told.items()}
    assert 0 == main(["validate", str(store), "--broker-conf", conf, "--quiet"])
    copy = tmp_path / "copy" / "store"
    shutil.copytree(store, copy)
    settings = manifest(name)["settings"]
    for turn in ("first", "second"):  # the second start has the database that the first made
        (tmp_path / turn).mkdir()
        with Jvm(version, tmp_path / turn) as jvm:
            assert wanted == loaded(jvm, copy, settings)["offsets"]
    assert 0 == main(["repair", str(store), "--undo", "--quiet", "--broker-conf", conf])
    assert before == traces(store)


@pytest.mark.parametrize("name", ["rocketmq-5.5.0-rocksdb-single", "rocketmq-5.5.0-rocksdb-v2"])
def test_more_than_offsets(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A database that has topics and groups, too, stays as it is."""
    store = fixture_store(name, tmp_path)
    before = traces(store)
    words = ["--set-offset", "metadata-reader=first", "--broker-conf", str(broker_conf(name))]
    assert 2 == main(["repair", str(store), "--in-place", "--yes", "--quiet", *words])
    assert "has topics and groups, too: set offsets with mqadmin" in capfd.readouterr().err
    assert before == traces(store)
