"""What becomes of rebuilt files: a new directory, the store itself, a comparison, or nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from rmqtool import rebuild
from rmqtool.errors import NoSuchQueue, OutputExists, StoreLocked, UsageError
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.rebuild.options import RebuildOptions, StoreType, Target
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.undo import undo
from tests.evidence import Evidence, snapshot
from tests.rebuild.built import build_log, message
from tests.rebuild.test_identity import FAMILIES, files_of
from tests.store.edited_store import traces
from tests.stores import broker_conf, fixture_names, fixture_store

NAME = "rocketmq-5.5.0-traffic"
TOPIC = "traffic-orders"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that a real broker wrote."""
    return fixture_store(NAME, tmp_path)


def contents(root: Path, *families: str) -> dict[str, bytes]:
    """Give the bytes of the files of some families."""
    return {path: file.read_bytes() for path, file in files_of(root, *families).items()}


def damage(store: Path) -> None:
    """Lose a queue, tear an index file, flip a bit of a unit."""
    queues = [*files_of(store, "consumequeue").values()]
    queues[0].unlink()
    raw = bytearray(queues[-1].read_bytes())
    raw[7] ^= 4
    queues[-1].write_bytes(raw)
    index = next(iter(files_of(store, "index").values()))
    index.write_bytes(index.read_bytes()[:1000])


def test_check(store: Path, evidence: Evidence) -> None:
    """`check` names the file and the first position of each difference, and changes nothing."""
    damage(store)
    evidence.keep(store)
    found = {
        difference.path: difference for difference in rebuild.all(store, check=True).differences
    }
    paths = [*files_of(store, "consumequeue")]
    flipped = found.pop(paths[-1])
    assert (7, 1) == (flipped.position, flipped.length)
    lost, torn = sorted(found)
    assert ("consumequeue", "index") == (lost.split("/")[0], torn.split("/")[0])
    assert "none" == found[lost].actual


def test_check_of_more(store: Path) -> None:
    """A queue, a file or a unit that the log does not give is a difference, with its place."""
    path, file = min(files_of(store, "consumequeue").items())
    raw = file.read_bytes()
    end = len(raw.rstrip(b"\0")) // 20 * 20 + 20
    file.write_bytes(raw[:end] + b"\1" + raw[end + 1 :])
    beyond = file.with_name(f"{len(raw) * 1000:020}")
    other = file.parent.with_name("99") / file.name
    other.parent.mkdir()
    for copy in (beyond, other):
        copy.write_bytes(raw)
    found = {
        difference.path: difference for difference in rebuild.all(store, check=True).differences
    }
    unit = found.pop(path)
    assert (end, 1, "01") == (unit.position, unit.length, unit.actual[:2])
    assert {str(copy.relative_to(store)) for copy in (beyond, other)} == found.keys()
    assert {"no file"} == {difference.expected for difference in found.values()}


def test_check_in_pieces(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues that come in several pieces, by turns, differ in the same as those that come once."""
    damage(store)
    queues = [*files_of(store, "consumequeue").values()]
    for number, path in enumerate(queues[1:6]):  # bytes after the last unit, and a further file
        with path.open("r+b") as file:
            file.seek(-20 * (number + 1), os.SEEK_END)
            file.write(b"\1" * 20)
    shutil.copy(queues[2], queues[2].with_name(f"{10 * queues[2].stat().st_size:020}"))
    whole = rebuild.consume_queues(store, check=True).differences
    monkeypatch.setattr("rmqtool.rebuild.work.PART_BYTES", 20_000)
    monkeypatch.setattr("rmqtool.derive.run_pool.SHORT_RUN", 0)  # none waits for others
    monkeypatch.setattr("rmqtool.rebuild.consume_queue.EARLY_BYTES", 0)
    monkeypatch.setattr("rmqtool.rebuild.consume_queue.EARLY_BYTES_EACH", 0)
    pieces = rebuild.consume_queues(store, check=True).differences
    assert len(whole) > len(queues[1:6])
    assert {it.path for it in whole} == {it.path for it in pieces}
    assert [it for it in whole if it.expected == "no file"] == [
        it for it in pieces if it.expected == "no file"
    ]


def test_check_of_holes(tmp_path: Path) -> None:
    """Past the last unit what lies between two holes is compared alone, so its length is told."""
    store = build_log(tmp_path / "store", [message(b"T", 0, number) for number in range(3)])
    rebuild.consume_queues(store, in_place=True)
    (file,) = files_of(store, "consumequeue").values()
    with file.open("r+b") as opened:
        for position in (100_000, 200_000):
            os.pwrite(opened.fileno(), b"\1", position)
        hole = os.lseek(opened.fileno(), 100_000, os.SEEK_HOLE)
    (difference,) = rebuild.consume_queues(store, check=True).differences
    assert (100_000, 1 if hole < 200_000 else 100_001) == (difference.position, difference.length)


def test_dry_run(store: Path, evidence: Evidence) -> None:
    """`dry_run` counts what would be written, and writes nothing."""
    evidence.keep(store.parent)
    tried = rebuild.all(store, dry_run=True)
    assert (1395, 4587, 3) == (tried.records, tried.entries, tried.index_files)
    assert tried.units == sum(queue.tally.units for queue in tried.queues) > 0


@pytest.mark.parametrize("jobs", [1, 3])
def test_jobs(store: Path, tmp_path: Path, jobs: int) -> None:
    """Threads change nothing."""
    rebuild.all(store, tmp_path / "new", jobs=jobs)
    assert contents(store, *FAMILIES) == contents(tmp_path / "new", *FAMILIES)


def test_topic(store: Path, tmp_path: Path, evidence: Evidence) -> None:
    """Only what was asked for: the queues of a topic, or one of them."""
    evidence.keep(store)
    expected = contents(store, "consumequeue")
    rebuild.consume_queues(store, tmp_path / "topic", topic=TOPIC)
    below = f"consumequeue/{TOPIC}/"
    chosen = {path: raw for path, raw in expected.items() if path.startswith(below)}
    assert chosen == contents(tmp_path / "topic", *FAMILIES) != {}
    rebuild.consume_queues(store, tmp_path / "queue", topic=TOPIC, queue_id=1)
    one = {path: raw for path, raw in chosen.items() if path.startswith(f"{below}1/")}
    assert one == contents(tmp_path / "queue", *FAMILIES) != {}


@pytest.mark.parametrize("wanted", [("traffic-order", None), (TOPIC, 9)], ids=["topic", "queue"])
@pytest.mark.parametrize("mode", ["output", "in_place", "check", "dry_run"])
def test_mistyped(
    store: Path, tmp_path: Path, evidence: Evidence, mode: str, wanted: tuple[str, int | None]
) -> None:
    """A topic or a queue without a record is refused: no empty tree, nothing replaced."""
    evidence.keep(store)
    how = {mode: tmp_path / "new" if mode == "output" else True}
    topic, queue_id = wanted
    with pytest.raises(NoSuchQueue, match=str(queue_id or topic)):
        rebuild.consume_queues(store, topic=topic, queue_id=queue_id, **how)  # type: ignore[arg-type]
    assert ["store"] == [path.name for path in tmp_path.iterdir()]


def test_topic_in_place(store: Path) -> None:
    """In place, too: nothing else of the store is touched, its checkpoint neither."""
    before = snapshot(store)
    victim = next(path for path in sorted(before) if path.startswith(f"consumequeue/{TOPIC}/1/"))
    sound = (store / victim).read_bytes()
    (store / victim).write_bytes(bytes(len(sound)))
    result = rebuild.consume_queues(store, in_place=True, topic=TOPIC)
    assert sound == (store / victim).read_bytes()
    after = {path: trace for path, trace in snapshot(store).items() if not path.startswith("rmqt")}
    changed = {path for path in before if before[path].digest != after[path].digest}
    assert (set(), before.keys()) == (changed, after.keys())
    assert result.undo


def test_in_place(store: Path) -> None:
    """The families are replaced, the checkpoint agrees, and undo gives back the original."""
    sound = contents(store, *FAMILIES)
    damage(store)
    before = traces(store)
    result = rebuild.all(store, in_place=True)
    assert sound == contents(store, *FAMILIES)
    checkpoint = CHECKPOINT.parse((store / "checkpoint").read_bytes())
    assert (result.last_store_timestamp, result.last_physical_offset, result.index_end) == (
        checkpoint["logics_msg_timestamp"],
        checkpoint["logics_physical_offset"],
        checkpoint["index_msg_timestamp"],
    )
    assert checkpoint["physic_msg_timestamp"] <= result.last_store_timestamp
    with StoreLock(store) as lock:
        assert result.undo == undo(lock).name
    assert before == traces(store)


def test_in_place_again(store: Path) -> None:
    """Done twice it changes nothing, and leaves nothing behind."""
    rebuild.all(store, in_place=True)
    before = snapshot(store)
    assert "" == rebuild.all(store, in_place=True).undo
    assert before == snapshot(store)


def test_everything_gone(store: Path) -> None:
    """Queues and index that were deleted come back where they were."""
    sound = contents(store, *FAMILIES)
    for family in FAMILIES:
        for path in sorted((store / family).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        if (store / family).is_dir():
            (store / family).rmdir()
    conf = store.parent / "broker.conf"
    shutil.copy(broker_conf(NAME), conf)  # no file is left that tells how long they were
    rebuild.all(store, in_place=True, broker_conf=str(conf))
    # The names of index files were their times of creation, which only the broker knew.
    assert [*sound.values()] == [*contents(store, *FAMILIES).values()]


def test_light_queues_gone(tmp_path: Path) -> None:
    """Without a queue or a configuration that tells of light queues, the log does."""
    root = fixture_store(fixture_names(scenario="lmq")[-1], tmp_path)
    queues = {str(Path(path).parent) for path in files_of(root, "consumequeue")}
    units = sum(queue.tally.units for queue in rebuild.consume_queues(root, dry_run=True).queues)
    (root / "consumequeue").rename(tmp_path / "aside")
    result = rebuild.consume_queues(root, tmp_path / "new")
    assert units == result.units
    assert queues == {str(Path(path).parent) for path in files_of(tmp_path / "new", "consumequeue")}


def test_running(store: Path) -> None:
    """A store that somebody uses is refused, untouched."""
    before = snapshot(store)
    with StoreLock(store), pytest.raises(StoreLocked):
        rebuild.all(store, in_place=True)
    assert before == snapshot(store)


def test_output_exists(store: Path, tmp_path: Path) -> None:
    """A target that is there is never written into."""
    (tmp_path / "new").mkdir()
    with pytest.raises(OutputExists):
        rebuild.all(store, tmp_path / "new")
    assert [] == [*(tmp_path / "new").iterdir()]


def test_rocksdb(tmp_path: Path) -> None:
    """Queues in RocksDB are not replaced by files in place; the index can be."""
    root = fixture_store(fixture_names(scenario="rocksdb")[-1], tmp_path)
    with pytest.raises(UsageError, match="storeType"):
        rebuild.consume_queues(root, in_place=True, store_type=StoreType.FILES)
    assert [] == rebuild.index(root, check=True).differences


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"output": "x", "check": True},
        {"check": True, "topic": "T"},
        {"check": True, "target": Target.QUEUES, "queue_id": 1},
        {"check": True, "time_zone": "Middle/Earth"},
    ],
)
def test_contradictions(facts: dict[str, object]) -> None:
    """What cannot be meant is refused before a file is opened."""
    with pytest.raises(UsageError):
        RebuildOptions("/nowhere", **facts)  # type: ignore[arg-type]


def test_time_zone() -> None:
    """Names of index files are made in the zone that was asked for."""
    zone = RebuildOptions("/nowhere", check=True, time_zone="Asia/Shanghai").zone()
    assert timedelta(hours=8) == zone.utcoffset(datetime(2026, 1, 1))  # noqa: DTZ001 - what it takes


def test_light_import() -> None:
    """Importing the face costs no numpy, numba or pyarrow."""
    program = (
        "import sys; from rmqtool import rebuild; rebuild.index;"
        "sys.exit(bool({'numpy', 'numba', 'pyarrow'} & set(sys.modules)))"
    )
    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode  # noqa: S603
