"""Databases of topics, groups and offsets: real brokers start or refuse as predicted."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool import repair
from rmqtool.broker.names import is_made_by_brokers
from rmqtool.startup import predict
from rmqtool.store.place import Place
from rmqtool.store.rocksdb_manifest import read_manifest
from rmqtool.store.tree import open_store
from tests.broker.bare_store import YEARS_IN_HOURS
from tests.broker.broker import conf_text
from tests.broker.ports import free_ports
from tests.inflict import flip_bits
from tests.startup.test_whole_broker import controller
from tests.stores import FIXTURES, fixture_store, manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.startup.oracle import Oracle

    Harm = Callable[[Path], None]

pytestmark = pytest.mark.broker

OF_ROCKSDB: Final = frozenset({"5.3.3", "5.5.0"})
FOOTER: Final = 53  # bytes that end a table file
BUILT_IN: Final = 8  # topics that every broker makes


@dataclass(frozen=True, slots=True)
class Trial:
    """A store whose database of metadata is harmed.

    Attributes:
        scenario: of the fixture.
        path: of the database.
        name: of what is done.
        harm: does it to the directory; None where it has nothing of the kind.
        in_sample: whether it is done in each run.
    """

    scenario: str
    path: str
    name: str
    harm: Harm
    in_sample: bool = False

    def __str__(self) -> str:
        return f"{self.scenario} {self.path}: {self.name}"


def tables(directory: Path, family: int | None = None) -> list[Path]:
    """Give the live table files of a family, the newest last."""
    found = read_manifest(Place.of(directory)).tables.values()
    numbers = sorted(
        table_file.number for table_file in found if family in {None, table_file.family}
    )
    if not numbers:
        pytest.skip("no table")
    return [directory / f"{number:06}.sst" for number in numbers]


def rows_damaged(directory: Path) -> None:
    """Flip a bit of the rows in the newest table of the first family."""
    flip_bits(tables(directory, 0)[-1], 5, 1)


def version_damaged(directory: Path) -> None:
    """Flip a bit of the newest row of a version."""
    flip_bits(tables(directory, 1)[-1], 5, 1)


def old_version_damaged(directory: Path) -> None:
    """Flip a bit of an older row of a version."""
    paths = tables(directory, 1)
    if len(paths) == 1:
        pytest.skip("no older table")
    flip_bits(paths[0], 5, 1)


def index_damaged(directory: Path) -> None:
    """Flip a bit shortly before the footer."""
    path = tables(directory)[-1]
    flip_bits(path, path.stat().st_size - FOOTER - 20, 1)


def footer_damaged(directory: Path) -> None:
    """Flip a bit of the footer's magic number."""
    path = tables(directory)[0]
    flip_bits(path, path.stat().st_size - 1, 1)


def table_gone(directory: Path) -> None:
    """Delete a table."""
    tables(directory)[0].unlink()


def current_gone(directory: Path) -> None:
    """Delete CURRENT."""
    (directory / "CURRENT").unlink()


def manifest_gone(directory: Path) -> None:
    """Delete the MANIFEST that CURRENT names."""
    (directory / read_manifest(Place.of(directory)).name).unlink()


def current_astray(directory: Path) -> None:
    """Let CURRENT name a MANIFEST that is not there."""
    (directory / "CURRENT").write_text("MANIFEST-000999\n")


def gone(directory: Path) -> None:
    """Delete the database."""
    shutil.rmtree(directory)


HARMS: Final = (
    rows_damaged, version_damaged, old_version_damaged, index_damaged, footer_damaged, table_gone,
    current_gone, manifest_gone, current_astray, gone,
)  # fmt: skip
PLACES: Final = (
    ("rocksdb", "config/topics"),
    ("rocksdb", "config/subscriptionGroups"),
    ("rocksdb-expired", "config/consumerOffsets"),
    ("rocksdb-crash", "config/topics"),
    ("rocksdb-v2", "config/rdb"),
    ("rocksdb-single", "config/metadata"),
    ("rocksdb", "consumequeue"),
)
SAMPLE: Final = frozenset(
    {
        *(("rocksdb", "config/topics", harm) for harm in (rows_damaged, current_astray, gone)),
        ("rocksdb", "config/subscriptionGroups", current_gone),
        ("rocksdb-v2", "config/rdb", rows_damaged),
        ("rocksdb-single", "config/metadata", index_damaged),
        ("rocksdb-expired", "config/consumerOffsets", manifest_gone),
    }
)
RESET: Final = (rows_damaged, gone)  # after which a repair is started on in each run
TRIALS: Final = [
    Trial(scenario, path, harm.__name__, harm, (scenario, path, harm) in SAMPLE)
    for scenario, path in PLACES
    for harm in HARMS
]


def harmed(oracle: Oracle, trial: Trial, into: Path) -> tuple[Path, dict[str, object]]:
    """Give a harmed store and the settings of its broker."""
    name = f"rocketmq-{oracle.jvm.version}-{trial.scenario}"
    if oracle.jvm.version not in OF_ROCKSDB or not (FIXTURES / name).exists():
        pytest.skip("no such store of this release")
    root = fixture_store(name, into)
    trial.harm(root / trial.path)
    return root, broker_settings(name, root)


def broker_settings(name: str, root: Path) -> dict[str, object]:
    """Give the settings of a broker on a copy of a fixture, and write its broker.conf."""
    settings = {
        **manifest(name)["settings"],
        "storePathRootDir": root,
        "storePathCommitLog": root / "commitlog",
        "fileReservedTime": YEARS_IN_HOURS,
        "listenPort": free_ports()[0],
        "haListenPort": 0,
    }
    root.with_name("broker.conf").write_text(conf_text(settings), encoding="utf-8")
    return settings


def topics_of(oracle: Oracle, settings: Mapping[str, object]) -> set[str] | None:
    """Let a real broker load everything; give the topics that it knows, None where it refuses."""
    found = controller(oracle, settings)
    if found is None:
        return None
    return {str(one) for one in found.getTopicConfigManager().getTopicConfigTable().keySet()}


@pytest.mark.parametrize("variant", TRIALS, ids=str)
def test_start(oracle: Oracle, variant: Trial, tmp_path: Path) -> None:
    """A broker refuses as predicted; topics that it lacks are said to have no route."""
    root, settings = harmed(oracle, variant, tmp_path)
    prediction = predict(open_store(root, root.with_name("broker.conf")), oracle.jvm.version)
    known = topics_of(oracle, settings)
    assert (known is None) == bool(prediction.refusals), prediction.refusals
    if known is not None:
        unrouted = {loss.topic for loss in prediction.unrouted.topics}
        assert unrouted == {topic for topic in user_topics(root) if topic not in known}
        assert not unrouted or not prediction.is_whole


def user_topics(root: Path) -> set[str]:
    """Give the topics of users that the log has messages of."""
    found = predict(open_store(root, root.with_name("broker.conf"))).queues
    return {
        outcome.topic
        for outcome in found
        if outcome.readable and not is_made_by_brokers(outcome.topic)
    }


@pytest.mark.parametrize(
    "variant",
    [replace(trial, in_sample=trial.in_sample and trial.harm in RESET) for trial in TRIALS],
    ids=str,
)
def test_repaired(oracle: Oracle, variant: Trial, tmp_path: Path) -> None:
    """With `--reset-config` a broker starts and knows the topics, or the plan says what helps."""
    root, settings = harmed(oracle, variant, tmp_path)
    topics = user_topics(root)
    plan = repair.plan(
        root,
        broker_conf=str(root.with_name("broker.conf")),
        broker_version=oracle.jvm.version,
        reset_config=True,
    )
    if variant.scenario == "rocksdb-v2":
        why = [left.why for left in plan.left if left.path.startswith("config/rdb")]
        assert not plan.edits
        assert variant.harm is gone or "mqadmin updateTopic" in why[0]
        return
    repair.apply(plan, in_place=True)
    known = topics_of(oracle, settings)
    assert known is not None
    assert topics <= known
