"""Versions and what they do differently."""

from __future__ import annotations

import pytest

from rmqtool.errors import UsageError
from rmqtool.startup.rules import LINES, PROVEN, AbnormalStart, NormalStart, rules_of


@pytest.mark.parametrize("line", LINES)
def test_line_is_one_release(line: str) -> None:
    """A line starts as the release that speaks for it."""
    assert rules_of(LINES[line]) == rules_of(line)


def test_proven_lines() -> None:
    """Lines of brokers that are about are spoken for by releases that are compared."""
    assert set(PROVEN) == {rules_of(line).version for line in ("4.9", "5.1", "5.2", "5.3", "5.5")}


@pytest.mark.parametrize(
    ("version", "start"),
    [
        ("4.9.8", NormalStart.THIRD_LAST),
        ("5.3.1", NormalStart.THIRD_LAST),
        ("5.3.2", NormalStart.QUEUE_MAXIMUM),
        ("5.3.4", NormalStart.FIRST_RECORD),
    ],
)
def test_rule_holds_from_its_release_on(version: str, start: NormalStart) -> None:
    """Between two lines a release has the rules that it brought, not those of its line."""
    assert start is rules_of(version).normal_start


def test_checkpoint_offset_is_of_5_5() -> None:
    """5.4 still goes by times."""
    assert AbnormalStart.CHECKED_STORE_TIME is rules_of("5.4").abnormal_start
    assert AbnormalStart.QUEUED_OFFSET is rules_of("5.5").abnormal_start


@pytest.mark.parametrize("version", ["", "5", "5.6", "5.6.0", "6.0.0", "4.8.0", "5.3.x", "latest"])
def test_unknown_version(version: str) -> None:
    """A version that nobody has looked at is refused, not guessed."""
    with pytest.raises(UsageError, match="--broker-version"):
        rules_of(version)
