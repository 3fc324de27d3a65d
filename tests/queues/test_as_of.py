"""A store as of a cut: what came later reads as zeros, and the rest as it is."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from rmqtool.errors import UnreadablePath
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE
from rmqtool.queues.as_of import as_of
from rmqtool.queues.discovery import Queues
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.tree import Store, open_store
from tests import inflict, plain_store
from tests.stores import broker_conf, fixture_store

NAME = "rocketmq-5.3.3-traffic"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with several segments and queue files."""
    return open_store(fixture_store(NAME, tmp_path), str(broker_conf(NAME)))


def _record(store: Store, back: int) -> tuple[int, plain_store.Record]:
    """Give a record from the end of the log, and its physical offset."""
    record = plain_store.records(Path(store.root.location))[-back]
    return int(record.path.name) + record.position, record


@pytest.mark.parametrize("back", [1, 2, 300, 900])
def test_log_and_queues(store: Store, back: int) -> None:
    """Log and queues have what was there before the cut, byte for byte, then zeros."""
    end, _ = _record(store, back)
    cut = as_of(store, end)
    for now, then in zip(store.commitlog, cut.commitlog, strict=True):
        known = max(min(end - now.start, now.size), 0)
        whole = now.place.read_whole(1 << 20)
        assert whole[:known].ljust(now.size, b"\0") == then.place.read_whole(1 << 20)
    with Queues(store) as queues, Queues(cut) as earlier:
        for now_queue in queues.files.queues():
            then_queue = earlier.files.queue(now_queue.topic, now_queue.queue_id)
            assert then_queue is not None
            for now, then in zip(now_queue.files, then_queue.files, strict=True):
                whole, raw = now.place.read_whole(1 << 20), then.place.read_whole(1 << 20)
                at = [
                    position
                    for position in range(0, len(whole), CQ_UNIT_SIZE)
                    if any(unit := whole[position : position + CQ_UNIT_SIZE])
                    and int.from_bytes(unit[:8]) < end
                ]
                used = at[-1] + CQ_UNIT_SIZE if at else 0
                assert whole[:used].ljust(len(whole), b"\0") == raw


def test_damage_stays_in_sight(store: Store) -> None:
    """What is damaged before the last unit, or in a file that is full, is not taken for later."""
    end, _ = _record(store, 1)
    directory = plain_store.busiest_queue(Path(store.root.location))
    first, second, *_ = sorted(directory.iterdir())
    at, wild = first.stat().st_size - CQ_UNIT_SIZE, (end + 10**9).to_bytes(8)
    for file, position in ((first, at), (second, CQ_UNIT_SIZE)):
        inflict.write_at(file, position, wild)
    with Queues(as_of(store, end)) as queues:
        queue = queues.files.queue(directory.parent.name, int(directory.name))
        assert queue is not None
        for file, position in ((first, at), (second, CQ_UNIT_SIZE)):
            assert wild == queue.files.read_at(int(file.name) + position, 8)


def test_checkpoint(store: Store) -> None:
    """The checkpoint is what it was; other files are as they are."""
    path = Path(store.root.location) / "checkpoint"
    before = path.read_bytes()
    cut = as_of(store)
    inflict.write_at(path, 0, b"later")
    (artefact,) = cut.branches_of(ArtefactKind.CHECKPOINT)
    assert before == artefact.place.read_whole(1 << 16)
    assert cut.checkpoint() != store.checkpoint()
    assert store.root == cut.root
    assert store.commitlog == cut.commitlog


def test_seams(store: Store) -> None:
    """A place travels, tells what it is, and refuses what is not there."""
    end, _ = _record(store, 300)
    root = as_of(store, end).root
    log = root.child("commitlog")
    assert not root.is_local
    assert not log.is_local
    assert root.child("config").is_local
    file = pickle.loads(pickle.dumps(log)).child(f"{0:020}")  # noqa: S301 - our own
    assert file.read(100) == store.commitlog.segments[0].place.read(100)
    assert log.parent.child("commitlog") == log
    with pytest.raises(UnreadablePath):
        log.child("nothing").open()
    last = log.child(store.commitlog.segments[-1].place.name)
    with last.open() as cut:
        assert cut.size == last.stat().size  # type: ignore[union-attr]
        assert cut.next_data(cut.size - 1) is None
        assert cut.read_at(cut.size, 1) == b""
