"""What a release does not read of a store is named, and real brokers of it do not read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from rmqtool.formats.config_shapes import topics
from rmqtool.startup import predict
from rmqtool.startup.prediction import Prediction
from rmqtool.store.tree import open_store
from tests.broker.broker import conf_text
from tests.broker.stopping import stop
from tests.startup.oracle import Oracle
from tests.startup.test_against_stores import ALWAYS
from tests.startup.test_whole_broker import controller
from tests.stores import FIXTURES, broker_conf, fixture_store, manifest

if TYPE_CHECKING:
    from pathlib import Path

METADATA: Final = ["topics", "consumer groups"]
OFFSETS: Final = "consumer offsets"
QUEUES: Final = "queues in RocksDB"
OLD: Final = {"4.9.3": [QUEUES, *METADATA], "5.1.4": [QUEUES]}
OF_STORE: Final = ["transactions in RocksDB", "key index in RocksDB"]
ATTRIBUTES: Final = "attributes of topics"
UNREAD: Final[dict[str, dict[str, list[str]]]] = {
    "4.9.3-traffic": {},
    "5.3.3-traffic": {"4.9.3": ["records of version 2"]},
    "5.3.3-batch-queue": {"4.9.3": ["batch queues", ATTRIBUTES]},
    "5.3.3-compaction": {"4.9.3": ["compacted topics", ATTRIBUTES]},
    "5.3.3-timer": {"4.9.3": ["timers"]},
    "5.3.3-rocksdb": OLD,
    "5.3.3-rocksdb-pop": {version: ["pop state in RocksDB"] for version in ("4.9.3", "5.1.4")},
    "5.5.0-rocksdb": OLD,
    "5.5.0-lmq": {
        "4.9.3": ["lite topics"],
        "5.1.4": ["lite topics"],
        "5.3.3": ["lite topics"],
    },
    "5.5.0-rocksdb-combined": {
        version: [QUEUES, "lite topics"] for version in ("4.9.3", "5.1.4", "5.3.3")
    },
    "5.5.0-rocksdb-single": {
        "4.9.3": [QUEUES, *METADATA, OFFSETS],
        "5.1.4": [QUEUES, *METADATA, OFFSETS],
        "5.3.3": [*METADATA, OFFSETS],
    },
    "5.5.0-rocksdb-v2": {version: [QUEUES, *METADATA, OFFSETS] for version in ("4.9.3", "5.1.4")},
    "5.5.1-rocksdb-selective": {
        "4.9.3": [QUEUES, "lite topics", ATTRIBUTES],
        "5.1.4": [QUEUES, "lite topics"],
        "5.3.3": [QUEUES, "lite topics"],
    },
    "5.5.0-rocksdb-store": {
        "4.9.3": ["timers", *OF_STORE],
        "5.1.4": ["timers in RocksDB", *OF_STORE],
        "5.3.3": ["timers in RocksDB", *OF_STORE],
    },
}
"""Parts by release; releases that are not named read all of it."""
OF_SCENARIOS: Final[dict[str, dict[str, list[str]]]] = {
    **{
        scenario: UNREAD[f"5.3.3-{scenario}"]
        for scenario in ("batch-queue", "compaction", "rocksdb-pop", "timer", "traffic")
    },
    "compaction-run": UNREAD["5.3.3-compaction"],
    "rocksdb": OLD,
    "rocksdb-crash": {**OLD, "4.9.3": [*OLD["4.9.3"], OFFSETS]},
    "rocksdb-expired": OLD,
    "rocksdb-v2": UNREAD["5.5.0-rocksdb-v2"],
}
"""The same of the other fixtures of a scenario, whichever release wrote them."""
RELEASES: Final = ("4.9.3", "5.1.4", "5.3.3", "5.5.0", "5.5.1")
OPENED: Final = ("5.3.3-rocksdb", "5.5.0-rocksdb", "5.5.0-rocksdb-pop", "5.5.0-rocksdb-combined")
WITH_METADATA: Final = ("5.3.3-rocksdb", "5.5.0-rocksdb-single", "5.5.0-rocksdb-v2")
STORES: Final = [
    path.name.removeprefix("rocketmq-")
    for path in sorted(FIXTURES.glob("rocketmq-*"))
    if not path.name.endswith(("dledger", "default-geometry"))
]


@pytest.fixture
def root(fixture: str, tmp_path: Path) -> Path:
    """Give the store of a fixture."""
    return fixture_store(f"rocketmq-{fixture}", tmp_path)


@pytest.mark.parametrize("fixture", STORES)
def test_reads_its_own(fixture: str, root: Path) -> None:
    """The release that wrote a store, with its own broker.conf, leaves nothing of it unread."""
    name = f"rocketmq-{fixture}"
    prediction = predict(open_store(root, broker_conf(name)), manifest(name)["version"])
    assert prediction.unread == ()


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize(
    "fixture",
    [
        pytest.param(name, marks=() if name in UNREAD else pytest.mark.all_variants)
        for name in STORES
    ],
)
def test_parts(fixture: str, version: str, root: Path) -> None:
    """With the file of the release that wrote it, and without one, the same parts stay unread."""
    known = UNREAD.get(fixture) or OF_SCENARIOS.get(fixture.partition("-")[2], {})
    expected = [] if version == fixture.partition("-")[0] else known.get(version, [])
    for conf in (None, broker_conf(f"rocketmq-{fixture}")):
        prediction = predict(open_store(root, conf), version)
        assert [one.part for one in prediction.unread] == expected
        assert not (expected and prediction.is_whole)


def test_settings_switch_off(tmp_path: Path) -> None:
    """What a release knows and its broker.conf does not switch on stays unread, too."""
    root = fixture_store("rocketmq-5.5.0-rocksdb", tmp_path)
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=131072\nmappedFileSizeConsumeQueue=2000\n")
    prediction = predict(open_store(root, conf), "5.5.0")
    assert [one.part for one in prediction.unread] == [QUEUES, *METADATA]


def test_unknown_is_not_fine(tmp_path: Path) -> None:
    """A directory or a JSON file that no table has is named: nobody knows who reads it."""
    root = fixture_store("rocketmq-5.3.3-crash", tmp_path)
    (root / "newstore").mkdir()
    (root / "config" / "newManager.json").write_text("{}")
    prediction = predict(open_store(root), "5.5.0")
    unread = [(one.part, one.path) for one in prediction.unread]
    assert unread == [("not known", "config/newManager.json"), ("not known", "newstore")]
    assert not prediction.is_whole


def predicted(root: Path, name: str, version: str, more: dict[str, object]) -> Prediction:
    """Predict a start with the settings of a fixture and more."""
    conf = root.with_name("broker.conf")
    conf.write_text(conf_text({**manifest(name)["settings"], **ALWAYS, **more}))
    return predict(open_store(root, conf), version)


@pytest.mark.broker
@pytest.mark.parametrize("fixture", OPENED)
def test_delivers(fixture: str, root: Path, oracle: Oracle) -> None:
    """A real message store that does not read queues in RocksDB delivers what was predicted."""
    name, version = f"rocketmq-{fixture}", oracle.jvm.version
    # Releases before 5.2.0 know neither; the others would read RocksDB.
    switches = {"storeType": "default", "rocksdbCQDoubleWriteEnable": False}
    prediction = predicted(root, name, version, switches)
    expected = {(queue.topic, queue.queue_id): queue.readable for queue in prediction.queues}
    settings = {**manifest(name)["settings"], **ALWAYS, **switches}
    seen = oracle.observe(root, settings, expected)
    assert seen.loaded
    assert {key: count for key, count in seen.delivered.items() if count} == {
        key: count for key, count in expected.items() if count
    }


@pytest.mark.broker
@pytest.mark.parametrize("fixture", WITH_METADATA)
def test_topics(fixture: str, root: Path, oracle: Oracle) -> None:
    """A real broker knows the topics of a store, or it does not, as predicted."""
    name, version = f"rocketmq-{fixture}", oracle.jvm.version
    places = {"storePathRootDir": root, "storePathCommitLog": root / "commitlog"}
    prediction = predicted(root, name, version, dict(places))
    unread = any(one.part == "topics" for one in prediction.unread)
    known = {topic.topic for topic in topics(open_store(root).config("topics.json").document)}
    broker = controller(oracle, {**manifest(name)["settings"], **ALWAYS, **places})
    assert (broker is None) == bool(prediction.refusals)
    if broker is None:
        return
    configs = broker.getTopicConfigManager()
    # A broker makes some by itself.
    wanted = {topic for topic in known if topic.startswith(("rocksdb", "meta"))} or known
    assert wanted
    found = {topic for topic in wanted if configs.selectTopicConfig(topic) is not None}
    stop(oracle.jvm, broker.getMessageStore())
    assert found == (set() if unread else wanted)
