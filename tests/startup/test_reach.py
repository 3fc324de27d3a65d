"""A message is in reach under its own topic and queue alone: what else leads to it is counted."""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool.startup import losses
from tests import inflict, plain_store
from tests.broker.bare_store import BareStore
from tests.startup import harm
from tests.startup.small_store import SETTINGS
from tests.startup.test_against_stores import ALWAYS, predicted
from tests.stores import fixture_names, fixture_store, manifest

if TYPE_CHECKING:
    from tests.startup.harm import Harm
    from tests.startup.oracle import Oracle

ORDERS, RARE, COMMITTED = "consumequeue/orders", "consumequeue/rare", "consumequeue/committed"
ABORT: Final = harm.touch("abort")
LONG: Final = [name for name in fixture_names() if name.endswith("traffic")]


@dataclass(frozen=True, slots=True)
class Case:
    """A store whose units lead elsewhere than their queue's name says."""

    name: str
    steps: tuple[Harm, ...]
    in_sample: bool = True

    def __str__(self) -> str:
        return self.name


def exchange(one: str, other: str) -> Harm:
    """Let two directories change names."""

    def harm_it(store: Path) -> None:
        (store / one).rename(store / "aside")
        (store / other).rename(store / one)
        (store / "aside").rename(store / other)

    return harm_it


def foreign_unit(store: Path) -> None:
    """Let one unit in the middle of a queue lead to a message of another topic."""
    unit, other = (plain_store.units(store / path / "0")[7] for path in (ORDERS, RARE))
    raw = struct.pack(">qi", other.physical_offset, other.size)
    inflict.write_at(unit.path, unit.position, raw)


CASES: Final = (
    Case("untouched", ()),
    Case("topics exchanged", (exchange(ORDERS, COMMITTED),)),
    Case("topics exchanged, abort", (exchange(ORDERS, COMMITTED), ABORT), in_sample=False),
    Case("queues exchanged", (exchange(f"{ORDERS}/0", f"{ORDERS}/1"),)),
    Case("topic in upper case", (harm.rename(ORDERS, "consumequeue/Orders"),)),
    Case("topic in upper case, abort", (harm.rename(ORDERS, "consumequeue/Orders"), ABORT)),
    Case("a queue of another topic", (harm.rename(f"{ORDERS}/2", f"{RARE}/2"),), in_sample=False),
    Case("a foreign unit", (foreign_unit,)),
    Case("a foreign unit, abort", (foreign_unit, ABORT), in_sample=False),
    Case("a queue named 00", (harm.rename(f"{ORDERS}/0", f"{ORDERS}/00"),)),
    Case("a queue named +1, abort", (harm.rename(f"{ORDERS}/1", f"{ORDERS}/+1"), ABORT)),
    Case(
        "a queue named with a space", (harm.rename(f"{ORDERS}/0", f"{ORDERS}/ 0"),), in_sample=False
    ),
)


@pytest.mark.broker
@pytest.mark.parametrize("variant", CASES, ids=str)
def test_delivered(
    oracle: Oracle, small_stores: dict[str, Path], variant: Case, tmp_path: Path
) -> None:
    """Real stores deliver under their own topic and queue what is in reach, and no more."""
    root, opened = tmp_path / "store", tmp_path / "opened"
    shutil.copytree(small_stores["clean"], root)
    all_of_log = sum(
        queue.readable for queue in predicted(root, oracle.jvm.version, SETTINGS).queues
    )
    for step in variant.steps:
        step(root)
    shutil.copytree(root, opened)
    prediction = predicted(root, oracle.jvm.version, SETTINGS)
    own, others = delivered(oracle, opened)
    assert all_of_log - prediction.unreachable - prediction.lost.messages == own.total()
    assert {topic.topic: topic.messages for topic in prediction.misdelivered.topics} == others
    assert prediction.loses == (own.total() < all_of_log or bool(others))


def delivered(oracle: Oracle, root: Path) -> tuple[Counter[str], Counter[str]]:
    """Count what a real store hands out by the topic that is asked for: its own, and others'."""
    store = BareStore(oracle.jvm, root, SETTINGS)
    assert store.load()
    store.start()
    own: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for topic, queue_id in store.queue_offsets():
        for message in store.messages(topic, queue_id):
            is_own = (message.topic, message.queue_id) == (topic, queue_id)
            (own if is_own else others)[topic] += 1
    oracle.stop(store.store)
    return own, others


@pytest.mark.parametrize("name", LONG)
def test_long_log(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a log that is too long to be read whole, a sample tells which files are to be read."""
    root = fixture_store(name, tmp_path)
    settings = {**manifest(name)["settings"], **ALWAYS}
    version = manifest(name)["version"]
    monkeypatch.setattr(losses, "READ_WHOLE", 0)
    sound = predicted(root, version, settings)
    assert sound.is_whole
    assert sound.files_unread > 0
    exchange("consumequeue/traffic-batch", "consumequeue/traffic-orders")(root)
    in_sample = predicted(root, version, settings)
    monkeypatch.undo()
    whole = predicted(root, version, settings)
    assert (whole.unreachable, whole.misdelivered) == (
        in_sample.unreachable,
        in_sample.misdelivered,
    )
    assert whole.unreachable == whole.misdelivered.messages == 1120 + 78


@pytest.mark.parametrize("name", fixture_names())
def test_sound(name: str, tmp_path: Path) -> None:
    """Of what real brokers wrote nothing leads elsewhere, light queues among it."""
    if name.endswith("dledger"):
        pytest.skip("a start of one node of a group cannot be predicted")
    root = fixture_store(name, tmp_path)
    settings = {**manifest(name)["settings"], **ALWAYS}
    assert not predicted(root, manifest(name)["version"], settings).misdelivered.messages


def test_light_queues_exchanged(tmp_path: Path) -> None:
    """A light queue under the name of another has none of its own messages, and hands out those."""
    name = "rocketmq-5.3.3-lmq"
    root = fixture_store(name, tmp_path)
    settings = {**manifest(name)["settings"], **ALWAYS}
    one, other = "%LMQ%home-1", "%LMQ%温度"
    queues = (root / "consumequeue" / topic / "0" for topic in (one, other))
    first, second = ({unit.physical_offset for unit in plain_store.units(path)} for path in queues)
    exchange(f"consumequeue/{one}", f"consumequeue/{other}")(root)
    prediction = predicted(root, "5.3.3", settings)
    expected = {one: len(first - second), other: len(second - first)}
    assert expected == {loss.topic: loss.messages for loss in prediction.light.topics}
    handed_out = {other: len(first - second), one: len(second - first)}
    assert handed_out == {loss.topic: loss.messages for loss in prediction.misdelivered.topics}
    assert min(expected.values()) > 0
    assert 0 == prediction.unreachable
