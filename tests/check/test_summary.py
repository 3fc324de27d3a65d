"""What a validation says of itself: how much was read, and how fast where that means something."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rmqtool.check.options import ValidateOptions
from rmqtool.check.report import Account, Summary, sentences
from rmqtool.check.validate import validate
from rmqtool.machine import announce
from tests.stores import fixture_store


@pytest.mark.parametrize(
    ("size", "seconds", "said"),
    [
        (500_000, 0.99, "read 500,000 bytes in 0.99 s: 0 records"),
        (500_000, 2.0, "read 500,000 bytes in 2.00 s (0.25 MB/s): 0 records"),
        (1_999_000_000, 2.0, "read 1,999,000,000 bytes in 2.00 s (999.50 MB/s): 0 records"),
        (2_500_000_000, 2.0, "read 2,500,000,000 bytes in 2.00 s (1.25 GB/s): 0 records"),
    ],
)
def test_rate(size: int, seconds: float, said: str) -> None:
    """A rate has the unit of which it has at least one; a short run has none."""
    account = Account()
    account.bytes = size
    assert any(
        sentence.startswith(said) for sentence in sentences(Summary(account, seconds=seconds))
    )


def test_compiling_is_no_reading(tmp_path: Path) -> None:
    """The time for which a first run waits for the compiler is not that of reading."""
    waited = []

    def watch(_: int) -> None:
        with announce.compiling():
            time.sleep(0.3)
        waited.append(0.3)

    store = fixture_store("rocketmq-5.5.0-traffic", tmp_path)
    findings = validate(ValidateOptions(store=store), watch)
    begin = time.monotonic()
    for _ in findings:
        pass
    assert waited
    assert findings.summary.seconds <= time.monotonic() - begin - sum(waited)
