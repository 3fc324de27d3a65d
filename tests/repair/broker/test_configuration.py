"""Whole brokers come up on repaired configuration and timer files, which they refused before."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from rmqtool import repair
from rmqtool.broker import traces
from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.repair.state.offsets import text_of
from tests.broker.broker import conf_text
from tests.broker.jvm import Jvm
from tests.repair.broker.conftest import Processes
from tests.repair.test_reset_config import tear
from tests.startup import harm
from tests.startup.oracle import Oracle
from tests.startup.small_store import SETTINGS, write_small_store
from tests.startup.test_whole_broker import (
    SHORT_TIMER_LOG,
    SHORT_WHEEL,
    TIMER,
    initialises,
    torn,
)

pytestmark = pytest.mark.broker


@dataclass(frozen=True, slots=True)
class Case:
    """A store that brokers refuse, and what a repair makes of it.

    Attributes:
        name: unique.
        steps: what is done to the store.
        settings: of the broker.conf beyond the geometry.
        is_helped: whether a repair can do anything.
    """

    name: str
    steps: tuple[harm.Harm, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    is_helped: bool = True

    def __str__(self) -> str:
        return self.name


CASES: Final = (
    Case("topics torn twice", torn("topics.json")),
    Case("topics torn, no backup", torn("topics.json", None)),
    Case("topics torn, empty backup", torn("topics.json", b"{}")),
    Case("groups torn, good backup", torn("subscriptionGroup.json", b"{}")),
    Case("consumer offsets torn twice", torn("consumerOffset.json"), is_helped=False),
    Case("wheel short", SHORT_WHEEL, TIMER),
    Case("timer log short", SHORT_TIMER_LOG, TIMER),
)


@pytest.fixture(scope="module")
def written(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a small store."""
    return write_small_store(processes.current(), tmp_path_factory.mktemp("small"))["clean"]


@pytest.mark.all_variants
@pytest.mark.parametrize("case", CASES, ids=str)
def test_comes_up(jvm: Jvm, written: Path, case: Case, tmp_path: Path) -> None:
    """A broker initialises on what was repaired; what cannot be is named, and left alone."""
    root = tmp_path / "store"
    shutil.copytree(written, root)
    (root / "config").mkdir(exist_ok=True)
    for step in case.steps:
        step(root)
    places = {"storePathRootDir": root, "storePathCommitLog": root / "commitlog"}
    settings = {**SETTINGS, **case.settings, **places}
    conf = tmp_path / "broker.conf"
    conf.write_text(conf_text(settings), encoding="utf-8")
    plan = repair.plan(root, broker_version=jvm.version, broker_conf=str(conf))
    assert case.is_helped is not any(one.code in {"CF-JSON", "FS-LEN"} for one in plan.left)
    repair.apply(plan, in_place=True)
    assert case.is_helped is initialises(Oracle(jvm), settings)


def test_reset(jvm: Jvm, written: Path, tmp_path: Path) -> None:
    """A broker initialises once configuration was written anew of which no copy was sound."""
    root = tmp_path / "store"
    shutil.copytree(written, root)
    (root / "config").mkdir(exist_ok=True)
    tear(root)
    places = {"storePathRootDir": root, "storePathCommitLog": root / "commitlog"}
    settings = {**SETTINGS, **places}
    conf = tmp_path / "broker.conf"
    conf.write_text(conf_text(settings), encoding="utf-8")
    assert not initialises(Oracle(jvm), settings)
    plan = repair.plan(root, broker_version=jvm.version, broker_conf=str(conf), reset_config=True)
    assert [] == plan.left
    repair.apply(plan, in_place=True)
    assert initialises(Oracle(jvm), settings)


@pytest.mark.parametrize("is_known", [True, False], ids=["its release", "no release"])
def test_layout_of_offsets(jvm: Jvm, *, is_known: bool) -> None:
    """A broker reads what a repair writes, and writes it so again; or the text tells no release."""
    release = Rules(Version.parse(jvm.version)) if is_known else None
    text = text_of({"offsetTable": {"T@G": {"0": 7, "1": 9}}}, release)
    manager = jvm.rocketmq("broker.offset.ConsumerOffsetManager")()
    manager.decode(text)
    read = manager.getOffsetTable().get("T@G")
    assert {0: 7, 1: 9} == {entry.getKey(): entry.getValue() for entry in read.entrySet()}
    layouts = (traces.FASTJSON_1, traces.FASTJSON_2)
    ours = [bool(layout.search(text.encode())) for layout in layouts]
    its = [bool(layout.search(str(manager.encode(True)).encode())) for layout in layouts]
    assert ours == (its if is_known else [False, False])
