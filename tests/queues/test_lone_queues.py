"""Queues that are alone in their directories: kernels read what Python reads, and miss nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.machine import calls
from rmqtool.machine.calls import Calls
from rmqtool.queues import lone_queues as reading
from rmqtool.queues.lone_kernels import COUNT, MOST_DATA, QUEUE_ID
from rmqtool.queues.lone_queues import LoneQueues, lone_queues
from rmqtool.queues.short import short_queues
from rmqtool.store.place import Place, count_read
from rmqtool.store.queues import QueueFamily
from rmqtool.store.refused import refused_reads
from tests.store.faults import before_call

LENGTH: Final = 200_000  # bytes of a file: 10,000 units
NAME: Final = "0" * 20
UNIT: Final = bytes(range(1, 21))
FUNCTIONS: Final = ("openat", "getdents64", "statx", "lseek", "pread")


@pytest.fixture(autouse=True)
def _no_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have kernels read a few queues, too: that is what is looked at here."""
    monkeypatch.setattr(reading, "FEW", 0)


def by_python(places: list[Place]) -> list[LoneQueues]:
    """Read them without kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "calls", lambda: None)
        return [*lone_queues(places, LENGTH)]


def known(queues: LoneQueues) -> dict[int, tuple[list[int], bytes]]:
    """Give all that is known of each queue, by its number."""
    ends = (np.cumsum(queues.facts[:, COUNT]) * 20).tolist()
    begins = [0, *ends]
    return {
        int(facts[QUEUE_ID]): (facts.tolist(), queues.units[begin:end])
        for facts, begin, end in zip(queues.facts, begins[:-1], ends, strict=True)
    }


def make(directory: Path, pieces: dict[int, bytes], *, length: int = LENGTH) -> Path:
    """Make the directory of a queue, with a sparse file that holds some pieces."""
    directory.mkdir(parents=True)
    with (directory / NAME).open("wb") as file:
        for position, data in pieces.items():
            file.seek(position)
            file.write(data)
        file.truncate(length)
    return directory / NAME


def make_odd(topic: Path) -> None:
    """Make queues of all kinds, numbered from 1 on, and what is no queue."""
    make(topic / "1", {0: UNIT * 7})
    make(topic / "2", {})
    make(topic / "3", {0: UNIT, 81_920: UNIT})  # data in two places
    make(topic / "4", {0: UNIT}, length=LENGTH - 20)
    make(topic / "5", {0: UNIT})
    (topic / "5" / "else").touch()
    make(topic / "6", {}).rename(topic / "6" / "00000000000000200000")
    make(topic / "7", {0: UNIT}).rename(topic / "7" / "00000000000000000020")
    make(topic / "8", {0: UNIT}).rename(topic / "8" / NAME[1:])
    make(topic / "9", {0: UNIT}).rename(topic / "9" / "99999999999999999999")
    (topic / "10").mkdir()
    os.mkfifo(topic / "10" / NAME)
    (topic / "11").mkdir()
    (topic / "11" / NAME).symlink_to(topic / "1" / NAME)
    (topic / "12" / NAME).mkdir(parents=True)
    (topic / "13").mkdir()
    (topic / "14").symlink_to(topic / "1")
    (topic / "15").touch()
    make(topic / "16", {0: UNIT * (MOST_DATA // 20 + 1)})
    make(topic / "17", {8192: UNIT * 3})  # after a hole that ends within a unit
    make(topic / "18", {0: bytes(60) + UNIT + bytes(20) + UNIT[:3]})
    make(topic / "19", {196_608: b"\1" * 3392})  # to the end of the file
    for name in ("01", "+20", "20 ", "2147483648", "99999999999", "x", "-1", "\u0663"):
        make(topic / name, {0: UNIT})
    make(topic / "2147483647", {0: UNIT})
    make(topic / "0", {0: UNIT})


def test_odd_ones(tmp_path: Path) -> None:
    """What is no lone regular file of the right length and name is left out; the others agree."""
    make_odd(tmp_path / "one")
    make_odd(tmp_path / "two")
    places = [Place.of(tmp_path / name) for name in ("one", "none", "two")]
    read = [known(queues) for queues in lone_queues(places, LENGTH)]
    assert read == [known(queues) for queues in by_python(places)]
    assert {0, 1, 2, 6, 17, 18, 19, 2147483647} == {*read[0]} == {*read[2]}
    assert {} == read[1]


@given(
    st.dictionaries(
        st.integers(0, LENGTH - 100), st.binary(min_size=1, max_size=90), min_size=1, max_size=3
    )
)
def test_any_content(pieces: dict[int, bytes]) -> None:
    """Whatever lies wherever in a file, kernels give the units that Python gives."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        make(directory / "topic" / "3", dict(sorted(pieces.items())))
        places = [Place.of(directory / "topic")]
        (read,), (wanted,) = lone_queues(places, LENGTH), by_python(places)
        assert known(wanted) == known(read)


def test_many(tmp_path: Path) -> None:
    """More than one listing, and more units than a kernel has room for, come to the same."""
    sizes = {number: (number * 37) % 3000 for number in range(1500)}
    for number, size in sizes.items():
        make(tmp_path / "topic" / str(number), {0: UNIT * size} if size else {})
    (read,) = lone_queues([Place.of(tmp_path / "topic")], LENGTH)
    assert sizes == {number: len(units) // 20 for number, (_, units) in known(read).items()}
    assert sum(sizes.values()) * 20 > reading.UNIT_BYTES * 2


@pytest.mark.parametrize("few", [5, 6])
def test_few(few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few queues are read without kernels: it comes to the same."""
    for number in range(6):
        make(tmp_path / f"topic{number // 2}" / str(number), {0: UNIT * number})
    places = [Place.of(tmp_path / f"topic{number}") for number in (0, 1, 7, 2)]
    wanted = [known(queues) for queues in by_python(places)]
    by_kernel: list[Place] = []
    plain = reading._read  # noqa: SLF001 - what calls the kernels

    def counting(functions: Calls, place: Place, *rest: Any) -> object:  # noqa: ANN401
        by_kernel.append(place)
        return plain(functions, place, *rest)

    monkeypatch.setattr(reading, "_read", counting)
    monkeypatch.setattr(reading, "FEW", few)
    assert wanted == [known(queues) for queues in lone_queues(places, LENGTH)]
    assert {5: 4, 6: 0}[few] == len(by_kernel)


@pytest.mark.parametrize("short", [0, 2, 3])
def test_in_vain(short: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none of the first queues has little data, no other topic's are looked at."""
    monkeypatch.setattr(reading, "FEW", 6)
    monkeypatch.setattr(reading, "SAMPLE", 3)
    monkeypatch.setattr(reading, "MOST_DATA", 5_000)
    for number in range(6):
        units = 1 if number == short or number > 3 else 400
        make(tmp_path / f"topic{number // 2}" / str(number), {0: UNIT * units})
    places = [Place.of(tmp_path / f"topic{number}") for number in range(3)]
    read = [sorted(known(queues)) for queues in lone_queues(places, LENGTH)]
    assert {0: [[0], [], [4, 5]], 2: [[], [2], [4, 5]], 3: [[], [3], [4, 5]]}[short] == read
    monkeypatch.setattr(reading, "SAMPLE", 2)
    read = [sorted(known(queues)) for queues in lone_queues(places, LENGTH)]
    assert {0: [[0], [], [4, 5]]}.get(short, [[], [], []]) == read


@pytest.mark.parametrize("is_kernel", [True, False])
def test_no_more_than_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_kernel: bool
) -> None:
    """What would take too much memory is left to who reads queue by queue."""
    monkeypatch.setattr(reading, "MOST_BYTES", 100_000)
    monkeypatch.setattr(reading, "UNIT_BYTES", 20_000)
    for number in range(300):
        make(tmp_path / f"topic{number % 3}" / str(number), {0: UNIT * 100})
    places = [Place.of(tmp_path / f"topic{number}") for number in range(3)]
    read = [*lone_queues(places, LENGTH)] if is_kernel else by_python(places)
    assert 100_000 <= sum(len(queues.units) for queues in read) < 200_000
    for queues in read:
        assert {UNIT * 100} >= {units for _, units in known(queues).values()}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_refused(name: str, number: int, tmp_path: Path) -> None:
    """What the system refuses a kernel is asked for again: nothing is taken for what it is not."""
    for queue in range(4):
        make(tmp_path / "topic" / str(queue), {0: UNIT * (queue + 1)})
    places = [Place.of(tmp_path / "topic")]
    wanted = known(by_python(places)[0])
    times: list[int] = []

    def refuse(_: int) -> None:
        times.append(number)
        if len(times) == number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with refused_reads() as told, before_call(name, refuse):
        (read,) = lone_queues(places, LENGTH)
    assert len(times) >= number
    if name == "getdents64" and number == 1:  # the topic itself
        assert ({}, [str(tmp_path / "topic")]) == (known(read), [*told])
    else:
        assert wanted == known(read)
        assert not told


@pytest.mark.parametrize("which", ["pread", "scandir"])
def test_a_disk_that_refuses(which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad sector is named, though who looks at the queue afterwards may be luckier."""
    for queue in range(4):
        make(tmp_path / "topic" / str(queue), {0: UNIT})
    plain: Callable[..., Any] = getattr(os, which)
    failed: list[int] = []

    def failing(handle: int, *arguments: int) -> object:
        if not failed:
            failed.append(handle)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return plain(handle, *arguments)

    monkeypatch.setattr(os, which, failing)
    with refused_reads() as told:
        (read,) = by_python([Place.of(tmp_path / "topic")])
    assert (3 if which == "pread" else 0) == len(known(read))
    (path,) = told
    assert path.startswith(str(tmp_path / "topic"))


def test_by_rights(tmp_path: Path) -> None:
    """Each directory and file is named once, by whose it is; all may differ."""
    root = tmp_path / "consumequeue"
    for number in range(60):
        file = make(root / f"topic{number % 2}" / str(number), {0: UNIT})
        file.chmod(0o600 + number % 8)
        file.parent.chmod(0o700 + number % 5)
    short = short_queues(QueueFamily(Place.of(root), "consumequeue", LENGTH))
    seen = {}
    for (mode, owner, group), count, paths in short.by_rights():
        named = [*paths()]
        assert len(named) == count
        for path in named:
            facts = (tmp_path / path).stat()
            assert (mode, owner, group) == (facts.st_mode, facts.st_uid, facts.st_gid)
            assert path not in seen
            seen[path] = mode
    assert 120 == len(seen)


def test_bytes_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What kernels read is counted as what Python reads."""
    make(tmp_path / "topic" / "1", {0: UNIT * 7})
    places = [Place.of(tmp_path / "topic")]
    counted: list[int] = []

    def counting(length: int) -> None:
        counted.append(length)
        count_read(length)

    monkeypatch.setattr(reading, "count_read", counting)
    [*lone_queues(places, LENGTH)]
    assert 4096 == sum(counted)
