"""A length that a record states is believed only where the records after it agree."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.repair.lengths_campaign import CHECKS, LENGTHS, Pair, Subject, names, pairs_of

PAIRS: Final = 2  # of each fixture, if all are asked for
EVERY: Final = ("repair", "dump", "carve", "rebuild-log")


@pytest.mark.parametrize("name", names())
def test_no_sound_record_is_lost(name: str, tmp_path: Path, *, is_whole: bool) -> None:
    """One flipped bit of a length costs one record, in every command."""
    subject = Subject(name, tmp_path)
    for pair in pairs_of(subject, PAIRS if is_whole else 1, seed=7):
        assert not [*subject.problems(pair, EVERY)], pair


@pytest.mark.parametrize("name", ["rocketmq-4.9.3-crash", "rocketmq-5.5.0-rocksdb-crash"])
def test_scan_of_all_misleading_sizes(name: str, tmp_path: Path) -> None:
    """A wrong size that ends where a later record begins hides none of those before it."""
    subject = Subject(name, tmp_path)
    pairs = [*subject.misleading()]
    assert len(pairs) > 5
    for pair in pairs:
        assert not [*subject.problems(pair, ("scan",))], pair


def test_campaign_notices(tmp_path: Path) -> None:
    """The campaign sees a record that is not there: each check can fail."""
    subject = Subject("rocketmq-4.9.3-crash", tmp_path)
    pair = Pair(subject.records[3], LENGTHS[1], 0)
    victim = subject.records[40]
    raw = bytearray(victim.path.read_bytes())
    raw[victim.position + 4] ^= 1
    victim.path.write_bytes(raw)
    for command in CHECKS:
        assert [*subject.problems(pair, (command,))], command
