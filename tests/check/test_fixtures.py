"""No false alarm: what real brokers wrote is sound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from rmqtool.findings.catalogue import Severity
from tests.check.validation import run
from tests.evidence import Evidence
from tests.stores import broker_conf, fixture_names

# What is really odd in a fixture, because the scenario made it so.
KNOWN_WARNINGS: Final = {
    # A direct write put messages under a topic that no client can name.
    "crash": {"CL-TOPIC": 5},
    # The light queue's second parent topic was never configured.
    "4.9.3-lmq": {"FS-ORPHAN": 1},
}


def _known(name: str) -> dict[str, int]:
    return next((known for part, known in KNOWN_WARNINGS.items() if part in name), {})


@pytest.mark.parametrize("has_conf", [False, True], ids=["alone", "with-conf"])
@pytest.mark.parametrize("name", fixture_names())
def test_fixture_is_sound(
    pristine: Callable[[str], Path], evidence: Evidence, name: str, *, has_conf: bool
) -> None:
    """A store that a broker wrote is sound at `deep`, with exit 0 and nothing unread."""
    store = pristine(name)
    if "default-geometry" not in name:  # 1.4 GB of holes take seconds to hash
        evidence.keep(store)
    found, exit_code, summary = run(store, "deep", broker_conf(name) if has_conf else None)
    assert [] == [one for one in found if one.severity is Severity.DAMAGE]
    warnings = Counter(one.code for one in found if one.severity is Severity.WARNING)
    assert _known(name) == warnings
    assert 0 == exit_code
    assert {} == summary.account.unread
    assert summary.is_finished
    assert summary.account.records > 0
