"""What people have in place of a store root, on the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqtool.cli.exits import DONE, NOT_DONE
from tests.archives.packed import as_tar, as_tar_gz
from tests.cli.run import Run, rmqtool
from tests.evidence import Evidence
from tests.stores import fixture_store


@pytest.fixture
def store(tmp_path: Path, evidence: Evidence) -> Path:
    """Give a small store."""
    return evidence.keep(fixture_store("rocketmq-4.9.3-lmq", tmp_path))


def test_parent(store: Path) -> None:
    """The directory above one store stands for it, and it is said."""
    shutil.copytree(store, store.parent / "x" / "y")
    done = rmqtool("validate", store.parent / "x", "--level", "quick")
    assert DONE == done.code
    assert f"rmqtool: reading {store.parent}/x/y\n" in done.err


def test_several(store: Path) -> None:
    """Above several stores one has to be named; those that are there are said."""
    shutil.copytree(store, store.parent / "b")
    done = rmqtool("info", store.parent)
    assert NOT_DONE == done.code
    assert f"holds several stores, name one: {store.parent}/b {store}\n" in done.err
    assert "--recursive" in done.err


def test_several_in_archive(store: Path, tmp_path: Path) -> None:
    """The same in an archive; the named one is read."""
    shutil.copytree(store, tmp_path / "brokers" / "a")
    shutil.copytree(store, tmp_path / "brokers" / "b")
    packed = tmp_path / "s.tar"
    as_tar(tmp_path / "brokers", packed)
    done = rmqtool("info", packed)
    assert NOT_DONE == done.code
    assert f"name one: '{packed}!store/a' '{packed}!store/b'\n" in done.err
    done = rmqtool("info", f"{packed}!store/b", "--section", "store", "--columns", "path")
    assert f'{{"path":"{packed}!store/b"}}\n'.encode() == done.out


ALL = [
    ["info"],
    ["doctor"],
    ["dump", "--limit", "3"],
    ["query", "--topic", "lmq-parent", "--queue", "1", "--queue-offset", "7"],
    ["startup"],
    ["validate"],
    ["repair"],
    ["rebuild-cq", "--check"],
]


def without_disk(done: Run) -> list[str]:
    """Give the rows without what only a disk has: paths, owner, room, lock, holes."""
    words = {"path", "owner", "free", "allocated", "lock_held", "user", "denied", "is_read_only"}
    words |= {"repair"}  # names the store
    import orjson

    rows = [orjson.loads(line) for line in done.lines]
    return [str({k: v for k, v in row.items() if k not in words}) for row in rows]


@pytest.mark.parametrize("command", ALL, ids=lambda command: command[0])
def test_commands(store: Path, command: list[str]) -> None:
    """Every command that reads gives of an archive what it gives of the store."""
    packed = store.parent / "s.tar.gz"
    as_tar_gz(store, packed)
    first, *rest = command
    local, inside = rmqtool(first, store, *rest), rmqtool(first, packed, *rest)
    assert local.code == inside.code
    assert without_disk(local) == without_disk(inside)
    assert f"rmqtool: {packed}: unpacked into a temporary file in " in inside.err


def test_extract_and_diff(store: Path) -> None:
    """Commands with several stores, and with a new file, take archives."""
    packed = store.parent / "s.tar"
    as_tar(store, packed)
    assert DONE == rmqtool("diff", packed, store).code
    for name, path in (("a", packed), ("b", store)):
        assert DONE == rmqtool("extract", path, "--output", store.parent / f"{name}.rmq").code
    written = [(store.parent / f"{name}.rmq").read_bytes() for name in "ab"]
    assert written[0] == written[1] != b""


def test_rebuild(store: Path) -> None:
    """Queues are rebuilt out of an archive, as out of the store."""
    packed = store.parent / "s.tar"
    as_tar(store, packed)
    for name, path in (("a", packed), ("b", store)):
        assert DONE == rmqtool("rebuild-cq", path, "--output", store.parent / name).code
    trees = [
        {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}
        for top in (store.parent / "a", store.parent / "b")
    ]
    assert trees[0] == trees[1] != {}


@pytest.mark.parametrize(
    "words",
    [
        ["repair", "--in-place", "--yes"],
        ["repair", "--undo"],
        ["rebuild-cq", "--in-place", "--yes"],
        ["rebuild-index", "--in-place", "--yes"],
        ["rebuild", "--in-place", "--yes"],
        ["sql", "--engine", "spark", "SELECT 1"],
        ["export", "--engine", "spark", "--output", "NEW"],
    ],
    ids=" ".join,
)
def test_refused(store: Path, evidence: Evidence, words: list[str]) -> None:
    """What would write into an archive, or reads it elsewhere, is refused with what to do."""
    packed = store.parent / "s.tar"
    as_tar(store, packed)
    evidence.keep(packed)
    first, *rest = [word.replace("NEW", str(store.parent / "new")) for word in words]
    done = rmqtool(first, packed, *rest)
    assert (NOT_DONE, b"") == (done.code, done.out)
    assert "is an archive" in done.err or "Spark cannot" in done.err or "unpack it" in done.err
    assert not (store.parent / "new").exists()


def test_sql(store: Path) -> None:
    """Questions are asked of an archive as of the store in it."""
    packed = store.parent / "s.tar.gz"
    as_tar_gz(store, packed)
    question = "SELECT topic, count(*) AS n FROM messages GROUP BY topic ORDER BY topic"
    runs = [rmqtool("sql", path, question) for path in (store, packed)]
    assert {DONE} == {done.code for done in runs}
    assert runs[0].out == runs[1].out != b""


@pytest.mark.parametrize("how", ["option", "environment"])
def test_limit(store: Path, how: str) -> None:
    """The limit of what is unpacked may be typed, or be in the environment."""
    packed = store.parent / "s.tar.gz"
    as_tar_gz(store, packed)
    words = ["--unpack-limit", "100KiB"] if how == "option" else []
    env = {} if words else {"RMQTOOL_UNPACK_LIMIT": "100KiB"}
    done = rmqtool("info", packed, *words, env=env)
    assert NOT_DONE == done.code
    assert "unpacked, it has more than 102,400 bytes; --unpack-limit is how many" in done.err


def test_no_archive(tmp_path: Path) -> None:
    """What only has the name of an archive is said to be none."""
    (tmp_path / "s.tar.gz").write_bytes(b"text" * 200)
    done = rmqtool("info", tmp_path / "s.tar.gz")
    assert NOT_DONE == done.code
    assert "none of tar, gzip, zstd, zip" in done.err
    assert "no such file" in rmqtool("info", tmp_path / "none.zip").err


def test_recursive(store: Path, tmp_path: Path) -> None:
    """Below a directory every store has its row; a broken one stops none, and the worst counts."""
    top = tmp_path / "brokers"
    shutil.copytree(store, top / "a" / "store")
    shutil.copytree(store, top / "b")
    shutil.copytree(store, top / "c")
    segment = top / "b" / "commitlog" / ("0" * 20)
    with segment.open("r+b") as file:
        file.seek(60)
        file.write(b"\xff" * 200)
    lost = top / "d" / "commitlog"
    lost.mkdir(parents=True)
    (top / "d" / "consumequeue").symlink_to("consumequeue")
    done = rmqtool("validate", top, "--recursive")
    import orjson

    rows = [orjson.loads(line) for line in done.lines]
    assert [f"{top}/{name}" for name in ("a/store", "b", "c", "d")] == [
        row["store"] for row in rows
    ]
    assert ["sound", "damaged", "sound"] == [row["verdict"] for row in rows[:3]]
    assert rows[1]["worst"].startswith("CL-")
    assert rows[0]["messages"] == rows[2]["messages"] > rows[1]["messages"]
    assert "4.9.3" in rows[0]["release"]
    assert rows[3]["verdict"] in {"incomplete", "not read"}
    assert 3 == done.code
    shutil.rmtree(top / "d")
    packed = tmp_path / "s.tar"
    as_tar(top, packed)
    inside = rmqtool("validate", packed, "--recursive", "--columns", "store,verdict")
    assert 1 == inside.code
    assert f'{{"store":"{packed}!store/a/store","verdict":"sound"}}' == inside.lines[0]
    shutil.rmtree(top / "b")
    assert DONE == rmqtool("validate", top, "--recursive").code


def test_recursive_refused(tmp_path: Path) -> None:
    """Without any store there is nothing to do; reports are of one store."""
    assert NOT_DONE == rmqtool("validate", tmp_path, "--recursive").code
    done = rmqtool("validate", tmp_path, "--recursive", "--junit", tmp_path / "x.xml")
    assert NOT_DONE == done.code
    assert "--junit: is of one store; give one PATH" in done.err
