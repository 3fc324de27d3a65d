"""No false alarm: what real brokers wrote is sound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqtool.check.manifest.manifest import Manifest
from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.findings.catalogue import Severity
from tests.check.validation import run
from tests.stores import FIXTURES, broker_conf, fixture_names

ORDINARY = [*fixture_names(), *fixture_names(scenario="redelivered")]
FURTHER = [path.name for path in sorted(FIXTURES.glob("rocketmq-*")) if path.name not in ORDINARY]
# What brokers do wrong themselves: see the findings. Level quick sees the first only.
LOST_BY_BROKERS = {
    "rocksdb-v2": {"FS-ORPHAN", "MV-TOPIC", "MV-SWAP"},
    "rocksdb-crash": {"RQ-BEHIND"},  # until recovery: who takes `abort` away loses messages
}


@pytest.mark.parametrize("level", CheckLevel)
@pytest.mark.parametrize("has_conf", [False, True], ids=["alone", "with-conf"])
@pytest.mark.parametrize("name", ORDINARY)
def test_fixture_is_sound(
    pristine: Callable[[str], Path],
    name: str,
    level: CheckLevel,
    *,
    has_conf: bool,
) -> None:
    """A store that a broker wrote is sound at every level, with exit 0 and nothing unread."""
    store = pristine(name)
    findings, exit_code, summary = run(store, level, broker_conf(name) if has_conf else None)
    assert [] == [finding for finding in findings if finding.severity is not Severity.NOTE]
    assert 0 == exit_code
    assert {} == summary.account.unread
    assert summary.is_finished
    assert (summary.account.records > 0) == level.reads_log


@pytest.mark.parametrize("has_conf", [False, True], ids=["alone", "with-conf"])
@pytest.mark.parametrize("name", FURTHER)
def test_further_fixtures(
    pristine: Callable[[str], Path], tmp_path: Path, name: str, *, has_conf: bool
) -> None:
    """Stores of RocksDB and compaction are sound, too, at each level, and with a manifest."""
    store, conf = pristine(name), broker_conf(name) if has_conf else None
    known = next((codes for end, codes in LOST_BY_BROKERS.items() if name.endswith(end)), set())
    book: Path | None = None
    for level in CheckLevel:
        asked = ValidateOptions(
            store, level=level, broker_conf=conf, jobs=1, keeps_book=True, since=book
        )
        checks = validate(asked)
        found = {str(one.code) for one in checks if one.severity is not Severity.NOTE}
        assert found <= known
        assert {} == checks.summary.account.unread
        assert checks.ledger is not None
        assert checks.ledger.manifest is not None
        book = tmp_path / "book"
        book.write_bytes(checks.ledger.manifest.encode())
        assert checks.ledger.manifest == Manifest.read(book)
