"""What a path is: by its place in a store, else by its content, else a clear no."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.errors import NotAStore, UnreadablePath, UnsupportedStore
from rmqtool.queues.discovery import Queues
from rmqtool.store.artefact import ArtefactKind, FamilyDepth, Why
from rmqtool.store.content import kind_of_file
from rmqtool.store.place import Place
from rmqtool.store.segment import OddityKind
from rmqtool.store.tree import Store, open_store
from tests.store.built_store import Built, build_store, name_of
from tests.stores import fixture_names, fixture_store

# What has no content of its own to tell it by: JSON of any kind, markers, state as properties.
BY_PLACE_ONLY = {
    ArtefactKind.CONFIG,
    ArtefactKind.LOCK,
    ArtefactKind.ABORT,
    ArtefactKind.TIMER_CHECK,
    ArtefactKind.COMPACTION_POSITION,
}


@pytest.fixture(scope="module", params=fixture_names())
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store that a real broker wrote."""
    return open_store(fixture_store(request.param, tmp_path_factory.mktemp("fixture")))


@pytest.fixture
def built(tmp_path: Path) -> Built:
    """A small store of two queues."""
    return build_store(tmp_path / "store", records=60, queues=2)


def test_content_agrees_with_place(store: Store) -> None:
    """Each file of a real store is recognised by its content as what its place says it is.

    But for files of nothing but zeros, in lengths that are no default.
    """
    for artefact in store.artefacts():
        if artefact.kind not in BY_PLACE_ONLY and any(artefact.place.read(1 << 20)):
            assert (artefact.path, artefact.kind) == (artefact.path, kind_of_file(artefact.place))


def test_every_file_is_an_artefact(store: Store) -> None:
    """No file of a real store is passed over, but for what RocksDB and old markers left."""
    seen = {artefact.path for artefact in store.artefacts()}
    ignored = tuple(f"{database.path}/" for database in store.rocksdb())
    root = Path(store.root.location)
    files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert {name for name in files - seen if not name.startswith(ignored)} <= {"abort.bak"}


@pytest.mark.parametrize(
    ("path", "kind", "level"),
    [
        ("", ArtefactKind.STORE, FamilyDepth.FAMILY),
        ("commitlog", ArtefactKind.COMMITLOG, FamilyDepth.FAMILY),
        (f"commitlog/{name_of(4096)}", ArtefactKind.COMMITLOG, FamilyDepth.FILE),
        ("consumequeue", ArtefactKind.CONSUME_QUEUE, FamilyDepth.FAMILY),
        ("consumequeue/T", ArtefactKind.CONSUME_QUEUE, FamilyDepth.TOPIC),
        ("consumequeue/T/1", ArtefactKind.CONSUME_QUEUE, FamilyDepth.QUEUE),
        (f"consumequeue/T/1/{name_of(400)}", ArtefactKind.CONSUME_QUEUE, FamilyDepth.FILE),
    ],
)
def test_parts_of_a_store(built: Built, path: str, kind: ArtefactKind, level: FamilyDepth) -> None:
    """A part is recognised by its place, and holds just itself, under its path in the store."""
    part = open_store(built.root / path)
    assert (kind, level, Why.PLACE) == (part.asked.kind, part.asked.level, part.asked.why)
    assert str(built.root) == str(part.root)
    whole = {artefact.path for artefact in open_store(built.root).artefacts()}
    inside = {name for name in whole if f"{name}/".startswith(f"{path}/" if path else "")}
    assert inside == {artefact.path for artefact in part.artefacts()}


def test_part_of_a_queue(built: Built) -> None:
    """A lone queue file keeps its topic, its number and its start."""
    part = open_store(built.root / "consumequeue/T/1" / name_of(400))
    (queue,) = Queues(part).files.queues()
    assert ("T", 1, 400) == (queue.topic, queue.queue_id, queue.files.start)
    units = Queues(part).queue("T", 1)
    assert units is not None
    assert queue.files == units.files
    assert Queues(part).queue("T", 0) is None
    assert not part.commitlog


def test_lone_files(built: Built, tmp_path: Path) -> None:
    """A file without its place is recognised by content; a log's records tell its start."""
    log = tmp_path / "backup.bin"
    shutil.copy(built.root / "commitlog" / name_of(4096), log)
    part = open_store(log)
    assert (ArtefactKind.COMMITLOG, Why.CONTENT) == (part.asked.kind, part.asked.why)
    assert [(4096, "backup.bin")] == [(segment.start, segment.path) for segment in part.commitlog]
    queue = tmp_path / name_of(0)
    shutil.copy(built.root / "consumequeue/T/0" / name_of(0), queue)
    (files,) = Queues(open_store(queue)).files.queues()
    assert ("", 0, 400) == (files.topic, files.queue_id, files.files.size)


def test_lone_directory(built: Built, tmp_path: Path) -> None:
    """A directory of files without its place is recognised by the first file that tells."""
    shutil.copytree(built.root / "commitlog", tmp_path / "saved")
    (tmp_path / "saved" / name_of(0)).write_bytes(bytes(4096))
    part = open_store(tmp_path / "saved")
    assert (ArtefactKind.COMMITLOG, Why.CONTENT) == (part.asked.kind, part.asked.why)
    assert 0 == part.commitlog.start


def test_topic_called_like_a_directory(built: Built) -> None:
    """A topic may be called `commitlog` and is still a topic."""
    (built.root / "consumequeue/T").rename(built.root / "consumequeue/commitlog")
    store = open_store(built.root / "consumequeue")
    assert ["commitlog"] * 2 == [queue.topic for queue in Queues(store).files.queues()]
    store = open_store(built.root / "consumequeue/commitlog/0")
    assert [("commitlog", 0)] == [
        (queue.topic, queue.queue_id) for queue in Queues(store).files.queues()
    ]


def test_empty_directory(tmp_path: Path) -> None:
    """An empty directory is no store, and the reason says why."""
    with pytest.raises(NotAStore, match="the directory is empty"):
        open_store(tmp_path)


def test_not_a_store(tmp_path: Path) -> None:
    """Other people's directories and files are no store, even where a name is one of ours."""
    for name in ("index", "config"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes.txt").write_text("hello")
    (tmp_path / "index/index.html").write_text("hello")
    for path in (tmp_path / "index", tmp_path / "config", tmp_path / "config/notes.txt"):
        with pytest.raises(NotAStore, match="recognised"):
            open_store(path)


def test_missing_and_special(tmp_path: Path) -> None:
    """What is not there, or is neither file nor directory, is refused with a reason."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, reason in {"none": "no such", "fifo": "neither", "loop": "."}.items():
        with pytest.raises(UnreadablePath, match=reason):
            open_store(tmp_path / name)


@pytest.mark.parametrize(
    ("path", "holds"),
    [("consumequeue", "consume queues"), ("rocksdbstore", "timer"), ("config/rdb", "offsets")],
)
def test_rocksdb(built: Built, path: str, holds: str) -> None:
    """A RocksDB database is named, inside of a store and alone; a file of it is no whole."""
    directory = built.root / path
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "CURRENT").write_text("MANIFEST-000001\n")
    (directory / "000003.sst").write_bytes(bytes(100))
    (database,) = open_store(built.root).rocksdb()
    assert (path, 1, False) == (database.path, database.table_files, database.is_empty)
    assert holds in database.holds
    shutil.rmtree(directory / "T", ignore_errors=True)
    alone = open_store(directory)
    assert (ArtefactKind.ROCKSDB, path) == (alone.asked.kind, alone.asked.path)
    assert [database] == alone.rocksdb()
    with pytest.raises(UnsupportedStore, match="RocksDB database"):
        open_store(directory / "000003.sst")


def test_rocksdb_beside_queues(built: Built) -> None:
    """Queue files beside a RocksDB database, as double writing has them, are still read."""
    (built.root / "consumequeue/CURRENT").write_text("MANIFEST-000001\n")
    assert 2 == len(list(Queues(open_store(built.root / "consumequeue")).files.queues()))


@pytest.mark.parametrize("name", ["commitlog", "consumequeue", "index", "config"])
def test_file_in_place_of_a_directory(built: Built, name: str) -> None:
    """A file where a directory ought to be is reported, and the rest is read."""
    shutil.rmtree(built.root / name, ignore_errors=True)
    (built.root / name).write_text("gone")
    store = open_store(built.root)
    assert [(OddityKind.NOT_A_FILE, name)] == [
        (oddity.kind, oddity.path) for oddity in store.oddities
    ]
    assert name not in {artefact.path.partition("/")[0] for artefact in store.artefacts()}


def test_directory_in_place_of_a_file(built: Built) -> None:
    """A directory where a file ought to be is reported, and is none of the artefacts."""
    (built.root / "checkpoint").mkdir()
    (built.root / "commitlog" / name_of(8192)).unlink(missing_ok=True)
    (built.root / "commitlog" / name_of(8192)).mkdir()
    store = open_store(built.root)
    assert [(OddityKind.DIRECTORY, "checkpoint")] == [(o.kind, o.path) for o in store.oddities]
    assert store.checkpoint() is None
    assert OddityKind.DIRECTORY in {oddity.kind for oddity in store.commitlog.oddities}


def test_links_in_the_root(built: Built, tmp_path: Path) -> None:
    """A whole directory may be a link, as operators do; loops and lost targets are reported."""
    elsewhere = tmp_path / "disk2"
    (built.root / "commitlog").rename(elsewhere)
    (built.root / "commitlog").symlink_to(elsewhere)
    (built.root / "index").symlink_to(built.root / "index")
    (built.root / "timerlog").symlink_to(tmp_path / "none")
    store = open_store(built.root)
    assert f"commitlog/{name_of(0)}" == store.commitlog.segments[0].path
    assert {"index": OddityKind.UNREADABLE, "timerlog": OddityKind.MISSING} == {
        oddity.path: oddity.kind for oddity in store.oddities
    }


def test_links_inside(built: Built, tmp_path: Path) -> None:
    """Links below the root are reported and not followed: they may lead out of the evidence."""
    (built.root / "consumequeue/OUT").symlink_to("/etc")
    (built.root / "consumequeue/T/7").symlink_to(built.root / "consumequeue")
    (built.root / "consumequeue/T/notes").mkdir()
    store = open_store(built.root)
    assert [("T", 0), ("T", 1)] == [
        (queue.topic, queue.queue_id) for queue in Queues(store).files.queues()
    ]
    family = store.family(ArtefactKind.CONSUME_QUEUE)
    assert family is not None
    assert {
        "consumequeue/OUT": OddityKind.LINK,
        "consumequeue/T/7": OddityKind.LINK,
        "consumequeue/T/notes": OddityKind.FOREIGN_NAME,
    } == {oddity.path: oddity.kind for oddity in family.oddities()}
    assert tmp_path.exists()


@pytest.mark.parametrize("topic", ["../../etc", "..", "", "a/b", "x\0y", "T/0"])
def test_topics_from_the_evidence(built: Built, topic: str) -> None:
    """A topic's name out of a record never leads to a place that is not that topic's."""
    assert Queues(open_store(built.root)).queue(topic, 0) is None


def test_hostile_directory_names(built: Built) -> None:
    """Names of any bytes are listed, printable and exact enough to be opened."""
    raw = os.fsencode(built.root / "consumequeue") + b"/\xff\x1b[31m\n%RETRY%"
    shutil.copytree(built.root / "consumequeue/T", os.fsdecode(raw))
    queues = [
        queue for queue in Queues(open_store(built.root)).files.queues() if queue.topic != "T"
    ]
    assert ["\\xff\x1b[31m\n%RETRY%"] * 2 == [queue.topic for queue in queues]
    for queue in queues:
        queue.path.encode()
        with queue.files.segments[0].open() as file:
            assert file.read_at(0, 20)


@given(st.binary(max_size=300))
def test_random_files(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """Random bytes never raise; whatever they look like is one of the kinds, or none."""
    path = tmp_path_factory.getbasetemp() / name_of(0)
    path.write_bytes(raw)
    assert kind_of_file(Place.of(path)) in {None, *ArtefactKind}


def test_zero_files(tmp_path: Path) -> None:
    """A file of zeros is told by its length alone, if that is a default and its name fits."""
    path = tmp_path / name_of(0)
    for length, kind in {
        6_000_000: ArtefactKind.CONSUME_QUEUE,
        1 << 30: ArtefactKind.COMMITLOG,
        38_707_200: ArtefactKind.TIMER_WHEEL,
        4096: None,
        0: None,
    }.items():
        with path.open("wb") as file:
            file.truncate(length)
        assert kind == kind_of_file(Place.of(path))
