"""Stores on remote file systems: the same answers as from the local copy, read by ranges."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.cli.engines import EngineChoice, decide
from rmqtool.errors import UnreadablePath
from rmqtool.store.address import place_of
from rmqtool.store.entry import Entry, EntryKind
from rmqtool.store.place import Place, is_remote
from rmqtool.store.remote import LARGEST_READ_BYTES, SMALLEST_READ_BYTES, RemotePlace
from rmqtool.store.remote_listing import Listing, listed_once
from rmqtool.store.tree import open_store
from tests.s3_server import BUCKET, S3Server, s3_server
from tests.stores import fixture_store

NAME = "rocketmq-5.3.3-lmq"
CONTENT = bytes(range(256)) * 1024 * 80  # 20 MiB: larger than the largest read


@pytest.fixture
def server() -> S3Server:
    """The S3 server, its log empty."""
    found = s3_server()
    found.requests.clear()
    return found


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """An object of 20 MiB."""
    directory = tmp_path_factory.mktemp("large")
    (directory / "large").write_bytes(CONTENT)
    return place_of(s3_server().put(directory, "tree")).child("large")


def listed(place: Place, above: str = "") -> dict[str, tuple[EntryKind, int]]:
    """Give all files below a place with their sizes."""
    found: dict[str, tuple[EntryKind, int]] = {}
    for entry in place.entries():
        path = f"{above}{entry.name}"
        if entry.kind is EntryKind.DIRECTORY:
            found |= listed(place.child(entry.name), f"{path}/")
        else:
            found[path] = (entry.kind, entry.size)
    return found


def test_same_entries(tmp_path: Path, server: S3Server) -> None:
    """A store in a bucket has the names and sizes of the local one, and no empty directories."""
    store = fixture_store(NAME, tmp_path)
    remote = place_of(server.put(store, "entries"))
    assert listed(place_of(store)) == listed(remote)


def test_same_branches(tmp_path: Path, server: S3Server) -> None:
    """What is recognised in a bucket is what is recognised on the disk."""
    local = fixture_store(NAME, tmp_path)
    remote = open_store(server.put(local, "branches"))
    assert [(artefact.kind, artefact.path) for artefact in open_store(local).artefacts()] == [
        (artefact.kind, artefact.path) for artefact in remote.artefacts()
    ]
    assert remote.lock_held() is None, "nobody can be asked"


def test_listed_once(tmp_path: Path, server: S3Server) -> None:
    """While a store is listed, its names are those that the server gives one by one."""
    remote = place_of(server.put(fixture_store(NAME, tmp_path), "once"))
    alone = {path: remote.child(path).stat() for path in listed(remote)}
    directories = [remote, remote.child("config"), remote.child("consumequeue")]
    below = [directory.entries() for directory in directories]
    server.requests.clear()
    with listed_once(remote), listed_once(remote.child("config")):
        assert len(server.requests) <= 2
        assert alone == {path: remote.child(path).stat() for path in listed(remote)}
        assert below == [directory.entries() for directory in directories]
        assert EntryKind.DIRECTORY is (remote.child("config").stat() or below[0][0]).kind
        assert remote.child("no").child("such").stat() is None
        assert len(server.requests) <= 2, "nothing more is asked"
        with pytest.raises(UnreadablePath, match="once/no: "):
            remote.child("no").entries()
    server.requests.clear()
    assert remote.child("no").stat() is None
    assert server.requests, "it is asked again"


def test_validate_asks_little(tmp_path: Path, server: S3Server) -> None:
    """To validate a store takes some requests a file, however many names may be there."""
    store = fixture_store(NAME, tmp_path)
    expected = [finding.row() for finding in validate(ValidateOptions(store))]
    uri = server.put(store, "asked")
    files = sum(path.is_file() for path in store.rglob("*"))
    server.requests.clear()
    assert expected == [finding.row() for finding in validate(ValidateOptions(uri))]
    count = len(server.requests)
    assert files < count < 4 * files + 80


def test_listing_has_names_only() -> None:
    """Keys that no path leads to are no names; what is no directory has nothing below it."""
    file = Entry("f", EntryKind.FILE, 3, 0, 3)
    keys = ["b/top/f", "b/top//f", "b/top/../f", "b/top/./f"]
    listing = Listing("b/top", [(key, file) for key in keys])
    assert [file] == listing.entries("b/top")
    assert (file, None) == (listing.stat("b/top/f"), listing.stat("b/top//f"))
    assert (None, None) == (listing.entries("b/top/f"), listing.entries("b/top/none"))


def test_no_directory_to_list(server: S3Server) -> None:
    """What cannot be listed is no error before somebody reads it."""
    none = place_of(server.put(Path(__file__).parent, "listed")).child("none")
    with listed_once(none), listed_once(place_of("/no/such/directory")):
        assert none.stat() is None


def test_reads_are_ranges(server: S3Server, large: Place) -> None:
    """A few bytes of a large object cost a few kilobytes, and each request names its range."""
    with large.open() as file:
        server.requests.clear()
        assert len(CONTENT) == file.size
        assert CONTENT[10_000_000:10_000_020] == file.read_at(10_000_000, 20)
        assert CONTENT[5:25] == file.read_at(5, 20)
        assert CONTENT[-7:] == file.read_at(file.size - 7, 100)
    assert 2 * SMALLEST_READ_BYTES + 7 == server.fetched("large")
    assert all(request.range for request in server.requests)


def test_read_in_turn(server: S3Server, large: Place) -> None:
    """Reading all of an object asks for each byte once, in few requests."""
    window, position, found = bytearray(1 << 20), 0, b""
    with large.open() as file:
        server.requests.clear()
        while count := file.read_into(window, position):
            found += window[:count]
            position += count
    assert found == CONTENT
    assert len(CONTENT) == server.fetched("large")
    assert 8 > len(server.requests)


def test_overlapping_windows(server: S3Server, large: Place) -> None:
    """Windows that overlap, as those of a scan do, fetch no byte twice."""
    with large.open() as file:
        server.requests.clear()
        for position in range(0, 12 << 20, 900_000):
            window = bytearray(1 << 20)
            count = file.read_into(window, position)
            assert CONTENT[position : position + (1 << 20)] == bytes(window[:count])
    assert server.fetched("large") <= (12 << 20) + LARGEST_READ_BYTES


@pytest.mark.parametrize(("position", "length"), [(-1, 10), (0, -5), (len(CONTENT), 10)])
def test_reads_are_clipped(large: Place, position: int, length: int) -> None:
    """Outside of the object there is nothing, and nothing is asked for."""
    with large.open() as file:
        assert b"" == file.read_at(position, length)
        assert 0 == file.read_into(bytearray(max(length, 0)), position)


def test_what_is_not_there(server: S3Server) -> None:
    """What is missing has no entry; to open or list it says so, with the URI."""
    place = place_of(server.put(Path(__file__).parent, "missing")).child("none")
    assert place.stat() is None
    with pytest.raises(UnreadablePath, match=f"^s3://{BUCKET}/missing/none: "):
        place.open()
    with pytest.raises(UnreadablePath, match=f"^s3://{BUCKET}/missing/none: "):
        place.entries()
    with pytest.raises(UnreadablePath, match="NO_SUCH_BUCKET"):
        place_of("s3://no-such-bucket/store").entries()
    with pytest.raises(UnreadablePath, match=r"Unrecognized filesystem type"):
        place_of("gopher://host/store")


def test_secrets_are_not_shown(server: S3Server) -> None:
    """Credentials and options of a URI open the file system and are never printed."""
    server.put(Path(__file__).parent, "secret")
    host = f"s3://me:hush@{BUCKET}/secret{server.options()}"
    place = place_of(host).child("none")
    assert f"s3://{BUCKET}/secret/none" == str(place)
    assert "hush" not in repr(place)
    with pytest.raises(UnreadablePath) as refused:
        place.open()
    assert "hush" not in str(refused.value)
    with pytest.raises(UnreadablePath) as refused:
        place_of("s4://me:hush@bucket/store?secret_key=hush")
    assert "hush" not in str(refused.value)
    is_spark, why = decide(EngineChoice(), [f"{host}&secret_key=hush"])
    assert (True, True, False) == (is_spark, "secret is remote" in why, "hush" in why)


def test_places_travel(server: S3Server, large: Place) -> None:
    """A remote place can be sent to another process, and opens there."""
    place = place_of(f"s3://{BUCKET}/tree{server.options()}").child("large")
    again = pickle.loads(pickle.dumps(place))  # noqa: S301 - our own bytes
    assert place == again
    assert CONTENT[:10] == again.read(10)
    assert isinstance(large, RemotePlace)
    assert "tree" == large.parent.name
    top = large.parent.parent
    assert top.parent == top


def test_hostile_keys(tmp_path: Path, server: S3Server) -> None:
    """A key is a name and nothing else: blanks and signs of a URI are parts of it."""
    names = ["a b", "100%41", "q?x=1", "hash#", "ü", "back\\slash", "+", "%RETRY%group"]
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    place = place_of(server.put(tmp_path, "hostile"))
    assert sorted(names) == [entry.name for entry in place.entries()]
    for name in names:
        assert name.encode() == place.child(name).read(100)
    for name, written in {"a b": "a b", "q?x=1": "q%3Fx=1", "%RETRY%group": "%RETRY%group"}.items():
        assert name.encode() == place_of(f"{place}/{written}").read(100)


@pytest.mark.parametrize("form", ["file://{}", "file:{}", "file://localhost{}"])
def test_file_uri(tmp_path: Path, form: str) -> None:
    """A `file:` URI is the local path, blanks and all."""
    (tmp_path / "a b").write_bytes(b"x")
    place = place_of(form.format(str(tmp_path)) + "/a%20b")
    assert place_of(tmp_path / "a b") == place
    assert not is_remote(form)
    with pytest.raises(UnreadablePath, match="names an absolute path"):
        place_of("file://elsewhere/x")


def test_entry_of_an_object(server: S3Server, large: Place) -> None:
    """An object has a size and the time of its upload, a prefix is a directory."""
    entry, above = large.stat(), large.parent.stat()
    assert isinstance(entry, Entry)
    assert (EntryKind.FILE, len(CONTENT), "large") == (entry.kind, entry.size, entry.name)
    assert entry.mtime_ns > 10**18
    assert above is not None
    assert EntryKind.DIRECTORY is above.kind
    assert {"HEAD", "GET"} >= {request.method for request in server.requests}
