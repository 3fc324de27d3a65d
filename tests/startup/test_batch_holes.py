"""What consumers get of a batch queue with a hole: a broker finds its units by queue offset."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Final

import pytest

from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from tests import plain_store
from tests.inflict import write_at
from tests.startup.oracle import Oracle
from tests.startup.test_against_stores import ALWAYS, compare, predicted
from tests.stores import broker_conf, fixture_store, manifest

NAME: Final = "rocketmq-5.3.3-batch-queue"
QUEUE: Final = "batchconsumequeue/batch-queue/0"
UNIT: Final = 46
FILE: Final = 460  # bytes; the queue has four of them, and 177 messages

# Start of the file, zeros in it or none of it, whether the broker was killed, what is handed out.
HOLES: Final = (
    pytest.param(920, (0, 460), False, 0, id="file that recovery ends at"),
    pytest.param(920, (0, 460), True, 177, id="the same after a crash"),
    pytest.param(460, None, False, 40, id="lost file"),
    pytest.param(460, (92, 230), False, 48, id="units in the middle"),
    pytest.param(0, (0, 460), False, 0, id="first file"),
    pytest.param(0, (0, 46), False, 176, id="first unit"),
    pytest.param(1840, (0, 460), False, 0, id="a file more"),
    pytest.param(1840, (0, 460), True, 0, id="a file more after a crash"),
)
NOISE: Final = ("batch-queue", 0, 76)
REFUSED: Final = ("batch-queue", 0, 32)
FAR: Final = ("batch-queue", 0, 74)
FAR_BASE: Final = 7_061_644_215_716_937_887
SETTINGS: Final = {**manifest(NAME)["settings"], **ALWAYS}


def _noise(place: Path) -> Path:
    """Let one unit begin at 144 instead of 79, with 22,941 messages, and the next one be none."""
    place.mkdir()
    root = fixture_store(NAME, place)
    path = root / QUEUE / f"{460:020}"
    (base,) = struct.unpack_from(">q", path.read_bytes(), UNIT * 8 + 28)
    write_at(path, UNIT * 8 + 28, struct.pack(">qh", base + 65, 22_941))
    write_at(path, UNIT * 9, b"\xd5" * UNIT)
    return root


def _refused(place: Path) -> Path:
    """Let a record be shorter than nothing, for a pull throws that comes to it."""
    place.mkdir()
    root = fixture_store(NAME, place)
    write_at(root / QUEUE / f"{0:020}", UNIT * 9 + 8, b"\xe2")
    return root


def _far(place: Path) -> Path:
    """Let a unit begin so far away that the distance in bytes is below 0 in Java."""
    place.mkdir()
    root = fixture_store(NAME, place)
    write_at(root / QUEUE / f"{460:020}", UNIT * 6 + 28, struct.pack(">q", FAR_BASE))
    return root


def _damaged(place: Path, start: int, zeros: tuple[int, int] | None, is_killed: bool) -> Path:
    place.mkdir()
    root = fixture_store(NAME, place)
    path = root / QUEUE / f"{start:020}"
    if zeros is None:
        path.unlink()
    elif path.exists():
        write_at(path, zeros[0], bytes(zeros[1] - zeros[0]))
    else:
        path.write_bytes(bytes(FILE))
    if is_killed:
        (root / "abort").touch()
    return root


@pytest.mark.parametrize(("start", "zeros", "is_killed", "readable"), HOLES)
def test_readable(
    start: int, zeros: tuple[int, int] | None, is_killed: bool, readable: int, tmp_path: Path
) -> None:
    """The search of a broker gives a neighbour of what is not there, or sends consumers to 0."""
    root = _damaged(tmp_path / "store", start, zeros, is_killed)
    said = {
        (queue.topic, queue.queue_id): queue.readable
        for queue in predicted(root, "5.3.3", SETTINGS).queues
    }
    assert (readable, 176) == (said["batch-queue", 0], said["batch-queue", 1])


def test_noise(tmp_path: Path) -> None:
    """A pull that ends before a unit too large for it begins there again, and does not find it."""
    outcomes = predicted(_noise(tmp_path / "store"), "5.3.3", SETTINGS).queues
    assert NOISE in [(outcome.topic, outcome.queue_id, outcome.readable) for outcome in outcomes]


def test_size_below_zero(tmp_path: Path) -> None:
    """A pull that throws hands out none of its messages, as often as it is asked for."""
    outcomes = predicted(_refused(tmp_path / "store"), "5.3.3", SETTINGS).queues
    assert REFUSED in [(outcome.topic, outcome.queue_id, outcome.readable) for outcome in outcomes]


def test_far(tmp_path: Path) -> None:
    """A unit that is far away is handed out, and the next pull asks for what is past the end."""
    outcomes = predicted(_far(tmp_path / "store"), "5.3.3", SETTINGS).queues
    assert FAR in [(outcome.topic, outcome.queue_id, outcome.readable) for outcome in outcomes]


def _ahead(place: Path, *, is_killed: bool) -> Path:
    """Let queues be ahead of the log, whose last records never reached the disk."""
    place.mkdir()
    root = fixture_store(NAME, place)
    for record in plain_store.records(root)[-3:]:
        write_at(record.path, record.position, bytes(record.size))
    if is_killed:
        (root / "abort").touch()
    return root


@pytest.mark.parametrize(("is_killed", "severity"), [(True, "note"), (False, "damage")])
def test_ahead(is_killed: bool, severity: str, tmp_path: Path) -> None:
    """After a crash recovery cuts a queue that is ahead of the log, of each kind alike."""
    root = _ahead(tmp_path / "store", is_killed=is_killed)
    options = ValidateOptions(root, broker_conf=broker_conf(NAME))
    said = [(it.code, str(it.severity)) for it in validate(options) if it.code == "CQ-RANGE"]
    assert [("CQ-RANGE", severity)] * 2 == said


@pytest.mark.broker
def test_judged(oracle: Oracle, tmp_path: Path) -> None:
    """A real store hands out what is said of a queue: of a lost file, noise, and the like."""
    if oracle.jvm.version.startswith("4"):
        pytest.skip("has no batch queues")
    lost = _damaged(tmp_path / "lost", 460, None, is_killed=False)
    more = _damaged(tmp_path / "more", 1840, (0, FILE), is_killed=True)
    others = (_noise(tmp_path / "noise"), _refused(tmp_path / "refused"), _far(tmp_path / "far"))
    ahead = _ahead(tmp_path / "ahead", is_killed=True)
    for root in (lost, more, ahead, *others):
        opened = root.with_name("opened")
        shutil.copytree(root, opened)
        compare(oracle, root, opened, SETTINGS)
