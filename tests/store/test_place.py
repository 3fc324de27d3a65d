"""The seam to the file system: reads what is there, follows nothing, waits for nothing."""

from __future__ import annotations

import errno
import os
import pickle
import stat
import threading
from pathlib import Path

import pytest

from rmqtool.errors import UnreadablePath
from rmqtool.store import place as places
from rmqtool.store.entry import Entry, EntryKind, entry_of
from rmqtool.store.place import Place, metered

PATIENCE = 600.0  # seconds, on a busy machine
CONTENT = bytes(range(256))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A small file."""
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


def test_entries_are_sorted_and_typed(tmp_path: Path) -> None:
    """A listing is sorted by name, and a link is a link, whatever it leads to."""
    (tmp_path / "b").write_bytes(b"12345")
    (tmp_path / "a").mkdir()
    (tmp_path / "d").symlink_to(tmp_path / "b")
    os.mkfifo(tmp_path / "c")
    kinds = [EntryKind.DIRECTORY, EntryKind.FILE, EntryKind.OTHER, EntryKind.LINK]
    place = Place.of(tmp_path)
    assert list(zip("abcd", kinds, strict=True)) == place.names()
    assert place.names() == [(entry.name, entry.kind) for entry in place.entries()]
    assert place.entries()[1].size == 5


def test_reads_are_clipped(file: Path) -> None:
    """Whatever length is asked for, no more than the file is read or allocated."""
    with Place.of(file).open() as opened:
        assert len(CONTENT) == opened.size
        assert CONTENT[250:] == opened.read_at(250, 2**62)
        assert b"" == opened.read_at(256, 10)
        assert b"" == opened.read_at(-1, 10)
        assert b"" == opened.read_at(0, -5)


def test_read_into(file: Path) -> None:
    """A buffer is filled from a position on, and the rest of it stays as it is."""
    buffer = bytearray(b"." * 300)
    with Place.of(file).open() as opened:
        assert 256 - 100 == opened.read_into(buffer, 100)
        assert 0 == opened.read_into(buffer, 1000)
        assert 0 == opened.read_into(buffer, -1)
    assert CONTENT[100:] + b"." * 144 == bytes(buffer)


def test_file_cut_while_it_is_read(file: Path) -> None:
    """A file that is cut short while it is open gives fewer bytes, and no error."""
    with Place.of(file).open() as opened:
        os.truncate(file, 10)
        assert CONTENT[:10] == opened.read_at(0, 256)
        buffer = bytearray(256)
        assert 10 == opened.read_into(buffer, 0)
        assert b"" == opened.read_at(100, 10)


def test_file_grows_while_it_is_read(file: Path) -> None:
    """A file that grows while it is open gives no more than it had, and that much is counted."""
    buffer = bytearray(300)
    with Place.of(file).open() as opened, metered() as meter:
        file.write_bytes(CONTENT * 2)
        assert 256 - 100 == opened.read_into(buffer, 100) == meter.bytes
        assert CONTENT[100:] == opened.read_at(100, 300)
    assert 2 * (256 - 100) == meter.bytes
    assert CONTENT[100:] + bytes(144) == bytes(buffer)


def test_missing_place(tmp_path: Path) -> None:
    """What is not there has no entry, and cannot be opened or listed."""
    place = Place.of(tmp_path / "none")
    assert place.stat() is None
    with pytest.raises(UnreadablePath, match="no such file"):
        place.open()
    with pytest.raises(UnreadablePath, match="no such file"):
        place.entries()
    assert Place.of(tmp_path).child("x").child("y").stat() is None


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """A FIFO, a directory, a device and a link are refused, at once and with a reason."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "device").symlink_to("/dev/zero")
    reasons = {"fifo": "not a regular file", "directory": "a directory", "link": "a link"}
    for name, reason in reasons.items():
        with pytest.raises(UnreadablePath, match=reason):
            Place.of(tmp_path).child(name).open()
    with pytest.raises(UnreadablePath, match="not a regular file"):
        Place("/dev/zero").open()
    with pytest.raises(UnreadablePath, match="a link"):
        Place.of(tmp_path).child("device").open()


def test_file_replaced_by_fifo(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that turns into a FIFO between look and opening is refused and does not hang."""
    place = Place.of(file)
    seen = os.lstat(file)
    file.unlink()
    os.mkfifo(file)
    monkeypatch.setattr(os, "lstat", lambda _: seen)
    refusals: list[str] = []

    def open_it() -> None:
        with pytest.raises(UnreadablePath) as refused:
            place.open()
        refusals.append(refused.value.reason)

    opener = threading.Thread(target=open_it, daemon=True)
    opener.start()
    opener.join(PATIENCE)
    assert ["is not a regular file"] == refusals


@pytest.mark.parametrize("name", ["listdir", "open"])
def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What the system refuses becomes an UnreadablePath with its reason."""
    (tmp_path / "file").write_bytes(CONTENT)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    # Tests may run as root, whom no mode stops.
    monkeypatch.setattr(os, {"listdir": "scandir", "open": "open"}[name], refuse)
    place = Place.of(tmp_path)
    with pytest.raises(UnreadablePath, match="permission denied"):
        place.entries() if name == "listdir" else place.child("file").open()


def test_links_loop(tmp_path: Path) -> None:
    """A link into itself ends with a reason, where links are followed at all."""
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    place = Place.of(tmp_path)
    with pytest.raises(UnreadablePath, match="loop"):
        place.child("a").resolved()
    with pytest.raises(UnreadablePath, match="a link"):
        place.child("a").open()


def test_link_is_resolved_on_request(tmp_path: Path, file: Path) -> None:
    """`resolved` follows, `stat` does not."""
    (tmp_path / "link").symlink_to(file)
    place = Place.of(tmp_path).child("link")
    entry = place.stat()
    assert entry is not None
    assert entry.kind is EntryKind.LINK
    assert CONTENT == place.resolved().read(1000)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """A name of any bytes can be listed, opened and printed."""
    raw = os.fsencode(tmp_path) + b"/\xff\n\x1b[31m"
    Path(os.fsdecode(raw)).write_bytes(CONTENT)
    ((name, kind),) = Place.of(tmp_path).names()
    place = Place.of(tmp_path).child(name)
    assert (EntryKind.FILE, CONTENT) == (kind, place.read(1000))
    assert "\\xff\n" in str(place)
    str(place).encode()  # no lone surrogates


def test_nul_in_a_path() -> None:
    """A NUL in a path is a reason, no crash."""
    with pytest.raises(UnreadablePath):
        Place.of("/tmp/\0")  # noqa: S108 - never opened
    with pytest.raises(UnreadablePath):
        Place("/tmp/\0").stat()  # noqa: S108 - never opened


def test_places_travel(tmp_path: Path) -> None:
    """A place can be sent to another process; an open file says that it cannot."""
    place = Place.of(tmp_path).child("file")
    (tmp_path / "file").write_bytes(b"")
    assert place == pickle.loads(pickle.dumps(place))  # noqa: S301 - our own bytes
    with place.open() as opened, pytest.raises(TypeError, match="send its Place"):
        pickle.dumps(opened)


def test_holes(tmp_path: Path) -> None:
    """Holes of a sparse file are found where the file system knows them."""
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 20)
        file.seek(1 << 19)
        file.write(b"x")
    with Place.of(path).open() as opened:
        data = opened.next_data(0)
        assert data is not None
        assert data <= 1 << 19 < opened.next_hole(data) <= 1 << 20
        if data:  # the file system has holes
            assert opened.next_data((1 << 20) - 1) is None
    assert stat.S_ISREG(path.stat().st_mode)


def test_holes_that_nobody_knows(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a file system does not tell holes, everything counts as data."""

    def refused(*_: int) -> int:
        raise OSError(errno.EINVAL, "no holes here")

    with Place.of(file).open() as opened:
        monkeypatch.setattr(os, "lseek", refused)
        assert (7, len(CONTENT)) == (opened.next_data(7), opened.next_hole(7))


def test_times_of_files(file: Path) -> None:
    """A last change is given in ms, and not rounded up."""
    os.utime(file, ns=(0, 1_700_000_000_123_999_999))
    entry = Place.of(file).stat()
    assert entry is not None
    assert 1_700_000_000_123 == entry.mtime_ms


def test_names_that_vanish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory is listed anew while names vanish: none is there whose elders are not."""
    for number in range(6):
        (tmp_path / str(number)).touch()
    asked: list[str] = []

    def expiring(found: os.DirEntry[str]) -> Entry | None:
        if found.name in {"1", "4"} and found.name not in asked:
            asked.append(found.name)
            for name in map(str, range(int(found.name) + 1)):  # the oldest ones
                (tmp_path / name).unlink(missing_ok=True)
        return entry_of(found)

    monkeypatch.setattr(places, "entry_of", expiring)
    assert ["5"] == [entry.name for entry in Place.of(tmp_path).entries()]
    assert {"1", "4"} == {*asked}
