"""The key index of a store whose oldest segment has expired: its entries are there, it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from rmqtool import rebuild, repair
from rmqtool.findings.registry_index import IX_HEAD, IX_KEY
from tests import inflict, plain_store
from tests.check.validation import run
from tests.stores import broker_conf, fixture_store

NAMES: Final = ("rocketmq-4.9.3-traffic", "rocketmq-5.5.0-traffic")
OFFSET: Final = 4  # of the physical offset in an entry, 8 bytes
COUNT: Final = 36  # of indexCount in the header, 4 bytes
SIGN: Final = -(1 << 31)


def expired(name: str, into: Path) -> Path:
    """Give a store without its first segment, as retention leaves it."""
    root = fixture_store(name, into)
    plain_store.segments(root)[0].unlink()
    return root


def entries(root: Path) -> list[tuple[int, ...]]:
    """Give hash and physical offset of all entries in use."""
    return [
        index.entry(number)[:2]
        for index in plain_store.index_files(root)
        for number in range(1, index.count)
    ]


@pytest.mark.parametrize("number", [1, 5, 300])
@pytest.mark.parametrize("name", NAMES)
def test_damaged_entry(name: str, number: int, tmp_path: Path) -> None:
    """An entry that was damaged is one finding, and those of expired records after it are none."""
    root = expired(name, tmp_path)
    (index, *_) = plain_store.index_files(root)
    position = index.entry_position(number)
    inflict.flip_bits(index.path, position + OFFSET + 3, 1)  # 4 GiB more
    findings = run(root, conf=broker_conf(name))[0]
    found = [finding for finding in findings if finding.code.name.startswith("IX-")]
    header = [(IX_HEAD, 16, 8)] if number == 1 else []  # which says the other than entry 1
    assert [*header, (IX_KEY, position, 20)] == [
        (finding.code, finding.position, finding.length) for finding in found
    ]


@pytest.mark.parametrize("name", NAMES)
def test_compared(name: str, tmp_path: Path) -> None:
    """A live entry that differs is told as hash and physical offset, of eight bytes each."""
    root = expired(name, tmp_path)
    index = plain_store.index_files(root)[-1]
    assert [] == rebuild.index(root, check=True).differences
    key_hash = index.entry(3)[0]
    inflict.flip_bits(index.path, index.entry_position(3), 1 << 4)
    (difference,) = rebuild.index(root, check=True).differences
    assert key_hash.to_bytes(4, "big").hex() == difference.expected[:8]
    assert (key_hash ^ 1 << 28).to_bytes(4, "big").hex() == difference.actual[:8]


@pytest.mark.parametrize("name", NAMES)
def test_damaged_count(name: str, tmp_path: Path) -> None:
    """Where the header cannot be right, `repair` counts the entries, as `validate` does.

    It took the file for empty, and the entries of expired records away.
    """
    root = expired(name, tmp_path)
    before = entries(root)
    (index, *_) = plain_store.index_files(root)
    inflict.set_integer(index.path, COUNT, 4, lambda count: count ^ SIGN)
    (difference,) = rebuild.index(root, check=True).differences
    assert f"index/{index.path.name}" == difference.path
    output = tmp_path / "repaired"
    conf = str(broker_conf(name))
    repair.apply(repair.plan(root, broker_conf=conf), output=output)
    assert before == entries(output)
    assert [] == rebuild.index(output, check=True, broker_conf=conf).differences
