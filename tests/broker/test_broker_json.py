"""A broker with JSON metadata loads from written files what one with RocksDB loads from its own."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

import pytest

from rmqtool.tables.broker_json import write_broker_json
from tests.broker.jvm import Jvm
from tests.stores import broker_conf, fixture_store, manifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from py4j.java_gateway import JavaObject

pytestmark = pytest.mark.broker

STORES: Final = {
    "5.3.3": ("rocketmq-5.3.3-rocksdb-v2", "rocketmq-5.3.3-rocksdb-crash"),
    "5.5.0": ("rocketmq-5.5.0-rocksdb-single",),
}
ROCKSDB: Final = ("storeType", "configManagerVersion", "useSingleRocksDBForAllConfigs")


@pytest.mark.parametrize("version", STORES)
def test_brokers_agree(version: str, tmp_path: Path) -> None:
    """Topics, groups, offsets and versions are those of the database, of v1, single and v2."""
    (tmp_path / "jvm").mkdir()
    with Jvm(version, tmp_path / "jvm") as jvm:
        for name in STORES[version]:
            place = tmp_path / name
            place.mkdir()
            root = fixture_store(name, place)
            settings = dict(manifest(name)["settings"])
            out = place / "new"
            write_broker_json(str(root), str(broker_conf(name)), str(out))
            in_rocksdb = loaded(jvm, root, settings)
            for option in ROCKSDB:
                settings.pop(option, None)
            (place / "json").mkdir()
            shutil.copytree(out, place / "json" / "config")
            in_json = loaded(jvm, place / "json", settings)
            assert in_rocksdb["offsets"]
            assert in_rocksdb["groups"]
            assert in_rocksdb == in_json


def loaded(jvm: Jvm, root: Path, settings: Mapping[str, object]) -> dict[str, Any]:
    """Let a real broker load everything, and give what its managers then hold."""
    return dict(_managers(controller_of(jvm, root, settings)))


def controller_of(jvm: Jvm, root: Path, settings: Mapping[str, object]) -> JavaObject:
    """Let a real broker load everything."""
    places = {"storePathRootDir": root, "storePathCommitLog": root / "commitlog"}
    properties = jvm.properties({**settings, "timerWheelEnable": False, **places})
    configs = [
        jvm.rocketmq(name)()
        for name in (
            "common.BrokerConfig",
            "remoting.netty.NettyServerConfig",
            "remoting.netty.NettyClientConfig",
            "store.config.MessageStoreConfig",
        )
    ]
    for config in configs:
        jvm.rocketmq("common.MixAll").properties2Object(properties, config)
    controller = jvm.rocketmq("broker.BrokerController")(*configs)
    assert controller.initialize()
    return controller


def _managers(controller: JavaObject) -> Iterator[tuple[str, object]]:
    topics = controller.getTopicConfigManager()
    groups = controller.getSubscriptionGroupManager()
    offsets = controller.getConsumerOffsetManager()
    yield "topics", _texts(topics.getTopicConfigTable())
    yield "groups", _texts(groups.getSubscriptionGroupTable())
    yield "forbidden", _texts(groups.getForbiddenTable())
    yield (
        "offsets",
        {
            pair: {int(queue): int(number) for queue, number in queues.items()}
            for pair, queues in offsets.getOffsetTable().items()
        },
    )
    yield "counter", int(topics.getDataVersion().getCounter())


def _texts(table: JavaObject) -> dict[str, str]:
    return {name: str(value) for name, value in table.items()}
