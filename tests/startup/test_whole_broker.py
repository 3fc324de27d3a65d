"""What a whole broker loads beside the message store stops it as foretold, or does not."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from py4j.protocol import Py4JJavaError

from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests.broker.broker import conf_text
from tests.broker.jars import BARE
from tests.startup import harm
from tests.startup.oracle import Oracle
from tests.startup.small_store import SETTINGS

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

pytestmark = pytest.mark.broker

TORN: Final = b'{\n\t"dataVersion":{\n\t\t"counter":'
LOADED, READ_FROM = "combineCQLoadingCQTypes", "combineCQPreferCQType"
OFFSETS_BY, ROCKSDB = "combineAssignOffsetCQType", "defaultRocksDB"
BOTH: Final[dict[str, object]] = {"rocksdbCQDoubleWriteEnable": True}
LIGHT: Final = {**BOTH, "combineCQUseRocksdbForLmq": True}
SELECTIVE: Final = {**LIGHT, "rocksdbCQSelectiveDoubleWriteEnable": True}
TIMER: Final[dict[str, object]] = {"timerWheelEnable": True, "mappedFileSizeTimerLog": 5200}


@dataclass(frozen=True, slots=True)
class Case:
    """A store, and which kinds of brokers refuse it.

    Attributes:
        name: unique.
        steps: what is done to the store.
        refused_by: beginnings of versions.
        settings: of the broker.conf beyond the geometry.
        in_sample: whether it is loaded in each run.
    """

    name: str
    steps: tuple[harm.Harm, ...] = ()
    refused_by: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    in_sample: bool = False

    def __str__(self) -> str:
        return self.name


def torn(
    name: str, backup: bytes | None = TORN, text: bytes | None = TORN
) -> tuple[harm.Harm, ...]:
    """Leave a configuration file that ends early, or with another text, and a backup."""
    steps = [] if text is None else [harm.touch(f"config/{name}", text)]
    if backup is not None:
        steps.append(harm.touch(f"config/{name}.bak", backup))
    return tuple(steps)


ALL: Final = ("4.9", "5.")
COMBINING: Final = ("5.3.4", "5.4", "5.5")
EAGER: Final = ("5.3.4", "5.4")  # they recover queues that were never written
SHORT_WHEEL: Final = (harm.touch("timerwheel", b"x" * 64),)
SHORT_TIMER_LOG: Final = (harm.touch(f"timerlog/{0:020}", b"x" * 52),)
CASES: Final = (
    Case("untouched"),
    Case("topics torn, no backup", torn("topics.json", None)),
    Case("topics torn, empty backup", torn("topics.json", b"")),
    Case("topics torn, good backup", torn("topics.json", b"{}")),
    Case("topics torn, backup torn", torn("topics.json"), ALL, in_sample=True),
    Case("topics a brace", torn("topics.json", b"{", b"{"), ALL),
    Case("topics of markup", torn("topics.json", b"<nil>", b"<nil>"), ALL),
    Case("topics zeros", torn("topics.json", bytes(64), bytes(64)), ALL, in_sample=True),
    Case("topics zeros, no backup", torn("topics.json", None, bytes(64))),
    Case("topics, zeros past them", torn("topics.json", TORN, b"{}" + bytes(64)), in_sample=True),
    Case("topics null", torn("topics.json", TORN, b"null")),
    Case("topics blank twice", torn("topics.json", b" \n", b" \n"), ("5.4", "5.5")),
    Case("no topics, backup torn", torn("topics.json", TORN, None), ALL),
    Case("empty topics, backup torn", torn("topics.json", TORN, b""), ALL),
    Case("consumer offsets torn twice", torn("consumerOffset.json"), ALL),
    Case("groups torn twice", torn("subscriptionGroup.json"), ALL),
    Case("filters torn twice", torn("consumerFilter.json"), ALL),
    Case("delay offsets torn twice", torn("delayOffset.json"), ALL),
    Case("order info torn twice", torn("consumerOrderInfo.json"), ("5.",)),
    Case("queue mapping torn twice", torn("topicQueueMapping.json"), ("5.",)),
    Case("wheel short", SHORT_WHEEL, ("5.",), TIMER),
    Case("wheel empty", (harm.touch("timerwheel"),), (), TIMER),
    Case("wheel short, no timer", SHORT_WHEEL),
    Case("RocksDB loaded alone", (), COMBINING, {**BOTH, LOADED: ROCKSDB}, in_sample=True),
    Case("nothing known loaded", (), COMBINING, {**BOTH, LOADED: "rocks"}),
    Case("read from what is not known", (), COMBINING, {**BOTH, READ_FROM: "rocksdb"}),
    Case("light queues, offsets of RocksDB", (), ("5.5",), {**LIGHT, OFFSETS_BY: ROCKSDB}),
    Case("light queues, files loaded alone", (), ("5.5",), {**LIGHT, LOADED: "default"}),
    Case("light queues", settings=LIGHT),
    Case("light queues not in RocksDB", (), ("5.5",), BOTH, in_sample=True),
    Case("RocksDB new and read", (), EAGER, {**LIGHT, READ_FROM: ROCKSDB}),
    Case("selective, read from it", (), (*EAGER, "5.5.1"), {**SELECTIVE, READ_FROM: ROCKSDB}),
    Case("selective", settings=SELECTIVE),
    Case("contradictions without double write", settings={LOADED: "rocks", OFFSETS_BY: "rocks"}),
    Case("timer log short", SHORT_TIMER_LOG, ("5.",), TIMER),
)


@pytest.mark.parametrize("variant", CASES, ids=str)
def test_broker(
    oracle: Oracle, small_stores: dict[str, Path], variant: Case, tmp_path: Path
) -> None:
    """A broker initialises, or refuses to."""
    root = tmp_path / "store"
    shutil.copytree(small_stores["clean"], root)
    (root / "config").mkdir(exist_ok=True)
    for step in variant.steps:
        step(root)
    places = {"storePathRootDir": root, "storePathCommitLog": root / "commitlog"}
    settings = {**SETTINGS, **variant.settings, **places}
    conf = tmp_path / "broker.conf"
    conf.write_text(conf_text(settings), encoding="utf-8")
    refusals = predict(open_store(root, conf), oracle.jvm.version).refusals
    is_refused = any(oracle.jvm.version.startswith(version) for version in variant.refused_by)
    assert is_refused == bool(refusals)
    assert is_refused != initialises(oracle, settings)


def initialises(oracle: Oracle, settings: Mapping[str, object]) -> bool:
    """Let a real broker load everything, and say whether it is content."""
    return controller(oracle, settings) is not None


def controller(oracle: Oracle, settings: Mapping[str, object]) -> JavaObject | None:
    """Give a real broker that has loaded everything; None where it refuses."""
    jvm = oracle.jvm
    if jvm.version in BARE:
        pytest.skip(f"of {jvm.version} there is a message store, and no whole broker")
    properties = jvm.properties(settings)
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
    try:
        found = jvm.rocketmq("broker.BrokerController")(*configs)
        return found if found.initialize() else None
    except Py4JJavaError as error:  # 5.1 lets it out; so do all of a version in RocksDB
        if "java.lang.NoSuch" in str(error) or "java.lang.NoClass" in str(error):
            raise  # the jars do not go together, which refuses nothing
        return None
