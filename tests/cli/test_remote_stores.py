"""Commands on a store in a bucket: what they say of the same store on the disk, by range reads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rmqtool.cli.main import main
from tests.s3_server import s3_server
from tests.stores import fixture_store

NAME = "rocketmq-5.3.3-traffic"
LOCAL_ONLY = re.compile(r'"(lock_held|allocated|mtime\w*|modified\w*)":[^,}]*')  # nobody can tell
TIMINGS = re.compile(r"in \d.*")
COMMANDS = [
    ("info", "STORE"),
    ("info", "STORE/commitlog", "--section", "segments"),
    ("dump", "STORE", "--engine", "local", "--limit", "50"),
    ("dump", "STORE/consumequeue/%DLQ%traffic-failing/0", "--engine", "local"),
    ("dump", "STORE", "--as", "index", "--limit", "20", "--engine", "local"),
    ("query", "STORE", "--at", "0"),
    ("query", "STORE", "--topic", "traffic-orders", "--key", "ORDER-1"),
    ("validate", "STORE", "--engine", "local"),
    ("rebuild", "STORE", "--check", "--engine", "local"),
    ("rebuild-index", "STORE", "--check", "--engine", "local"),
    ("query", "STORE", "--scan", "--key", "ORDER-1", "--engine", "local"),
    ("startup", "STORE", "--broker-version", "5.3.3"),
    ("repair", "STORE"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store on the disk."""
    return fixture_store(NAME, tmp_path_factory.mktemp("remote"))


@pytest.fixture(scope="module")
def uri(store: Path) -> str:
    """The same in a bucket."""
    return s3_server().put(store, f"cli/{store.parent.name}")


def said(
    arguments: tuple[str, ...], store: object, capfd: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """Run a command; give exit code, rows and remarks, without what only a disk can tell."""
    code = main([word.replace("STORE", str(store)) for word in arguments])
    out, err = (text.replace(str(store), "STORE") for text in capfd.readouterr())
    return code, LOCAL_ONLY.sub(r'"\1":null', out), TIMINGS.sub("", err)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_same_answer(
    store: Path, uri: str, arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    """A command says of a bucket what it says of the disk."""
    local = said(arguments, store, capfd)
    assert 0 == local[0]
    assert local == said(arguments, uri, capfd)


def test_lookup_reads_little(store: Path, uri: str, capfd: pytest.CaptureFixture[str]) -> None:
    """To look up one message reads some ranges of some files, not the store."""
    server = s3_server()
    server.requests.clear()
    found = ("query", "STORE", "--topic", "T", "--queue", "0", "--queue-offset", "0")
    code, out, _ = said(found, uri, capfd)
    assert (0, "T") == (code, json.loads(out)["topic"])
    segments = {
        path.name: path.stat().st_size for path in (store / "commitlog").iterdir() if path.is_file()
    }
    read = {name: server.fetched(f"commitlog/{name}") for name in segments}
    assert sum(read.values()) < sum(segments.values())
    assert all(
        request.range
        for request in server.requests
        if request.method == "GET" and request.length > 1 << 16
    )


def test_missing(capfd: pytest.CaptureFixture[str]) -> None:
    """A bucket or a prefix that is not there is exit 2 and one line."""
    s3_server()
    for path in ("s3://no-such-bucket/store", "s3://evidence/no-such-prefix"):
        assert 2 == main(["info", path])
        out, err = capfd.readouterr()
        assert ("", True) == (out, err.startswith(f"rmqtool: {path}: "))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rebuild", "STORE", "--in-place", "--engine", "local"), "rebuild with --output"),
        (("rebuild-cq", "STORE", "--in-place", "--engine", "local"), "rebuild with --output"),
        (("repair", "STORE", "--in-place", "--yes"), "copy it here"),
        (("repair", "STORE", "--output", "repaired"), "copy it here"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else None,
)
def test_in_place(
    uri: str, arguments: tuple[str, ...], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing is changed in a bucket: exit 2, with what to do instead."""
    assert 2 == main([word.replace("STORE", uri) for word in arguments])
    assert said in capfd.readouterr().err


def test_report(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A report of a store in a bucket is a page on the disk."""
    monkeypatch.chdir(tmp_path)
    assert 0 == main(["report", uri, "--output", "report.html"])
    assert "sound: 0 damage" in capfd.readouterr().err
    assert (tmp_path / "report.html").stat().st_size > 10_000
