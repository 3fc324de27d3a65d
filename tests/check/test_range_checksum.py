"""The range checksum of a manifest is the one that a broker gives for the same bytes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqtool.check.log.range_checksum import range_checksum
from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.store.place import Place
from tests.broker.bare_store import BareStore
from tests.broker.jvm import Jvm
from tests.stores import fixture_store

# What `calcDeltaChecksum` of a 5.3.3 broker gave for the segments of rocketmq-5.3.3-traffic.
GIVEN = {
    "commitlog/00000000000000000000": "5959c3f6d878f13f28d802cd681cb871",
    "commitlog/00000000000000131072": "309d20de024e8c22e8c49519e8f55cd7",
    "commitlog/00000000000000262144": "11ee71bdbb34935f4c2187e4c2dfe4ef",
}


def ours(path: Path) -> str:
    """Give the checksum of one file."""
    with Place.of(path).open() as file:
        return range_checksum(file)


def test_manifest(tmp_path: Path) -> None:
    """A manifest has it for each sealed segment, where somebody asks for it."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    for is_asked in (True, False):
        run = validate(ValidateOptions(store, keeps_book=True, range_checksums=is_asked))
        for _ in run:
            pass
        assert run.ledger is not None
        assert run.ledger.manifest is not None
        found = {
            file.path: file.range_checksum
            for file in run.ledger.manifest.files.values()
            if file.range_checksum
        }
        assert (GIVEN if is_asked else {}) == found


@pytest.mark.broker
@pytest.mark.parametrize(
    ("name", "version"),
    [("rocketmq-5.3.3-ipv6", "5.3.3"), ("rocketmq-5.5.0-property-crc", "5.5.0")],
)
def test_broker(name: str, version: str, tmp_path: Path) -> None:
    """A broker gives the same for every file of its log."""
    store = fixture_store(name, tmp_path)
    root = tmp_path / "root"
    shutil.copytree(store / "commitlog", root / "commitlog")
    segments = sorted((root / "commitlog").iterdir())
    size = segments[0].stat().st_size
    expected = [ours(path) for path in segments]
    with Jvm(version, tmp_path / "home") as jvm:
        bare = BareStore(jvm, root, {"mappedFileSizeCommitLog": size, "fileReservedTime": 500_000})
        assert bare.load()
        bare.start()
        for path, checksum in zip(segments, expected, strict=True):
            start = int(path.name)
            given = bare.store.calcDeltaChecksum(start, start + size)
            assert bytes(one & 0xFF for one in given).hex() == checksum
        bare.stop()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        bytes(100),
        b"\0\0\0\x5b\xda\xa3\x20\xa7" + bytes(83),
        b"\x7f\xff\xff\xff\xda\xa3\x20\xa7",
    ],
    ids=["empty", "zeros", "no body", "too long"],
)
def test_nothing(content: bytes, tmp_path: Path) -> None:
    """Where a broker gives none, or fails, there is none."""
    (tmp_path / "file").write_bytes(content)
    assert "" == ours(tmp_path / "file")
