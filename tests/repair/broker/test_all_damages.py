"""Every named damage, after a clean stop and after a crash: brokers go on with what is repaired."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from rmqtool import repair
from rmqtool.broker.names import is_made_by_brokers
from tests.broker.client import wait_until
from tests.broker.jvm import Jvm
from tests.damage import DAMAGES
from tests.inflict import NotApplicable
from tests.repair.broker import survivors
from tests.repair.broker.reading import OpenStore
from tests.repair.broker.survivors import QueueKey, Truth
from tests.startup.small_store import Outline, inner
from tests.stores import broker_conf, fixture_names, fixture_store

pytestmark = pytest.mark.broker

SAMPLED: Final = (
    "blank-too-long",
    "wrong-physical-offset-middle",
    "stale-tail",
    "physic-ahead",
    "close-segment-early",
)
# A person has to decide first, and is told so: the log cannot be judged, or is not a file's alone.
UNDECIDED: Final = frozenset({"odd-name", "loop", "converted-to-dledger", "remove-all-segments"})
# Nothing is to be repaired: the queue was made anew, and newer messages have the numbers of older
# ones now.
STAYS: Final = frozenset({"queue-numbered-anew"})
NEW_KEY: Final = b"7F" + b"0" * 30  # the unique key of the message that is put


def _marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
    return () if name in SAMPLED else (pytest.mark.all_variants,)


NAMES: Final = [
    pytest.param(name, marks=_marks(name)) for name in DAMAGES if name not in UNDECIDED | STAYS
]


@pytest.mark.parametrize("is_killed", [False, pytest.param(True, marks=pytest.mark.all_variants)])
@pytest.mark.parametrize("name", NAMES)
def test_damage(jvm: Jvm, name: str, is_killed: bool, tmp_path: Path) -> None:
    """A real store keeps each undamaged message, takes new ones, and a second start is clean."""
    damage = DAMAGES[name]
    fixture = fixture_of(jvm.version, damage.fixture)
    root = fixture_store(fixture, tmp_path)
    truth = Truth.of(root)
    if not damage.applies_to(root):
        pytest.skip("nothing of the kind in this fixture")
    try:
        damage.inflict(root)
    except (NotApplicable, IndexError, StopIteration) as reason:
        pytest.skip(f"nothing of the kind in this fixture: {reason}")
    if is_killed:
        (root / "abort").touch()
    expected = truth.expected(root)
    plan = repair.plan(
        root,
        broker_version=jvm.version,
        broker_conf=str(broker_conf(fixture)),
        bridge_missing=True,
        clamp_offsets=True,
    )
    repair.apply(plan, in_place=True)
    unused = truth.unused(root)
    opened = survivors.open_store(jvm, root, fixture)
    delivers(opened, truth, expected, unused)
    new = put_one(jvm, opened, truth)
    stopped = tmp_path / "stopped" / "store"
    shutil.copytree(root, stopped)
    if not is_killed:
        (stopped / "abort").unlink()
    opened.close_later()
    ahead = {
        path.relative_to(stopped).as_posix()
        for path in (stopped / "commitlog").iterdir()
        if int(path.name) > max(new.values())
    }
    again = survivors.open_store(jvm, stopped, fixture)
    delivers(again, truth, expected, ahead, new)
    again.close_later()


def fixture_of(version: str, part: str) -> str:
    """Give the fixture of a version that has what is damaged; skip where there is none."""
    name = f"rocketmq-{version}-{part.removeprefix('-') or 'traffic'}"
    if part.startswith(version):
        name = f"rocketmq-{part}"
    if name not in fixture_names() or part == "dledger":
        pytest.skip(f"no fixture {name}")
    return name


def delivers(
    opened: OpenStore,
    truth: Truth,
    expected: dict[QueueKey, list[int]],
    unused: set[str],
    new: dict[QueueKey, int] | None = None,
) -> None:
    """Assert that a store is whole: nothing deleted, all undamaged messages there, in order."""
    assert (True, 0) == (opened.loads, opened.behind)
    assert not {*opened.deleted} - unused
    for key, got in survivors.delivered(opened, truth, new):
        own = {*truth.queues[key], *([new[key]] if new and key in new else [])}
        assert {*expected[key]} <= {*got} <= own, key
        assert sorted(got) == got, key
        assert not new or key not in new or new[key] == got[-1], key


def put_one(
    jvm: Jvm, opened: OpenStore, truth: Truth, unique_key: bytes = NEW_KEY
) -> dict[QueueKey, int]:
    """Put a message into a queue of a configured topic, as brokers do; give where it lies."""
    keys = [key for key in truth.queues if not is_made_by_brokers(key[0]) and truth.queues[key]]
    keys.sort(key=lambda key: key[0] not in opened.topics)
    key = next(key for key in keys if not key[0].startswith(("%", "SCHEDULE")))
    outline = Outline(*key, b"new", {"UNIQ_KEY": unique_key.decode()})
    result = opened.store.putMessage(inner(jvm, outline)).getAppendMessageResult()
    wait_until(lambda: not opened.store.dispatchBehindBytes(), "dispatch")
    return {key: int(result.getWroteOffset())}
