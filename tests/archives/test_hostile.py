"""An archive of a stranger: names, numbers and sizes that lie, and archives that are not whole."""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.archives import members
from rmqtool.archives.opening import OpenArchives, opening
from rmqtool.archives.stream import Stream
from rmqtool.archives.tarred import EXTENSION_BYTES
from rmqtool.cli.exits import DONE, IN_PART, NOT_DONE
from rmqtool.cli.main import main
from rmqtool.errors import RmqtoolError, UnreadablePath, WriteFailed
from rmqtool.store.entry import EntryKind, stored_bytes
from rmqtool.store.place import Place
from rmqtool.writing import temporary_copy
from rmqtool.writing.temporary_copy import TemporaryCopy
from tests.archives.packed import END, PACKERS, block, header
from tests.stores import fixture_store


def read(path: Path, raw: bytes, limit: int | None = None) -> tuple[OpenArchives, Place]:
    """Open an archive of some bytes; it stays open until the next one."""
    path.write_bytes(raw)
    with opening(limit) as opened:
        top = opened.add(str(path), lambda _: None)
        walk(top)
        return opened, top


def walk(place: Place) -> int:
    """Read all that is below a place; count the bytes."""
    total = 0
    for entry in place.entries():
        below = place.child(entry.name)
        if entry.kind is EntryKind.DIRECTORY:
            total += walk(below)
        elif entry.kind is EntryKind.FILE:
            with below.open() as file:
                total += len(file.read_at(0, min(file.size, 1 << 20)))
        elif entry.kind is EntryKind.LINK:
            try:
                below.resolved().stat()
            except UnreadablePath:
                continue
    return total


NAMES = {
    "../../evil": "'..' in its name",
    "store/../../evil": "'..' in its name",
    "a/" * 70 + "evil": "its name is too long",
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", ["tar", "zip"])
def test_names(tmp_path: Path, name: str, ending: str) -> None:
    """A name that leads out of the archive is left out, said, and makes it incomplete."""
    raw = io.BytesIO()
    if ending == "tar":
        with tarfile.open(fileobj=raw, mode="w") as tar:
            tar.addfile(tarfile.TarInfo(name))
    else:
        with zipfile.ZipFile(raw, "w") as packed:
            packed.writestr(name, b"")
    target = tmp_path / "in" / f"s.{ending}"
    target.parent.mkdir()
    opened, _ = read(target, raw.getvalue())
    assert not opened.is_whole
    assert NAMES[name] in opened.notes[0]
    assert [target] == [*target.parent.iterdir()]
    assert [target.parent] == [*tmp_path.iterdir()]


def test_absolute(tmp_path: Path) -> None:
    """An absolute name (tar -P) is a name in the archive."""
    raw = header("/etc/passwd", 4) + block(b"root") + END
    path = tmp_path / "s.tar"
    path.write_bytes(raw)
    with opening() as opened:
        top = opened.add(str(path), lambda _: None)
        assert top.child("etc").child("passwd").read(10) == b"root"
        assert opened.is_whole


def test_others(tmp_path: Path) -> None:
    """Devices and FIFOs are never opened; a file below a link or file is left out."""
    raw = b"".join(
        [
            header("fifo", kind=tarfile.FIFOTYPE),
            header("device", kind=tarfile.CHRTYPE),
            header("link", kind=tarfile.SYMTYPE, link="/etc"),
            header("link/passwd", 4) + block(b"evil"),
            header("hard", kind=tarfile.LNKTYPE, link="/etc/passwd"),
            END,
        ]
    )
    path = tmp_path / "s.tar"
    path.write_bytes(raw)
    with opening() as opened:
        top = opened.add(str(path), lambda _: None)
        for name in ("fifo", "device", "link"):
            with pytest.raises(UnreadablePath):
                top.child(name).open()
        assert ["device", "fifo", "link"] == [name for name, _ in top.names()]
        assert [
            f"{path}!link/passwd: lies below a file or link of the same archive: left out",
            f"{path}!hard: a hard link to no file of the archive: left out",
        ] == opened.notes[:2]


def test_twice(tmp_path: Path) -> None:
    """Of a name that comes twice the last one is read, and it is said."""
    raw = header("a", 1) + block(b"1") + header("a", 1) + block(b"2") + END
    path = tmp_path / "s.tar"
    path.write_bytes(raw)
    with opening() as opened:
        assert opened.add(str(path), lambda _: None).child("a").read(2) == b"2"
        assert f"{path}!a: comes more than once: the last one is read" == opened.notes[0]


def pax(size: int, records: bytes) -> bytes:
    """Give an extended header that claims a size."""
    return header("x", size, tarfile.XHDTYPE) + block(records)


def record(text: bytes) -> bytes:
    """Give one record of an extended header."""
    length = len(text) + 3
    length += len(str(length)) - 1
    return b"%d %s\n" % (length, text)


BOMBS = {
    "long-name": header("x", 1 << 32, tarfile.GNUTYPE_LONGNAME) + bytes(1024),
    "pax": pax(1 << 33, b""),
    "large-pax": pax(2 * EXTENSION_BYTES, bytes(2 * EXTENSION_BYTES)),
    "pax-of-pax": pax(512, bytes(512)) * 3000,
    "negative": header("a")[:124] + b"\xff" * 12 + header("a")[136:],
    "negative-pax": pax(16, record(b"size=-1024")) + header("a", 0),
    "past-the-end": header("a", 1 << 60) + bytes(512),
    "sparse": pax(64, record(b"GNU.sparse.map=0,-5,3,7")) + header("a", 0),
    "not-a-number": header("a")[:124] + b"99999999999\0" + header("a")[136:],
    "damaged-header": header("a", 1) + block(b"1") + b"\x01" * 512 + END,
    "second-archive": header("a", 1) + block(b"1") + END + header("b", 1) + block(b"2") + END,
    "no-end": header("a", 1) + block(b"1"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_headers(tmp_path: Path, name: str) -> None:
    """Headers that lie end the reading; they cost neither memory nor time."""
    try:
        opened, _ = read(tmp_path / "s.tar", BOMBS[name])
    except UnreadablePath:
        return
    assert not opened.is_whole
    assert opened.notes[-1].endswith("s.tar is not whole: nothing in it is proven sound")


@pytest.mark.parametrize("ending", ["tar.gz", "zip"])
def test_bomb(tmp_path: Path, ending: str) -> None:
    """What unpacks to more than the limit is refused, before or while it is unpacked."""
    zeros = bytes(16 << 20)
    raw = io.BytesIO()
    if ending == "zip":
        with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
            packed.writestr("store/commitlog/0", zeros)
    else:
        raw.write(gzip.compress(zeros, 1))
    with pytest.raises(WriteFailed, match="unpacked, it has more than 1,048,576 bytes"):
        read(tmp_path / f"s.{ending}", raw.getvalue(), 1 << 20)


def test_limit_of_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a limit it is the size of the archive that bounds it; a hole has no size."""
    raw = gzip.compress(bytes(64 << 20), 1)
    monkeypatch.setattr(temporary_copy, "FREE_BYTES", 1 << 20)
    path = tmp_path / "s.tar.gz"
    with pytest.raises(WriteFailed, match=f"more than {(1 << 20) + 64 * len(raw):,} bytes"):
        read(path, raw)
    with path.open("wb") as file:
        file.write(raw)
        file.truncate(100 << 20)
    most = (1 << 20) + 64 * stored_bytes(path.stat())
    with pytest.raises(WriteFailed, match=f"more than {most:,} bytes"), opening() as opened:
        opened.add(str(path), lambda _: None)


def test_shared_bytes(tmp_path: Path) -> None:
    """Of two members of a zip that claim the same bytes one has them."""
    raw = zipped({"store/a": b"of a", "store/b": b"of b"})
    end = raw.rindex(b"PK\5\6")
    second = raw.index(b"PK\1\2", raw.index(b"PK\1\2") + 4)
    raw = raw[: second + 42] + bytes(4) + raw[second + 46 : end] + raw[end:]  # where its head is
    path = tmp_path / "s.zip"
    path.write_bytes(raw)
    with opening() as opened:
        store = opened.add(str(path), lambda _: None).child("store")
        names = [name for name, _ in store.names()]
        assert not opened.is_whole
        assert [b"of a"] == [store.child(name).read(9) for name in names if name == "a"]
        assert "b" not in names or not store.child("b").read(9)


def zipped(members: dict[str, bytes]) -> bytes:
    """Give a zip of some members."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    return raw.getvalue()


def tarred(members: dict[str, bytes]) -> bytes:
    """Give a tar of some members."""
    return b"".join(header(name, len(raw)) + block(raw) for name, raw in members.items()) + END


@pytest.mark.parametrize("levels", [2, 9])
@pytest.mark.parametrize("ending", ["tar", "tar.gz", "zip"])
def test_nested(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], ending: str, levels: int
) -> None:
    """An archive in an archive is not opened, which is said: what it would unpack to costs nothing.

    Nine levels of ten archives each would unpack to 10^9 files.
    """
    raw = bytes(1 << 16)
    for _ in range(levels):
        members = {f"{number}.{ending}": raw for number in range(10 if levels > 2 else 1)}
        raw = zipped(members) if ending == "zip" else tarred(members)
        raw = raw if ending == "tar" and levels == 2 else gzip.compress(raw, 1)
    path = tmp_path / f"s.{ending}"
    path.write_bytes(raw)
    for command in (("validate",), ("validate", "--recursive"), ("doctor",), ("info",), ("dump",)):
        has_rows = "--recursive" in command and ending != "zip"  # that is a zip in gzip at once
        expected = IN_PART if has_rows else NOT_DONE
        assert expected == main([command[0], str(path), *command[1:]]), command
        assert "unpack it first" in capfd.readouterr().err, command


def test_archive_beside_a_store(tmp_path: Path) -> None:
    """A store beside an archive in the same archive is read, and the archive is named."""
    raw = tarred({"store/commitlog/0": b"", "a/b.tar": END, "c.tar.gz": b"", "d.zip": b""})
    opened, _ = read(tmp_path / "s.tar", raw)
    assert opened.is_whole
    path = tmp_path / "s.tar"
    said = f"{path}!c.tar.gz (and 2 more): an archive in an archive is not opened: unpack it first"
    assert [said] == opened.notes


def test_declared(tmp_path: Path) -> None:
    """A zip that declares more or less than it has is not whole; what it has is read."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a", b"content")
    whole = raw.getvalue()
    for size in (3, 1000):
        found = whole.replace(struct.pack("<I", 7), struct.pack("<I", size))
        opened, _ = read(tmp_path / "s.zip", found)
        assert not opened.is_whole, size


def test_data_cut(tmp_path: Path) -> None:
    """Of a member whose data is cut off it is said how much there is."""
    opened, _ = read(tmp_path / "s.tar", header("a", 5000) + b"x" * 1000)
    assert f"{tmp_path / 's.tar'}!a: 1,000 of its 5,000 bytes are there" in opened.notes
    assert not opened.is_whole


def test_encrypted(tmp_path: Path) -> None:
    """An encrypted or a strangely packed member is left out and said."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as packed:
        packed.writestr("a", b"content")
    whole = bytearray(raw.getvalue())
    at = whole.index(b"PK\x01\x02")
    for position, value, reason in ((at + 8, 1, "is encrypted"), (at + 10, 99, "by method 99")):
        other = bytearray(whole)
        other[position] = value
        opened, _ = read(tmp_path / "s.zip", bytes(other))
        assert reason in " ".join(opened.notes)


def test_zip_links(tmp_path: Path) -> None:
    """A link in a zip stays inside."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as packed:
        link = zipfile.ZipInfo("config")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        packed.writestr(link, "/etc")
    path = tmp_path / "s.zip"
    path.write_bytes(raw.getvalue())
    with opening() as opened:
        top = opened.add(str(path), lambda _: None)
        assert str(top.child("config").resolved()) == f"{path}!etc"
        assert top.child("config").resolved().stat() is None


def test_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a number of members past which an archive is refused, directories counted."""
    monkeypatch.setattr(members, "MOST_MEMBERS", 50)
    raw = b"".join(header(f"{number}/{number}") for number in range(26)) + END
    with pytest.raises(UnreadablePath, match="more than 50 members"):
        read(tmp_path / "s.tar", raw)


def test_troubles_are_bounded(tmp_path: Path) -> None:
    """Of many members that are left out some are named, and the others counted."""
    raw = b"".join(header(f"../{number}") for number in range(1000)) + END
    opened, _ = read(tmp_path / "s.tar", raw)
    assert members.TROUBLES_NAMED + 2 == len(opened.notes)
    assert "980 more members are like these" in opened.notes[-2]


def test_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that gets full while an archive is unpacked ends it, with what to do."""
    monkeypatch.setattr(TemporaryCopy, "_spare", lambda _: 0)
    with pytest.raises(WriteFailed, match="is nearly full; TMPDIR names another one"):
        read(tmp_path / "s.tar.gz", gzip.compress(bytes(10240)), 1 << 30)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Give a store in every kind of archive."""
    top = tmp_path_factory.mktemp("packed")
    store = fixture_store("rocketmq-4.9.3-lmq", top)
    found = {}
    for name, pack in PACKERS.items():
        pack(store, top / name)
        found[name] = (top / name).read_bytes()
    return found


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("kept", [0.3, 0.6, 0.95])
def test_cut(tmp_path: Path, packed: dict[str, bytes], name: str, kept: float) -> None:
    """A cut archive is never whole, whatever could be read of it."""
    raw = packed[name]
    try:
        opened, _ = read(tmp_path / name, raw[: int(len(raw) * kept)])
    except UnreadablePath:
        assert "zip" in name.lower()  # its directory is its end
        return
    assert not opened.is_whole


def test_hole_behind_gzip(tmp_path: Path, packed: dict[str, bytes]) -> None:
    """Zeros behind a gzip are no part of it; a terabyte of them is not read, as it is a hole."""
    path, long = tmp_path / "s.tar.gz", 1 << 40
    path.write_bytes(packed["s.tar.gz"])
    os.truncate(path, long)
    with Place(str(path)).open() as source:
        for skips in (True, False):
            stream = Stream(source, 100, skips_hole=skips)
            stream.seek(long // 2)
            assert stream.read(9) == bytes(0 if skips else 9)
    assert main(["carve", str(path), "--output", str(tmp_path / "found.rmq")]) == DONE


@pytest.mark.parametrize("at", [0, 1, 2, 3, 9, 10, 11, 12, 40, -9, -5, -1])
def test_damaged_gzip(tmp_path: Path, packed: dict[str, bytes], at: int) -> None:
    """A byte of a gzip that differs, in its header, its blocks or its end, is damage."""
    raw = bytearray(packed["s.tar.gz"])
    raw[at] ^= 0xFF
    try:
        opened, _ = read(tmp_path / "s.tar.gz", bytes(raw))
    except UnreadablePath:
        assert at in {0, 1}  # then it is no gzip
        return
    assert opened.is_whole == (at == 9)  # byte 9 names the system that made it


@pytest.mark.parametrize("name", ["s.tar", "s.tar.gz", "s.tar.zst", "s.zip"])
@given(data=st.data())
def test_flipped(
    tmp_path_factory: pytest.TempPathFactory,
    packed: dict[str, bytes],
    name: str,
    data: st.DataObject,
) -> None:
    """Whatever bytes differ: it is read or refused, and nothing else happens."""
    raw = bytearray(packed[name])
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.getbasetemp() / f"flipped-{name}"
    try:
        read(path, bytes(raw), 64 << 20)
    except RmqtoolError:
        return


def test_never_sound(
    tmp_path: Path, packed: dict[str, bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a cut archive no command says that it is sound, and exit codes tell it."""
    path = tmp_path / "s.tar"
    raw = packed["s.tar"]
    path.write_bytes(raw[: raw.rindex(b"ustar") - 257])  # before its last member
    assert IN_PART == main(["validate", str(path)])
    said = capfd.readouterr().err
    assert "s.tar is not whole: nothing in it is proven sound" in said
    assert "sound:" not in said
    assert "incomplete:" in said
    assert IN_PART == main(["query", str(path), "--at", "0"])
    assert IN_PART == main(["info", str(path), "-q"])
    assert "is not whole" in capfd.readouterr().err
    (tmp_path / "s.zip").write_bytes(packed["s.zip"][:-100])
    assert NOT_DONE == main(["validate", str(tmp_path / "s.zip")])
