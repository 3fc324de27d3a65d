"""A store in an archive is repaired into a new directory, as the store itself would be."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import orjson
import pytest

from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.cli.main import main
from rmqtool.findings.catalogue import Severity
from tests import inflict
from tests.archives.packed import PACKERS, as_tar, as_tar_gz, gnu_tar
from tests.stores import broker_conf, fixture_store

TRAFFIC = "rocketmq-4.9.3-traffic"


def files(root: Path) -> dict[str, bytes]:
    """Give the content of all files below a directory."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def repaired(path: object, output: Path, *words: str) -> int:
    """Repair into a new directory; give the exit code."""
    return main(["repair", str(path), "--output", str(output), "--quiet", *words])


@pytest.mark.parametrize("name", PACKERS)
def test_same(name: str, tmp_path: Path) -> None:
    """Each kind of archive gives the copy that the store gives: bytes, and times to the second."""
    store = fixture_store(TRAFFIC, tmp_path)
    inflict.zero_sector(where=0.5)(store)
    PACKERS[name](store, tmp_path / name)
    before = (tmp_path / name).read_bytes()
    assert 0 == repaired(store, tmp_path / "of-store")
    assert 0 == repaired(tmp_path / name, tmp_path / "of-archive")
    assert files(tmp_path / "of-store") == files(tmp_path / "of-archive")
    assert before == (tmp_path / name).read_bytes()
    (segment, *_) = sorted((store / "commitlog").iterdir())
    copied = tmp_path / "of-archive" / "commitlog" / segment.name
    if "zip" not in name.lower():  # a zip has local times
        assert int(segment.stat().st_mtime) == int(copied.stat().st_mtime)
    assert segment.stat().st_mode == copied.stat().st_mode
    assert 0 == main(["validate", str(tmp_path / "of-archive"), "--quiet"])


@pytest.mark.parametrize("name", ["rocketmq-5.3.3-rocksdb", "rocketmq-5.5.0-rocksdb-store"])
def test_rocksdb(name: str, tmp_path: Path) -> None:
    """Databases are written from the log of the archive, as the edits leave it."""
    store = fixture_store(name, tmp_path)
    inflict.zero_sector(where=0.5)(store)
    as_tar(store, tmp_path / "s.tar")
    words = ("--broker-conf", str(broker_conf(name)))
    assert 0 == repaired(tmp_path / "s.tar", tmp_path / "of-archive", *words)
    options = ValidateOptions(str(tmp_path / "of-archive"), broker_conf=words[1])
    assert [] == [found for found in validate(options) if found.severity is not Severity.NOTE]


def test_links(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A link of the root is followed within the archive, where the configuration names its end."""
    store = fixture_store(TRAFFIC, tmp_path)
    (tmp_path / "disk").mkdir()
    (store / "commitlog").rename(tmp_path / "disk" / "log")
    (store / "commitlog").symlink_to(f"{tmp_path}/disk/log")
    (store / "odd").symlink_to("/etc/passwd")
    queue = max((store / "consumequeue" / "traffic-orders" / "1").iterdir())
    inflict.write_at(queue, 0, bytes(20))
    gnu_tar(tmp_path / "s.tar", Path("/"), str(tmp_path / "store")[1:], str(tmp_path / "disk")[1:])
    archive = f"{tmp_path}/s.tar!{str(store)[1:]}"
    assert 2 == repaired(archive, tmp_path / "refused")
    assert "no --broker-conf names that place" in capfd.readouterr().err
    conf = tmp_path / "broker.conf"
    conf.write_text(f"{broker_conf(TRAFFIC).read_text()}\nstorePathCommitLog={tmp_path}/disk/log\n")
    assert 0 == repaired(store, tmp_path / "of-store", "--broker-conf", str(conf))
    assert 0 == repaired(archive, tmp_path / "of-archive", "--broker-conf", str(conf))
    assert files(tmp_path / "of-store") == files(tmp_path / "of-archive")
    assert not (tmp_path / "of-archive" / "odd").exists()
    assert not (tmp_path / "of-archive" / "commitlog").is_symlink()


def test_plan_and_evidence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A saved plan is made of an archive, too, and the replaced bytes are kept out of it."""
    store = fixture_store(TRAFFIC, tmp_path)
    inflict.zero_sector(where=0.5)(store)
    as_tar_gz(store, tmp_path / "s.tgz")
    plan, kept = str(tmp_path / "plan"), tmp_path / "kept"
    assert 1 == main(["repair", str(tmp_path / "s.tgz"), "--plan", plan])
    said = capfd.readouterr().err.splitlines()
    assert "rmqtool: nothing was written" == said[-2]
    assert said[-1].endswith(f"--apply {plan} --output DIR")
    words = ("--apply", plan, "--quarantine", str(kept))
    assert 0 == repaired(tmp_path / "s.tgz", tmp_path / "fixed", *words)
    digests = {hashlib.sha256(path.read_bytes()).hexdigest() for path in kept.iterdir()}
    wanted = {edit["old"] for edit in orjson.loads(Path(plan).read_bytes())["edits"]}
    assert wanted - {""}
    assert wanted - {""} <= digests
    as_tar_gz(tmp_path / "fixed", tmp_path / "other.tgz")
    assert 2 == repaired(tmp_path / "other.tgz", tmp_path / "again", "--apply", plan)


def test_not_whole(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What is there of an archive that was cut is repaired, and the exit code says so."""
    store = fixture_store(TRAFFIC, tmp_path)
    as_tar_gz(store, tmp_path / "s.tgz")
    raw = (tmp_path / "s.tgz").read_bytes()
    (tmp_path / "s.tgz").write_bytes(raw[: len(raw) * 2 // 3])
    assert 3 == main(["repair", str(tmp_path / "s.tgz"), "--output", str(tmp_path / "fixed")])
    assert "is not whole: nothing in it is proven sound" in capfd.readouterr().err
    assert main(["validate", str(tmp_path / "fixed"), "--quiet"]) in {0, 1}


@pytest.mark.parametrize("option", ["--in-place", "--undo"])
def test_only_read(option: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What would change the archive is refused, with what works."""
    store = fixture_store(TRAFFIC, tmp_path)
    subprocess.run(["tar", "-cf", "s.tar", "store"], cwd=tmp_path, check=True)  # noqa: S607
    assert store.is_dir()
    assert 2 == main(["repair", str(tmp_path / "s.tar"), option])
    said = capfd.readouterr().err
    assert "is an archive: it is only read" in said
    assert ("--undo" if option == "--undo" else "s.tar --output NEW") in said
