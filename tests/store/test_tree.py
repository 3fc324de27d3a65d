"""A store as a tree: several commitlog paths, DLedger, lengths, state files, the lock."""

from __future__ import annotations

import fcntl
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rmqtool.broker.conf import BrokerConf
from rmqtool.errors import Truncated, UnreadablePath
from rmqtool.queues.discovery import Queues
from rmqtool.store.geometry import LengthSource
from rmqtool.store.place import Place
from rmqtool.store.segment import OddityKind
from rmqtool.store.tree import open_store
from tests.evidence import Evidence
from tests.store.built_store import FILE_LENGTH, QUEUE_FILE_LENGTH, build_store, name_of
from tests.stores import broker_conf, fixture_names, fixture_store, manifest


@pytest.mark.parametrize("name", fixture_names())
def test_fixtures(name: str, tmp_path: Path, evidence: Evidence) -> None:
    """In a real store the lengths from the files are those that the broker was told."""
    root = fixture_store(name, tmp_path)
    if "default" not in name:  # hashing 1 GiB of zeros takes seconds
        evidence.keep(root)
    store, told = open_store(root), open_store(root, broker_conf(name))
    for (length, found), (_, configured) in zip(
        store.geometry.items(), told.geometry.items(), strict=True
    ):
        is_given = configured.source is LengthSource.CONFIGURED
        if is_given and found.source is not LengthSource.DEFAULT:
            assert (length, found.value) == (length, configured.value)
    assert store.commitlog == told.commitlog
    assert () == store.oddities == store.commitlog.oddities
    assert (manifest(name)["stopped"] == "crash") == (store.abort is not None)
    assert [] == [
        queue.files.oddities for queue in Queues(store).files.queues() if queue.files.oddities
    ]
    assert store.checkpoint() is not None


def test_several_paths(tmp_path: Path) -> None:
    """The directories of a configured log are joined, below our root instead of the broker's."""
    build_store(tmp_path, 60)
    for number, name in enumerate(("log-a", "log-b", "old")):
        (tmp_path / name).mkdir()
        start = number * FILE_LENGTH
        (tmp_path / "commitlog" / name_of(start)).rename(tmp_path / name / name_of(start))
    conf = BrokerConf(
        "broker.conf",
        {
            "storePathRootDir": "/data/rmq/",
            "storePathCommitLog": "/data/rmq/log-a,/data/rmq/log-b,/data/rmq/log-c",
            "readOnlyCommitLogStorePaths": "/data/rmq/old",
        },
    )
    store = open_store(tmp_path, conf)
    assert [
        f"log-a/{name_of(0)}",
        f"log-b/{name_of(FILE_LENGTH)}",
        f"old/{name_of(2 * FILE_LENGTH)}",
    ] == [segment.path for segment in store.commitlog]
    assert [(OddityKind.MISSING, "log-c")] == [
        (oddity.kind, oddity.path) for oddity in store.oddities
    ]


def test_path_outside_of_the_root(tmp_path: Path) -> None:
    """A configured directory elsewhere is read where it is, under its whole path."""
    build_store(tmp_path / "store", 5)
    elsewhere = tmp_path / "disk2"
    (tmp_path / "store/commitlog").rename(elsewhere)
    conf = BrokerConf("broker.conf", {"storePathCommitLog": str(elsewhere)})
    store = open_store(tmp_path / "store", conf)
    assert [f"{elsewhere}/{name_of(0)}"] == [segment.path for segment in store.commitlog]


def test_configured_paths_that_are_all_missing(tmp_path: Path) -> None:
    """Where no configured directory is there, the usual one is read: a copy was moved."""
    build_store(tmp_path, 5)
    conf = BrokerConf("broker.conf", {"storePathCommitLog": "/nowhere/a,/nowhere/b"})
    assert 1 == len(open_store(tmp_path, conf).commitlog)


def test_dledger(tmp_path: Path) -> None:
    """A DLedger log is the commitlog; a plain one beside it is the one from before."""
    build_store(tmp_path, 40, start=10 * FILE_LENGTH, dledger=True)
    build_store(tmp_path, 4)
    (tmp_path / "dledger-n0/index").mkdir()
    (tmp_path / "dledger-n0/checkpoint").write_text("endIndex=39\n")
    store = open_store(tmp_path)
    assert store.is_dledger
    assert 10 * FILE_LENGTH == store.commitlog.start
    assert (0, 1) == (store.old_commitlog.start, len(store.old_commitlog))
    alone = open_store(tmp_path / "dledger-n0")
    assert alone.commitlog == store.commitlog
    assert not alone.old_commitlog
    assert open_store(tmp_path / "dledger-n0/data").commitlog == store.commitlog
    assert not open_store(tmp_path / "commitlog").is_dledger


def test_unused_dledger_directory(tmp_path: Path) -> None:
    """A DLedger directory without a file does not hide the plain log."""
    built = build_store(tmp_path, 4)
    (tmp_path / "dledger-n0/data").mkdir(parents=True)
    store = open_store(tmp_path)
    assert not store.is_dledger
    assert built.end <= store.commitlog.end


def test_two_dledger_logs(tmp_path: Path) -> None:
    """Of two DLedger logs the configured one is read, else the first; the other is reported."""
    build_store(tmp_path, 40, dledger=True)
    (tmp_path / "dledger-n1/data").mkdir(parents=True)
    store = open_store(tmp_path)
    assert "dledger-n0/data" == store.commitlog.path
    assert ["dledger-n1/data"] == [oddity.path for oddity in store.oddities]
    store = open_store(tmp_path, BrokerConf("x", {"dLegerSelfId": "n1"}))
    assert "dledger-n1/data" == store.commitlog.path


def test_lengths_from_files(tmp_path: Path) -> None:
    """A few files that were cut do not outvote the others."""
    build_store(tmp_path, 100, queues=3)
    os.truncate(tmp_path / "commitlog" / name_of(0), 100)
    os.truncate(tmp_path / "consumequeue/T/0" / name_of(0), 7)
    store = open_store(tmp_path)
    assert FILE_LENGTH == store.geometry.commitlog.value
    assert QUEUE_FILE_LENGTH == store.geometry.consume_queue.value
    assert [OddityKind.ODD_LENGTH] == [oddity.kind for oddity in store.commitlog.oddities]


def test_short_checkpoint(tmp_path: Path) -> None:
    """A checkpoint that is cut is a DecodeError with its path."""
    build_store(tmp_path, 1)
    (tmp_path / "checkpoint").write_bytes(bytes(47))
    with pytest.raises(Truncated, match="checkpoint"):
        open_store(tmp_path).checkpoint()


def test_store_travels(tmp_path: Path) -> None:
    """A store can be sent to another process, also when parts of it were listed."""
    build_store(tmp_path, 3)
    store = open_store(tmp_path)
    assert store.commitlog
    assert store.commitlog == pickle.loads(pickle.dumps(store)).commitlog  # noqa: S301 - our own


def test_one_queue_is_cheap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup of one queue lists that queue and a sample, not all there are."""
    build_store(tmp_path, 3)
    for number in range(100):
        (tmp_path / f"consumequeue/X{number}/0").mkdir(parents=True)
    store = open_store(tmp_path)
    assert QUEUE_FILE_LENGTH == store.geometry.consume_queue.value
    listed: list[Place] = []
    entries = Place.entries

    def counting(place: Place) -> object:
        listed.append(place)
        return entries(place)

    monkeypatch.setattr(Place, "entries", counting)
    queue = Queues(store).queue("T", 0)
    assert queue is not None
    assert queue.files
    assert 1 == len(listed)


HOLD_THE_LOCK = """
    import fcntl, sys, time
    file = open(sys.argv[1], "r+b")
    fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)  # as Java's FileChannel.tryLock(0, 1, false)
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(fcntl, "F_GETLK"), reason="asks Linux")
def test_lock(tmp_path: Path) -> None:
    """A lock that another process holds is seen, and asking neither takes nor loses it."""
    build_store(tmp_path, 1)
    assert open_store(tmp_path).lock_held() is False
    (tmp_path / "lock").write_bytes(b"lock")
    assert open_store(tmp_path).lock_held() is False
    command = [sys.executable, "-c", textwrap.dedent(HOLD_THE_LOCK), str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as broker:  # noqa: S603 - ourselves
        assert broker.stdout is not None
        broker.stdout.readline()
        for _ in range(2):
            assert open_store(tmp_path).lock_held() is True
        broker.kill()
    assert open_store(tmp_path).lock_held() is False


def test_unreadable_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that may not be listed is an error, never an empty log."""
    build_store(tmp_path, 1)
    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("commitlog"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(UnreadablePath, match="permission denied"):
        _ = open_store(tmp_path).commitlog
