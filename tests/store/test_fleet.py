"""Patterns, lists and files of stores: the stores that are meant, on disks and in buckets."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqtool.errors import UnreadablePath
from rmqtool.store.address import is_pattern, place_of
from rmqtool.store.fleet import NO_MATCH, Fleet, FleetStore, broker_of, fleet_of
from rmqtool.store.tree import open_store
from tests.s3_server import in_bucket, s3_server

NIGHTS = ("a/2026-11-19/store", "a/2026-11-20/store", "a/2026-11-21/store", "b/2026-11-21/store")


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    """Give a directory with nights of two brokers, and what is no night."""
    for name in (*NIGHTS, "a/.hidden/store", "b/2026-11-22", "odd[1]/store"):
        (tmp_path / name / "commitlog").mkdir(parents=True)
    (tmp_path / "c").write_text("no directory")
    return tmp_path


def names(fleet: Fleet, top: Path) -> list[str]:
    """Give the paths of stores below a directory."""
    return [os.path.relpath(store.path, top) for store in fleet.stores]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*/2026-11-2?/store", [*NIGHTS[1:]]),
        ("*/2026-11-2[01]/store", [*NIGHTS[1:]]),
        ("a/2026-11-2?/store", [*NIGHTS[1:3]]),
        ("[ab]/*-19/store", [NIGHTS[0]]),
        ("a/.*/store", ["a/.hidden/store"]),
        ("a/*", ["a/2026-11-19", "a/2026-11-20", "a/2026-11-21"]),
        ("odd[1]/store", ["odd[1]/store"]),  # it is there under this very name
        ("odd[1]/st*", []),  # a pattern of `odd1`
        ("a/none", ["a/none"]),  # no pattern: whoever opens it says what is wrong
    ],
)
def test_patterns(pattern: str, expected: list[str], backups: Path) -> None:
    """A pattern stands for the paths that match, in order; what is none stands for itself."""
    fleet = fleet_of([f"{backups}/{pattern}"])
    assert expected == names(fleet, backups)
    assert (() if expected else ((f"{backups}/{pattern}", NO_MATCH),)) == fleet.refused


def test_relative(backups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative pattern gives relative paths."""
    monkeypatch.chdir(backups)
    assert ["a/2026-11-19/store"] == [store.path for store in fleet_of(["a/*-19/store"]).stores]
    assert ["b"] == [store.path for store in fleet_of(["[b]"]).stores]


def test_links(backups: Path) -> None:
    """A link that matches is followed, as by a shell."""
    (backups / "latest").symlink_to(backups / "a")
    assert ["latest/2026-11-19/store"] == names(fleet_of([f"{backups}/l*/*-19/store"]), backups)


def test_stores_file(backups: Path) -> None:
    """A file has a path or pattern a line, perhaps with the broker; each store counts once."""
    file = backups / "stores"
    file.write_text(
        f"# nightly\n\n{backups}/{NIGHTS[0]}\tbroker-a\n{backups}/b/*/store\tbroker-b\n"
        f"{backups}/{NIGHTS[0]}\n{backups}/none*\n"
    )
    fleet = fleet_of([], str(file))
    assert [NIGHTS[0], NIGHTS[3]] == names(fleet, backups)
    assert ["broker-a", "broker-b"] == [store.broker for store in fleet.stores]
    assert ((f"{backups}/none*", NO_MATCH),) == fleet.refused
    with pytest.raises(UnreadablePath):
        fleet_of([], str(backups / "nothing"))


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_bucket(scheme: str, backups: Path) -> None:
    """A pattern in a bucket gives URIs that open, with the options of the pattern."""
    for name in NIGHTS:
        (backups / name / "checkpoint").write_bytes(bytes(4096))
        (backups / name / "commitlog" / f"{0:020}").write_bytes(bytes(64))
    server = s3_server()
    server.put(backups, backups.name)
    uri = in_bucket(f"{backups.name}/*/2026-11-2?/store").replace("s3://", f"{scheme}://")
    fleet = fleet_of([uri])
    assert () == fleet.refused
    top = f"{scheme}://evidence/{backups.name}/"
    assert [f"{top}{name}" for name in NIGHTS[1:]] == [store.name for store in fleet.stores]
    for store in fleet.stores:
        assert open_store(store.path).checkpoint() is not None
    assert is_pattern(uri)
    assert not is_pattern(fleet.stores[0].path)
    missing = fleet_of([in_bucket(f"{backups.name}/x?/store")])
    assert ((f"s3://evidence/{backups.name}/x?/store", NO_MATCH),) == missing.refused


def test_broker(backups: Path) -> None:
    """A store says which broker it belongs to, or does not."""
    store = backups / NIGHTS[0]
    assert broker_of(place_of(str(store))) is None
    said: Callable[[str], object] = (store / "brokerIdentity").write_text
    said("cluster-1#broker-a#0")
    assert "broker-a" == broker_of(place_of(str(store)))
    said("broken")
    assert broker_of(place_of(str(store))) is None


def test_secrets() -> None:
    """What is shown of a URI has no credentials and no options."""
    one = FleetStore("s3://key:secret@bucket/a?/store?region=x&scheme=http")
    assert one.name == "s3://bucket/a?/store"
