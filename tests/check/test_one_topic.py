"""With --topic the queues of others are not listed, and nothing is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from tests.evidence import Evidence
from tests.stores import fixture_store


@pytest.mark.parametrize("topic", ["traffic-orders", "no-such-topic"])
def test_no_false_alarm(topic: str, tmp_path: Path, evidence: Evidence) -> None:
    """A sound store has no finding, whichever topic is asked for."""
    store = evidence.keep(fixture_store("rocketmq-4.9.3-traffic", tmp_path))
    assert [] == list(validate(ValidateOptions(store=store, topic=topic)))
