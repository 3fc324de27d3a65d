"""Many stores in one command: a row each, findings as one by one, and no failure stops others."""

from __future__ import annotations

import shutil
from pathlib import Path

import orjson
import pytest

from tests.archives.packed import as_tar
from tests.cli.run import rmqtool
from tests.damage import DAMAGES
from tests.stores import fixture_store

NAMES = ("a", "b", "c", "none")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give stores of three brokers, two of them damaged, and a directory that is no store."""
    top = tmp_path_factory.mktemp("fleet")
    store = fixture_store("rocketmq-4.9.3-traffic", tmp_path_factory.mktemp("whole"))
    for name, harm in zip(NAMES, ("", "flip-body-middle", "garbage-late"), strict=False):
        shutil.copytree(store, top / name / "store")
        if harm:
            DAMAGES[harm].inflict(top / name / "store")
    (top / "none" / "store").mkdir(parents=True)
    (top / "a" / "store" / "brokerIdentity").write_text("cluster#broker-a#0")
    return top


def rows(lines: list[str]) -> list[dict[str, object]]:
    """Read JSON lines."""
    return [orjson.loads(line) for line in lines]


@pytest.mark.parametrize("how", ["pattern", "file", "several"])
def test_verdicts(how: str, fleet: Path, tmp_path: Path) -> None:
    """However stores are named, each has its verdict, and the worst exit code counts."""
    (tmp_path / "stores").write_text("".join(f"{fleet}/{name}/store\n" for name in NAMES))
    arguments: dict[str, list[object]] = {
        "pattern": [f"{fleet}/*/store"],
        "file": ["--stores-file", tmp_path / "stores"],
        "several": [fleet / name / "store" for name in NAMES],
    }
    findings = tmp_path / "findings.jsonl"
    done = rmqtool("validate", *arguments[how], "--findings", findings)
    assert 3 == done.code
    found = rows(done.lines)
    assert [f"{fleet}/{name}/store" for name in NAMES] == [row["store"] for row in found]
    assert ["sound", "damaged", "damaged", "not read"] == [row["verdict"] for row in found]
    assert ["broker-a", None, None, None] == [row["broker"] for row in found]
    written = rows(findings.read_text().splitlines())
    for row in found[:3]:
        alone = rows(rmqtool("validate", str(row["store"])).lines)
        assert row["damages"] == sum(one["severity"] == "damage" for one in alone)
        own = [one for one in written if one["store"] == row["store"]]
        assert alone == [
            {key: value for key, value in one.items() if key not in {"store", "broker"}}
            for one in own
        ]
    (last,) = [one for one in written if one["store"] == f"{fleet}/none/store"]
    assert "FS-READ" == last["code"]


def test_sound(fleet: Path) -> None:
    """A pattern of one sound store is still a row, and exit code 0."""
    done = rmqtool("validate", f"{fleet}/[a]/store", "--columns", "verdict")
    assert (0, ['{"verdict":"sound"}']) == (done.code, done.lines)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "PATH: is missing: which store?"),
        (("TOP/x*/store",), "no path matches this pattern"),
        (("TOP/a/store", "--findings", "x"), "--findings: is for several stores"),
        (("TOP/*/store", "--manifest", "x"), "--manifest: is of one store"),
        (("TOP/*/store", "--every", "1m", "--stores-file", "x"), "--stores-file"),
        (("--stores-file", "TOP/nothing"), "no such file"),
    ],
)
def test_refused(arguments: tuple[str, ...], said: str, fleet: Path) -> None:
    """What cannot be meant is said."""
    done = rmqtool("validate", *(argument.replace("TOP", str(fleet)) for argument in arguments))
    assert 2 == done.code
    assert said in done.err


def test_unmatched(fleet: Path) -> None:
    """A pattern that nothing matches is a row beside stores that are there, and exit code 3."""
    done = rmqtool("validate", fleet / "a" / "store", f"{fleet}/x*/store")
    assert 3 == done.code
    assert ["sound", "not read"] == [row["verdict"] for row in rows(done.lines)]


@pytest.mark.parametrize("how", ["pattern", "file", "recursive"])
def test_archives(how: str, fleet: Path, tmp_path: Path) -> None:
    """An archive that only a pattern, a file or a directory leads to is named, and not read."""
    shutil.copytree(fleet / "a" / "store", tmp_path / "store")
    packed = tmp_path / "backup.tar"
    as_tar(fleet / "a" / "store", packed)
    (tmp_path / "stores").write_text(f"{packed}\n{tmp_path / 'store'}\n")
    arguments: dict[str, list[object]] = {
        "pattern": [f"{tmp_path}/*[re]"],
        "file": ["--stores-file", tmp_path / "stores"],
        "recursive": ["--recursive", tmp_path],
    }
    done = rmqtool("validate", *arguments[how])
    found = {row["store"]: row["verdict"] for row in rows(done.lines)}
    assert {f"{tmp_path}/store": "sound", str(packed): "not read"} == found
    assert 3 == done.code
    assert 0 == rmqtool("validate", packed, "--quiet").code
