"""Derived runs are the bytes that real brokers wrote into queues and index."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from rmqtool.broker.release import Version
from rmqtool.derive.part import DeriveOptions, derive
from rmqtool.derive.settings import rules_of
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT_SIZE
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE, QueueKind
from rmqtool.formats.consume_queue_ext import decode, is_ext_address, real_offset
from rmqtool.formats.index import INDEX_ENTRY, INDEX_HEADER, entry_position
from rmqtool.scan.join import run_joined
from rmqtool.store.parts import parts
from rmqtool.store.tree import open_store
from tests.evidence import snapshot
from tests.stores import broker_conf, fixture_names, fixture_store, manifest

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.derive.runs import Runs
    from rmqtool.store.segment import SegmentPart
    from rmqtool.store.tree import Store

LARGE = 1 << 24  # such a store takes seconds to hash; the others prove that nothing is written
PART_BYTES = 20_000  # so that segments are cut into several
PRE_BLANK = bytes(8) + b"\x7f\xff\xff\xff" + bytes(8)

Queues = dict[tuple[str, str, int], dict[int, bytes]]


def derived(name: str, store: Store) -> list[Runs]:
    """Derive all runs of a fixture."""
    rules = rules_of(store, Version.parse(manifest(name)["version"]))
    options = DeriveOptions(rules)

    def work(part: SegmentPart, *, start: int | None = None) -> Runs:
        return derive(part, options, start=start)

    part_bytes = max(PART_BYTES, store.commitlog.file_length // 16)
    return [runs for _, runs in run_joined(work, parts(store.commitlog, part_bytes), jobs=2)]


def by_queue(found: list[Runs]) -> Queues:
    """Give the units of each queue by queue offset."""
    queues: Queues = {}
    for runs in found:
        for run in (*runs.queues, *runs.batch_queues):
            key = str(run.kind), run.topic.decode(), run.queue_id
            size = len(run.units) // run.count
            for number in range(run.count):
                at = run.queue_offset + number if size == CQ_UNIT_SIZE else len(queues.get(key, ()))
                queues.setdefault(key, {})[at] = bytes(run.units[number * size :][:size])
    return queues


def plain(unit: bytes, ext: bytes) -> bytes:
    """Give a unit with the tags code that its ext unit has, if it has one."""
    values = CQ_UNIT.parse(unit)
    if is_ext_address(values["tags_code"]):
        found = decode(ext[real_offset(values["tags_code"]) :])
        assert found is not None
        values["tags_code"] = found.tags_code
    return CQ_UNIT.build(values)


def stored(root: Path, kind: QueueKind, start: int) -> Queues:
    """Give the units of each queue as they are on disk.

    Pre-blanks and zeros are none, and those of records before the log's start have expired.
    """
    size = BATCH_CQ_UNIT_SIZE if kind is QueueKind.BATCH_QUEUE else CQ_UNIT_SIZE
    queues: Queues = {}
    for directory in sorted((root / kind).glob("*/*")):
        ext = root / "consumequeue_ext" / directory.parent.name / directory.name
        ext_bytes = b"".join(path.read_bytes() for path in sorted(ext.glob("*")))
        for path in sorted(directory.iterdir()):
            raw = path.read_bytes()
            for position in range(0, len(raw) - size + 1, size):
                unit = raw[position : position + size]
                expired = int.from_bytes(unit[:8], "big") < start
                if unit != PRE_BLANK and any(unit) and not expired:
                    key = str(kind), directory.parent.name, int(directory.name)
                    at = (int(path.name) + position) // size
                    is_plain = kind is QueueKind.BATCH_QUEUE
                    queues.setdefault(key, {})[at] = unit if is_plain else plain(unit, ext_bytes)
    return queues


class Derived(NamedTuple):
    """A fixture and what was derived from its log."""

    root: Path
    store: Store
    runs: list[Runs]


@pytest.fixture(scope="module", params=fixture_names())
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Derived:
    """Give each fixture that has a log."""
    root = fixture_store(request.param, tmp_path_factory.mktemp("fixture"))
    store = open_store(root, broker_conf(request.param))
    if not store.commitlog:
        pytest.skip("no commitlog: that store is read elsewhere")
    before = snapshot(root / store.commitlog.path) if store.commitlog.file_length < LARGE else {}
    runs = derived(request.param, store)
    assert before == (snapshot(root / store.commitlog.path) if before else {})
    return Derived(root, store, runs)


def test_queues(subject: Derived) -> None:
    """Each unit of each queue, and no other."""
    root, store, runs = subject
    found = by_queue(runs)
    expected = stored(root, QueueKind.CONSUME_QUEUE, store.commitlog.start)
    expected |= stored(root, QueueKind.BATCH_QUEUE, store.commitlog.start)
    if not expected:
        pytest.skip("the broker kept its queues elsewhere")
    assert expected.keys() == found.keys()
    for queue, units in expected.items():
        assert units == found[queue], queue


def test_index(subject: Derived) -> None:
    """Each entry of the key index, in its order."""
    store = subject.store
    if not store.index_files():
        pytest.skip("no index")
    runs = [run.index for run in subject.runs]
    hashes = np.concatenate([run.hashes for run in runs])
    offsets = np.concatenate([run.physical_offsets for run in runs])
    done = 0
    for file in store.index_files():
        with file.open() as opened:
            raw = opened.read_at(0, opened.size)
        count = INDEX_HEADER.parse(raw)["index_count"] - 1
        start = entry_position(file.slots, 1)
        entries = np.frombuffer(raw, INDEX_ENTRY.dtype, count, start)
        entries = entries[entries["physical_offset"] >= store.commitlog.start]
        count = len(entries)
        assert entries["key_hash"].tolist() == hashes[done : done + count].tolist()
        assert entries["physical_offset"].tolist() == offsets[done : done + count].tolist()
        done += count
    assert len(hashes) == done
