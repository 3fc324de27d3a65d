"""What is read in an archive is what is read in the store."""

from __future__ import annotations

import hashlib
import os
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rmqtool.archives.opening import OpenArchives, opening
from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.cli.main import main
from rmqtool.errors import UnreadablePath
from rmqtool.store.address import archive_of, place_of
from rmqtool.store.entry import EntryKind
from rmqtool.store.place import Place
from rmqtool.store.rocksdb_database import MOST_COPIED
from rmqtool.store.tree import open_store
from rmqtool.writing import temporary_copy as scratch
from tests.archives.packed import PACKERS, as_tar, as_tar_gz, gnu_tar
from tests.stores import fixture_store


def open_archive(path: Path, opened: OpenArchives) -> Place:
    """Give the top of an archive."""
    return opened.add(str(path), lambda _: None)


def digests(place: Place, path: str = "") -> dict[str, tuple[str, int, int]]:
    """Give digest, size and time in seconds of each file below a place."""
    found: dict[str, tuple[str, int, int]] = {}
    for entry in place.entries():
        below = place.child(entry.name)
        if entry.kind is EntryKind.DIRECTORY:
            found |= digests(below, f"{path}{entry.name}/")
        else:
            with below.open() as file:
                digest = hashlib.sha256(file.read_at(0, file.size)).hexdigest()
            found[f"{path}{entry.name}"] = (digest, entry.size, entry.mtime_ms // 2000)
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store; it is only read."""
    return fixture_store("rocketmq-4.9.3-lmq", tmp_path_factory.mktemp("store"))


def found_in(path: str) -> list[dict[str, object]]:
    """Validate a store."""
    findings = validate(ValidateOptions(path))
    rows = [finding.row() for finding in findings]
    assert (path, findings.summary.account.unread) == (findings.location, {})
    return rows


@pytest.mark.parametrize("name", PACKERS)
def test_same(store: Path, tmp_path: Path, name: str) -> None:
    """Every kind of archive has the files of the store, and the same is found in them."""
    PACKERS[name](store, tmp_path / name)
    with opening() as opened:
        top = open_archive(tmp_path / name, opened)
        inner = "backup/store" if name in {"s.tar.gz", "s.tgz", "s.tar.zst"} else "store"
        assert opened.is_whole
        if "zip" not in name.lower():  # a zip has local times
            assert digests(Place.of(store)) == digests(top.child(inner))
        path = f"{tmp_path / name}!{inner}"
        assert found_in(str(store)) == found_in(path)
    with pytest.raises(UnreadablePath):
        open_store(path)


@pytest.mark.parametrize("kind", ["v7", "oldgnu", "ustar"])
def test_old_formats(tmp_path: Path, kind: str) -> None:
    """What tar wrote before POSIX has no magic number: the checksum of its header tells."""
    store = fixture_store("rocketmq-5.3.3-crash", tmp_path)
    gnu_tar(tmp_path / "s.tar", tmp_path, f"--format={kind}", "store")
    assert (b"ustar" in (tmp_path / "s.tar").read_bytes()[:512]) is (kind != "v7")
    with opening() as opened:
        top = open_archive(tmp_path / "s.tar", opened)
        assert digests(Place.of(store)) == digests(top.child("store"))


def test_rocksdb(tmp_path: Path) -> None:
    """Databases in an archive are read, too."""
    store = fixture_store("rocketmq-5.5.0-rocksdb", tmp_path)
    as_tar(store, tmp_path / "s.tar")
    with opening() as opened:
        open_archive(tmp_path / "s.tar", opened)
        assert found_in(str(store)) == found_in(f"{tmp_path}/s.tar!store")


def test_long_tables(tmp_path: Path) -> None:
    """Of an archive so much of a database is copied, and no more: a hole costs nothing to make."""
    store = fixture_store("rocketmq-5.5.0-rocksdb", tmp_path)
    table = next((store / "consumequeue").glob("*.sst"))
    os.truncate(table, MOST_COPIED + 1)
    gnu_tar(tmp_path / "s.tar", tmp_path, "-S", "store")
    with opening() as opened:
        open_archive(tmp_path / "s.tar", opened)
        findings = validate(ValidateOptions(f"{tmp_path}/s.tar!store"))
        paths = {finding.path for finding in findings}
    assert f"consumequeue/{table.name}" in paths
    assert findings.exit_code == 3
    assert "are made: unpack it" in findings.summary.account.unread["consumequeue"].reason


def test_sparse(tmp_path: Path) -> None:
    """Holes of a sparse member are zeros, and are told as holes."""
    data = b"x" * 5000
    source = tmp_path / "commitlog" / ("0" * 20)
    source.parent.mkdir()
    with source.open("wb") as file:
        file.seek(1 << 20)
        file.write(data)
        file.truncate(8 << 20)
    packed = gnu_tar(tmp_path / "s.tar", tmp_path, "-S", "commitlog")
    assert packed.stat().st_size < 1 << 20
    with opening() as opened:
        place = open_archive(packed, opened).child("commitlog").child("0" * 20)
        with place.open() as member, Place.of(source).open() as local:
            assert (member.size, 8 << 20) == (local.size, member.size)
            buffer, same = bytearray(8 << 20), bytearray(8 << 20)
            assert member.read_into(buffer, 0) == local.read_into(same, 0)
            assert buffer == same
            assert member.read_at((1 << 20) + 4990, 20) == b"x" * 10 + bytes(10)
            first = member.next_data(0)
            assert first is not None
            assert first <= 1 << 20 < member.next_hole(first)
            assert member.next_data(4 << 20) is None
            assert member.next_hole(0) == 0


def test_links(tmp_path: Path) -> None:
    """A link leads to what the archive has, by relative and by absolute paths, and nowhere else."""
    moved = tmp_path / "disk2" / "log"
    moved.mkdir(parents=True)
    (moved / ("0" * 20)).write_bytes(bytes(4096))
    inner = tmp_path / "store"
    inner.mkdir()
    (inner / "commitlog").symlink_to("/disk2/log")
    (inner / "index").symlink_to("../disk2/log")
    (inner / "config").symlink_to("/etc")
    (inner / "loop").symlink_to("loop")
    packed = gnu_tar(tmp_path / "s.tar", tmp_path, "store", "disk2")
    with opening() as opened:
        root = open_archive(packed, opened).child("store")
        for name in ("commitlog", "index"):
            assert [("0" * 20, EntryKind.FILE)] == root.child(name).resolved().names()
        assert root.child("config").resolved().stat() is None
        assert str(root.child("config").resolved()) == f"{packed}!etc"
        with pytest.raises(UnreadablePath, match="loop"):
            root.child("loop").resolved()
        with pytest.raises(UnreadablePath, match="link"):
            root.child("commitlog").open()


def test_hard_links(tmp_path: Path) -> None:
    """A second name of a file has the same content: checkpoints of RocksDB are made of them."""
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    packed = gnu_tar(tmp_path / "s.tar", tmp_path, "a", "b")
    with opening() as opened:
        assert open_archive(packed, opened).child("b").read(100) == b"content"
        assert opened.is_whole


def test_owner(tmp_path: Path) -> None:
    """Owner and mode are those in the archive."""
    (tmp_path / "checkpoint").write_bytes(bytes(10))
    (tmp_path / "checkpoint").chmod(0o640)
    names = ("--owner=:7001", "--group=:7002", "checkpoint")
    packed = gnu_tar(tmp_path / "s.tar", tmp_path, *names)
    with opening() as opened:
        entry = open_archive(packed, opened).child("checkpoint").stat()
    assert entry is not None
    assert (7001, 7002, 0o100640) == (entry.owner, entry.group, entry.mode)


def test_time_of_zip(tmp_path: Path) -> None:
    """A member of a zip was changed when the zip says, read as UTC."""
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as packed:
        packed.writestr(zipfile.ZipInfo("a", (2024, 2, 29, 13, 30, 58)), b"content")
    with opening() as opened:
        (entry,) = open_archive(tmp_path / "s.zip", opened).entries()
    assert datetime(2024, 2, 29, 13, 30, 58, tzinfo=UTC).timestamp() * 1000 == entry.mtime_ms


def test_no_directory(tmp_path: Path) -> None:
    """What is no directory of an archive is not listed, and the reason is that it is none."""
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as packed:
        packed.writestr("a", b"content")
    with opening() as opened:
        top = open_archive(tmp_path / "s.zip", opened)
        for name, reason in (("a", "not a directory"), ("b", "no such file or directory")):
            for listing in (top.child(name).names, top.child(name).entries):
                with pytest.raises(UnreadablePath, match=f"s.zip!{name}: {reason}"):
                    listing()


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("a.tar", ("a.tar", "")),
        ("/x/a.tar.gz!store/commitlog", ("/x/a.tar.gz", "store/commitlog")),
        ("a.TGZ!/store/", ("a.TGZ", "store")),
        ("a.zip", ("a.zip", "")),
        ("a.tar/store", None),
        ("store", None),
        ("a.gz", None),
        ("x.tar.d", None),
    ],
)
def test_meant(path: str, meant: tuple[str, str] | None) -> None:
    """An ending says that an archive is meant, before ! or the end."""
    assert meant == archive_of(path)


def test_temporary(tmp_path: Path) -> None:
    """What is unpacked never has a name, and an interruption frees it."""
    (tmp_path / "a").write_bytes(b"content")
    as_tar_gz(tmp_path / "a", tmp_path / "s.tar.gz")
    place = Path(scratch.place_for("x")).parent
    seen: list[object] = []

    def interrupt(_: int) -> None:
        seen.append((oct(place.stat().st_mode & 0o777), {*place.iterdir()} - others))
        raise KeyboardInterrupt

    others = {*place.iterdir()}  # what a test before this one left there
    before = len([*Path("/proc/self/fd").iterdir()])
    with pytest.raises(KeyboardInterrupt), opening() as opened:
        opened.add(str(tmp_path / "s.tar.gz"), interrupt)
    assert [("0o700", set())] == seen
    assert before == len([*Path("/proc/self/fd").iterdir()])
    assert place_of(str(tmp_path / "s.tar.gz!a")) == Place(f"{tmp_path}/s.tar.gz!a")


def test_once(tmp_path: Path) -> None:
    """Two paths in one archive are one reading of it."""
    (tmp_path / "a").write_bytes(b"content")
    as_tar(tmp_path / "a", tmp_path / "s.tar")
    with opening() as opened:
        first = open_archive(tmp_path / "s.tar", opened)
        assert first == open_archive(tmp_path / "s.tar", opened)
        assert isinstance(place_of(f"{tmp_path}/s.tar!store"), type(first))


def test_of_options(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An archive lends what a repair in place needs; it says what is lost, as its store does."""
    store = fixture_store("rocketmq-5.3.3-crash", tmp_path)
    whole = tmp_path / "whole.tar"
    as_tar(store, whole)
    segment = store / "commitlog" / ("0" * 20)
    sound = segment.read_bytes()
    segment.write_bytes(sound[:30_000] + bytes(100) + sound[30_100:])
    as_tar(store, tmp_path / "damaged.tar")
    there = str(tmp_path / "lost.jsonl")
    assert (
        main(["extract", str(whole), "--lost-in", f"{tmp_path}/damaged.tar", "--output", there])
        == 0
    )
    assert len(Path(there).read_text().splitlines()) == 1
    assert main(["repair", str(store), "--from", str(whole), "--in-place", "--yes"]) == 0
    assert segment.read_bytes() == sound
    assert "Traceback" not in capfd.readouterr().err
