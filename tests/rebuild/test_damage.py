"""Damage in the log, hostile content, refusing disks: what can be derived is; the rest is told."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqtool import rebuild
from rmqtool.errors import UnreadablePath, WriteFailed
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE, QueueKind
from rmqtool.rebuild.options import RebuildOptions, RebuildResult
from rmqtool.rebuild.report import sentences
from rmqtool.store.place import OpenFile
from tests import inflict
from tests.evidence import Evidence, snapshot
from tests.plain_store import records
from tests.rebuild.built import SEGMENT_BYTES, build_log, message
from tests.rebuild.test_identity import files_of
from tests.scan.segments import MESSAGE
from tests.store import faults
from tests.stores import fixture_store

NAME = "rocketmq-5.3.3-traffic"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that a real broker wrote, with several segments."""
    return fixture_store(NAME, tmp_path)


def units_at(root: Path) -> dict[tuple[str, int], bytes]:
    """Give each unit in use by its queue and queue offset."""
    found: dict[tuple[str, int], bytes] = {}
    for path, file in files_of(root, "consumequeue").items():
        queue, _, name = path.rpartition("/")
        raw = file.read_bytes().rstrip(b"\0")
        raw += bytes(-len(raw) % CQ_UNIT_SIZE)
        for at in range(0, len(raw), CQ_UNIT_SIZE):
            found[queue, (int(name) + at) // CQ_UNIT_SIZE] = raw[at : at + CQ_UNIT_SIZE]
    return found


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (inflict.garbage(where=0.4, length=3000), "CL-"),
        (inflict.zero_sector(where=0.6), "CL-"),
        (inflict.remove_segment(1), "missing"),
        (inflict.cut_segment(1, lambda size: size // 2), ""),
    ],
    ids=["garbage", "zeros", "missing", "short"],
)
def test_gap(
    store: Path, tmp_path: Path, evidence: Evidence, damage: Callable[[Path], None], code: str
) -> None:
    """Each lost stretch is named; each unit of a record that is left is where it was."""
    expected = units_at(store)
    before = {record.raw for record in records(store)}
    damage(store)
    evidence.keep(store)
    result = rebuild.all(store, tmp_path / "new")
    assert not result.is_complete
    assert all(lost.code.startswith(code) and lost.length > 0 for lost in result.lost)
    lost = [(lost.physical_offset, lost.physical_offset + lost.length) for lost in result.lost]
    found = units_at(tmp_path / "new")
    kept = 0
    for place, unit in expected.items():
        at = CQ_UNIT.parse(unit)["physical_offset"]
        if not any(start <= at < end for start, end in lost) and place in found:
            kept += found[place] == unit
    gone = sum(
        any(start <= CQ_UNIT.parse(unit)["physical_offset"] < end for start, end in lost)
        for unit in expected.values()
    )
    assert (len(expected) - gone, True) == (kept, gone > 0)
    assert gone <= len(before)


@pytest.fixture
def refused(store: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the disk refuse to read the second segment; give its name."""
    second = sorted((store / "commitlog").iterdir())[1].name
    read_into = OpenFile.read_into

    def refuse(file: OpenFile, buffer: memoryview, position: int) -> int:
        if second in str(file.place):
            raise UnreadablePath(path=str(file.place), reason="Input/output error")
        return read_into(file, buffer, position)

    monkeypatch.setattr(OpenFile, "read_into", refuse)
    return second


def test_unreadable_in_place(store: Path, refused: str, evidence: Evidence) -> None:
    """With a segment that the disk refuses nothing is replaced: what is there may be all right."""
    evidence.keep(store)
    with pytest.raises(UnreadablePath, match=f"{refused}: cannot be read .* nothing was replaced"):
        rebuild.all(store, in_place=True)


def test_unreadable(store: Path, refused: str, tmp_path: Path) -> None:
    """A segment that the disk refuses is one lost stretch; the others are derived."""
    result = rebuild.all(store, tmp_path / "new")
    assert [("unreadable", int(refused))] == [(x.code, x.physical_offset) for x in result.lost]
    assert not result.is_complete
    assert result.units > 0


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        (NAME, "consumequeue/traffic-orders/1/00000000000000002000"),
        (NAME, "index/*"),
        ("rocketmq-5.3.3-batch-queue", "batchconsumequeue/batch-queue/0/00000000000000000920"),
    ],
)
def test_unreadable_compared(name: str, pattern: str, tmp_path: Path) -> None:
    """A file that the disk refuses is named, all others are compared, and nothing is called sound.

    What is damaged beside it is still found.
    """
    root = fixture_store(name, tmp_path)
    assert rebuild.all(root, check=True).is_complete
    path = min(root.glob(pattern))
    other = min(path.parent.parent.glob("*/0*")) if "queue" in pattern else None
    if other is not None and other != path:
        other.write_bytes(bytes(20) + other.read_bytes()[20:])
    with faults.bad_sector(path):
        result = rebuild.all(root, check=True)
    inner = str(path.relative_to(root))
    assert (list(result.unread), result.is_complete) == ([inner], False)
    damaged = [] if other in {None, path} else [str(other.relative_to(root))]
    # An index file whose head is unreadable is not known as the one that it is.
    assert [
        difference.path for difference in result.differences if difference.actual != "no file"
    ] == damaged
    said = list(sentences(RebuildOptions(str(root), check=True), result))
    assert f"not compared: {inner} cannot be read: at 0x0 (0): input/output error" in said
    same = "the store differs" if result.differences else "the readable part is the same"
    assert f"{same}; nothing was written" in said


HOSTILE = {
    b"../x": "contains a slash",
    b"/x": "contains a slash",
    b"a/b": "contains a slash",
    b"x\0y": "contains a NUL",
    b"..": "is not a file name",
    b"": "is empty",
    b"\xff" * 100: "has 300 bytes, and a file name at most 255",
    b"t" * 127: "",
    b"Topic": "",
    b"topic": "",
    b"\x1b[31m": "",
}


def test_hostile_names(tmp_path: Path, evidence: Evidence) -> None:
    """A topic that is a path leads nowhere: it is reported, left out, and nothing else is."""
    store = build_log(tmp_path / "s", (message(topic, 0, 0) for topic in HOSTILE))
    evidence.keep(store)
    result = rebuild.all(store, tmp_path / "n")
    told = {queue.topic: queue.left_out.removeprefix("the topic ") for queue in result.queues}
    assert {topic.decode(errors="replace"): reason for topic, reason in HOSTILE.items()} == told
    assert not result.is_complete
    written = {Path(path).parts[1] for path in files_of(tmp_path / "n", "consumequeue")}
    assert {topic.decode() for topic, reason in HOSTILE.items() if not reason} == written
    assert {"s", "n"} == {path.name for path in tmp_path.iterdir()}


def test_same_text(tmp_path: Path) -> None:
    """Topics of bytes that Java reads as one text are one queue, as they are to a broker."""
    topics = [b"x\xff", b"x\xfe", b"x\xff"]
    store = build_log(tmp_path / "s", (message(t, 0, at) for at, t in enumerate(topics)))
    result = rebuild.consume_queues(store, tmp_path / "n")
    assert [("x\ufffd", 3)] == [(queue.topic, queue.tally.units) for queue in result.queues]


@pytest.mark.parametrize("queue_id", [-1, -(1 << 31)])
def test_negative_queue(tmp_path: Path, queue_id: int) -> None:
    """A broker makes a queue below 0 like another one."""
    store = build_log(tmp_path / "s", [message(b"T", queue_id, 0), message(b"T", 1, 0)])
    result = rebuild.consume_queues(store, tmp_path / "n")
    assert [queue_id, 1] == [queue.queue_id for queue in result.queues if not queue.left_out]
    assert {str(queue_id), "1"} == {path.name for path in (tmp_path / "n").glob("consumequeue/T/*")}


@pytest.mark.parametrize("moment", [-(1 << 63), -1, 0, 1 << 45, 1 << 53, (1 << 63) - 1])
def test_far_times(tmp_path: Path, moment: int) -> None:
    """A store time that no calendar has costs neither files nor a traceback."""
    far = MESSAGE._replace(store_timestamp=moment)
    store = build_log(tmp_path / "s", [far, MESSAGE._replace(queue_offset=1)])
    result = rebuild.all(store, tmp_path / "n")
    assert (2, 2) == (result.units, len({*range(result.index_files), *range(result.entries)}))
    assert all(len(path.name) == 17 for path in (tmp_path / "n" / "index").iterdir())


@pytest.mark.parametrize("number", [-(1 << 63), -1, 1 << 31, 1 << 40, (1 << 63) - 1])
@pytest.mark.parametrize("start", [0, SEGMENT_BYTES << 20])
@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("like_broker", [False, True])
def test_far_queue_offsets(
    tmp_path: Path, number: int, start: int, at: int, *, like_broker: bool
) -> None:
    """A damaged queue offset costs at most its own unit, and no disk."""
    numbers = [0, 1, 2]
    numbers[at] = number
    messages = [MESSAGE._replace(queue_offset=number) for number in numbers]
    store = build_log(tmp_path / "s", messages, start=start)
    rebuild.consume_queues(store, tmp_path / "n", like_broker=like_broker)
    files = files_of(tmp_path / "n", "consumequeue")
    assert len(files) <= 2
    assert sum(file.stat().st_blocks * 512 for file in files.values()) < 13_000_000


def test_no_message_lost(tmp_path: Path) -> None:
    """In an expired log, too, one damaged number costs no other message."""
    numbers = [700, *range(701, 720)]
    messages = [MESSAGE._replace(queue_offset=number) for number in numbers]
    messages[3] = messages[3]._replace(queue_offset=703 ^ (1 << 33))
    store = build_log(tmp_path / "s", messages, start=SEGMENT_BYTES << 20)
    (queue,) = rebuild.consume_queues(store, tmp_path / "n").queues
    assert (QueueKind.CONSUME_QUEUE, 700, 720) == (
        queue.kind, queue.first_queue_offset, queue.next_queue_offset,
    )  # fmt: skip
    assert (20, 1) == (queue.tally.units, queue.tally.misnumbered)


@pytest.mark.parametrize("in_place", [False, True])
def test_refusing_disk(store: Path, tmp_path: Path, *, in_place: bool) -> None:
    """A disk that is full from some moment on: an error, the store as it was, no output."""
    before = snapshot(store)
    output = None if in_place else tmp_path / "new"
    full = faults.Faults(100, faults.no_space)
    with full.injected(), pytest.raises(WriteFailed) as error:
        rebuild.all(store, output, in_place=in_place)
    assert errno.ENOSPC == error.value.errno
    assert before == snapshot(store)
    assert ["store"] == [path.name for path in tmp_path.iterdir()]


def test_full_disk(store: Path, tmp_path: Path) -> None:
    """On a real full disk the command ends with 2, and the disk is as empty as before."""
    small = tmp_path / "small"
    small.mkdir()
    new = small / "new"
    program = (
        f"mount -t tmpfs -o size=64k none {small}\n"
        f"{sys.executable} -m rmqtool rebuild {store} --output {new} --quiet\n"
        f"echo $? $(ls -A {small} | wc -l) $(df --output=used {small} | tail -1)"
    )
    shell = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", program]
    run = subprocess.run(shell, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if "ermitted" in run.stderr or "No such file" in run.stderr:
        pytest.skip("no file system can be mounted here")
    assert ["2", "0", "0"] == run.stdout.split(), run.stderr
    assert "No space left" in run.stderr


def test_result_says_where(store: Path) -> None:
    """What is lost is in the order of the log."""
    inflict.remove_segment(1)(store)
    inflict.garbage(where=0.1, length=500)(store)
    result: RebuildResult = rebuild.index(store, dry_run=True)
    starts = [lost.physical_offset for lost in result.lost]
    assert sorted(starts) == starts
    assert 2 <= len(starts)
