"""A real broker starts on its disk, as its user, once the command of the doctor was followed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from rmqtool.doctor.advice import steps_for
from rmqtool.doctor.examination import Examination, examine_store
from rmqtool.repair.options import RepairOptions
from tests import plain_store
from tests.broker.bare_store import BareStore
from tests.broker.broker import running_broker
from tests.broker.jars import VERSIONS
from tests.broker.jvm import Jvm
from tests.broker.message import Outgoing
from tests.broker.producer import Producer
from tests.doctor.test_first_step import NOBODY, SECOND_FILE, TRAFFIC
from tests.doctor.test_real_stores import follow
from tests.repair.broker.survivors import settings_of
from tests.startup.oracle import Oracle
from tests.startup.test_retention import DELIVERED, SYSTEM, clean
from tests.stores import broker_conf, fixture_store

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files and disks away"),
]


def give(store: Path, user: int) -> None:
    """Give all of a store to a user, and to nobody else."""
    for path in (store, *store.rglob("*")):
        os.chown(path, user, user)
        path.chmod(0o700 if path.is_dir() else 0o600)


def one_of_root(store: Path) -> None:
    """Leave a store in which root has put a file back."""
    give(store, NOBODY)
    os.chown(store / SECOND_FILE, 0, 0)


def all_of_root(store: Path) -> None:
    """Leave a store that root has put back."""
    give(store, 0)


def examined(store: Path, as_user: str | None = None) -> Examination:
    """Ask the doctor."""
    conf = str(broker_conf(TRAFFIC))
    return examine_store(RepairOptions(str(store), broker_conf=conf), as_user=as_user)


def loads(oracle: Oracle, store: Path) -> bool:
    """Let a real store load; it may throw while it is made."""
    try:
        return oracle.observe(store, settings_of(TRAFFIC), {}).loaded
    except Py4JJavaError:
        return False


@pytest.fixture
def nobody(quick_path: Path) -> Iterator[Oracle]:
    """Give a Java process of an ordinary user."""
    quick_path.chmod(0o755)
    with Jvm("5.3.3", quick_path / "jvm", user=NOBODY) as jvm:
        yield Oracle(jvm)


@pytest.mark.parametrize(
    ("harm", "as_user"), [(one_of_root, None), (all_of_root, "nobody")], ids=["one", "all"]
)
def test_wrong_owner(
    harm: Callable[[Path], None], as_user: str | None, nobody: Oracle, quick_path: Path
) -> None:
    """A broker that may not write a file starts when the files are given to its user."""
    store, copy = fixture_store(TRAFFIC, quick_path), quick_path / "copy"
    harm(store)
    shutil.copytree(store, copy)
    harm(copy)
    assert not loads(nobody, copy)
    seen = examined(store, as_user)
    assert seen.prediction is not None
    assert not seen.prediction.starts
    first = steps_for(seen)[0]
    assert "the broker runs as nobody" in first.cause
    follow(first.command, quick_path)
    assert not steps_for(examined(store, as_user))[0].command
    observation = nobody.observe(store, settings_of(TRAFFIC), {})
    assert observation.loaded
    assert seen.summary.account.records <= sum(observation.delivered.values())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a file system of 4 MB in memory."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=4m", "rmqtool-test", str(place)]
    done = subprocess.run(words, capture_output=True, check=False)  # noqa: S603 - mount
    if done.returncode:
        pytest.skip(f"needs the right to mount: {done.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)  # noqa: S603, S607 - umount


def fill(disk: Path, percent: float) -> Path:
    """Let a file that is not the store's leave so much of a disk free."""
    facts = os.statvfs(disk)
    spared = int(facts.f_blocks * percent / 100)
    other = disk / "other.log"
    other.write_bytes(bytes(max(facts.f_bavail - spared, 0) * facts.f_frsize))
    return other


@pytest.mark.parametrize("percent", [0, 5])
def test_full_disk(percent: float, small_disk: Path, tmp_path: Path) -> None:
    """The command names what takes the room; once that is away, a broker starts and takes all."""
    store = fixture_store(TRAFFIC, small_disk)
    other = fill(small_disk, percent)
    seen = examined(store)
    first = steps_for(seen)[0]
    said = subprocess.run(  # noqa: S603 - our own
        ["/bin/sh", "-c", first.command], capture_output=True, text=True, check=True
    ).stdout
    named = [Path(line.partition("\t")[2]) for line in said.splitlines()]
    strange = [path for path in named if path.is_file() and store not in path.parents]
    assert [other] == strange
    other.unlink()
    assert not steps_for(examined(store))[0].command
    settings = {**settings_of(TRAFFIC), "storePathRootDir": store}
    settings["storePathCommitLog"] = store / "commitlog"
    with running_broker("5.3.3", tmp_path / "home", settings) as broker:
        assert broker.store.getRunningFlags().isWriteable()
        with Producer(broker, "shop") as producer:
            assert 0 <= producer.send(Outgoing("traffic-orders", b"body")).queue_offset


@pytest.mark.parametrize("is_followed", [False, True])
def test_nearly_full_disk(small_disk: Path, tmp_path: Path, *, is_followed: bool) -> None:
    """A broker deletes files before their time, unless the command was followed."""
    store, conf = fixture_store(TRAFFIC, small_disk), tmp_path / "broker.conf"
    files = sorted((store / "commitlog").iterdir())
    for path in files:
        os.utime(path)  # nothing has expired
    shutil.copy(broker_conf(TRAFFIC), conf)
    fill(small_disk, 12)
    options = RepairOptions(str(store), broker_conf=str(conf))
    if is_followed:
        follow(steps_for(examine_store(options))[0].command, tmp_path)
        assert not steps_for(examine_store(options))[0].command
    told = dict(line.split("=", 1) for line in conf.read_text().splitlines() if "=" in line)
    keeps = {name: told[name] for name in told.keys() & {"cleanFileForciblyEnable"}}
    settings = {**settings_of(TRAFFIC), "diskMaxUsedSpaceRatio": 75, "fileReservedTime": 72}
    with Jvm("5.3.3", tmp_path / "jvm") as jvm:
        bare = BareStore(jvm, store, {**settings, **keeps})
        assert bare.load()
        bare.start()
        cleaner = bare.store.getClass().getDeclaredField("cleanCommitLogService")
        cleaner.setAccessible(True)
        for _ in files:  # what it does every ten seconds, from a minute after the start on
            cleaner.get(bare.store).run()
        bare.stop()
    assert is_followed == (files == sorted((store / "commitlog").iterdir()))


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize("version", VERSIONS)
def test_deleted_for_room(version: str, files: int, small_disk: Path, tmp_path: Path) -> None:
    """What goes for want of room is named, to the file and the message; 4.9.3 takes ten at once."""
    name = f"rocketmq-{version}-traffic"
    store, conf = fixture_store(name, small_disk), tmp_path / "broker.conf"
    before = plain_store.segments(store)
    for path in before:
        os.utime(path)  # nothing has expired
    conf.write_text(f"{broker_conf(name).read_text()}\ndeleteFileBatchMax=1\n")
    facts, length = os.statvfs(small_disk), before[0].stat().st_size
    over = int((files - 0.5) * length)  # so many files leave enough room, and one less does not
    fill(small_disk, 15 - 100 * over / (facts.f_blocks * facts.f_frsize))
    early = examine_store(RepairOptions(str(store), broker_conf=str(conf))).early
    assert early is not None
    assert early.files_deleted == (len(before) - 1 if version == "4.9.3" else files)
    gone = [
        record
        for record in plain_store.records(store)
        if record.path in before[: early.files_deleted]
        and record.transaction in DELIVERED
        and not record.topic.startswith(SYSTEM)
    ]
    assert early.messages == len(gone)
    settings = {**settings_of(name), "diskMaxUsedSpaceRatio": 75, "fileReservedTime": 72}
    with Jvm(version, tmp_path / "jvm") as jvm:
        bare = BareStore(jvm, store, {**settings, "deleteFileBatchMax": 1})
        assert bare.load()
        bare.start()
        for _ in before:
            clean(bare)
        bare.stop()
    assert before[early.files_deleted :] == [path for path in before if path.exists()]
