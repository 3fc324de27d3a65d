"""A start that is foretold beside a running broker: as if it died now, whatever it writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.startup import live, predict, start
from rmqtool.startup.load import read_checkpoint
from rmqtool.startup.model import Model
from rmqtool.startup.outcomes import Before
from rmqtool.startup.report import steps, verdict
from rmqtool.store.tree import open_store
from tests import inflict, plain_store
from tests.stores import broker_conf, fixture_store, held_by_another

NAMES = (
    "rocketmq-5.3.3-traffic",
    "rocketmq-5.5.0-rocksdb",
    "rocketmq-5.5.0-rocksdb-combined",
    "rocketmq-5.3.3-batch-queue",
)
NAME = NAMES[0]


@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("fixture", NAMES)
def test_same_as_after_a_crash(fixture: str, quick_path: Path, *, is_damaged: bool) -> None:
    """Beside a broker the answer is that of the store with `abort`, and it says what it is."""
    root = fixture_store(fixture, quick_path)
    (root / "abort").touch()
    if is_damaged:
        inflict.zero_sector(where=0.9)(root)
    store = open_store(root, str(broker_conf(fixture)))
    expected = predict(store)
    with held_by_another(root):
        prediction = predict(store)
    assert expected == replace(
        prediction, is_live=False, judged_up_to=None, recovered=expected.recovered
    )
    assert is_damaged == (not prediction.is_whole)
    assert verdict(prediction).startswith("if its broker died now, a ")
    assert "live" == next(steps(prediction))["step"]


def _later(root: Path) -> Callable[[], None]:
    """Take the newest message out of log and queue; give what puts it back, as if it came then."""
    last = plain_store.records(root)[-1]
    queue = root / "consumequeue" / last.topic / str(last.integer("queue_id"))
    position = last.integer("queue_offset") * plain_store.UNIT.size
    file = max(path for path in queue.iterdir() if int(path.name) <= position)
    kept = [(path, path.read_bytes()) for path in (last.path, file)]
    inflict.write_at(last.path, last.position, bytes(last.size))
    inflict.write_at(file, position - int(file.name), bytes(plain_store.UNIT.size))

    def put_back() -> None:
        for path, content in kept:
            path.write_bytes(content)

    return put_back


@pytest.mark.parametrize("comes", ["before the units are read", "after they are read"])
def test_written_meanwhile(comes: str, quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that comes while the store is read is neither lost nor missing."""
    root = fixture_store(NAME, quick_path)
    (root / "abort").touch()
    put_back = _later(root)
    expected = predict(open_store(root, str(broker_conf(NAME))))

    class Taken(Before):
        @classmethod
        def of(cls, model: Model) -> Before:
            if comes == "before the units are read":
                put_back()
                return Before.of(model)
            found = Before.of(model)
            put_back()
            return found

    monkeypatch.setattr(start, "Before", Taken)
    monkeypatch.setattr("rmqtool.store.moment.PAUSES", ())
    with held_by_another(root):
        prediction = predict(open_store(root, str(broker_conf(NAME))))
    assert prediction.is_whole
    assert (expected.log_maximum, expected.queues) == (prediction.log_maximum, prediction.queues)
    assert expected.log_maximum == prediction.judged_up_to


def test_earlier_moment(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues that were listed long after the newest unit was looked up have none past it."""
    root = fixture_store(NAME, quick_path)
    (root / "abort").touch()
    record = plain_store.records(root)[-400]
    end = int(record.path.name) + record.position + record.size
    monkeypatch.setattr(live, "dispatched", lambda *_, **__: end)
    with held_by_another(root):
        prediction = predict(open_store(root, str(broker_conf(NAME))))
    assert prediction.is_whole
    assert (end, end) == (prediction.log_maximum, prediction.judged_up_to)


@pytest.mark.parametrize("gone", ["00000000000000000000", "00000000000000131072"])
def test_expired_meanwhile(gone: str, quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that vanishes is looked for again; a hole in the log is still one."""
    root = fixture_store(NAME, quick_path)
    (root / "abort").touch()
    first = read_checkpoint

    def delete(*args: object) -> dict[str, int]:  # after the log was listed
        (root / "commitlog" / gone).unlink(missing_ok=True)
        return first(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(start, "read_checkpoint", delete)
    with held_by_another(root):
        prediction = predict(open_store(root, str(broker_conf(NAME))))
    assert prediction.is_whole == (gone == "00000000000000000000")


def test_much_expires(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that vanish at each of several looks are no reason to give up."""
    root = fixture_store(NAME, quick_path)
    (root / "abort").touch()
    first, left = read_checkpoint, [*range(9)]

    def vanish(*args: object) -> dict[str, int]:
        if left:
            left.pop()
            raise UnreadablePath(path="x", reason="no such file", trouble=Trouble.MISSING)
        return first(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(start, "read_checkpoint", vanish)
    with held_by_another(root):
        assert predict(open_store(root, str(broker_conf(NAME)))).is_whole
