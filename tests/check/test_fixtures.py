"""No false alarm: what real brokers wrote is sound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqtool.check.options import CheckLevel
from rmqtool.findings.catalogue import Severity
from tests.check.validation import run
from tests.evidence import Evidence
from tests.stores import broker_conf, fixture_names


@pytest.mark.parametrize("level", CheckLevel)
@pytest.mark.parametrize("has_conf", [False, True], ids=["alone", "with-conf"])
@pytest.mark.parametrize("name", [*fixture_names(), *fixture_names(scenario="redelivered")])
def test_fixture_is_sound(
    pristine: Callable[[str], Path],
    evidence: Evidence,
    name: str,
    level: CheckLevel,
    *,
    has_conf: bool,
) -> None:
    """A store that a broker wrote is sound at every level, with exit 0 and nothing unread."""
    store = pristine(name)
    if "default-geometry" not in name:  # 1.4 GB of holes take seconds to hash
        evidence.keep(store)
    found, exit_code, summary = run(store, level, broker_conf(name) if has_conf else None)
    assert [] == [one for one in found if one.severity is not Severity.NOTE]
    assert 0 == exit_code
    assert {} == summary.account.unread
    assert summary.is_finished
    assert (summary.account.records > 0) == level.reads_log
