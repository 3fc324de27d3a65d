"""Times as people type them: each means one millisecond, and the zone that was assumed is said."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from rmqtool.clock import Clock, is_time, length_ms
from rmqtool.errors import UsageError
from rmqtool.times import iso_time

NOW = 1_795_305_600_000  # 2026-11-22T00:00:00Z, eight in the morning in Shanghai
SHANGHAI = {
    "14:32": "2026-11-22T06:32:00.000Z",
    "9:04": "2026-11-22T01:04:00.000Z",
    "14:32:05.25": "2026-11-22T06:32:05.250Z",
    "today 14:32": "2026-11-22T06:32:00.000Z",
    "yesterday 14:32": "2026-11-21T06:32:00.000Z",
    "yesterday": "2026-11-20T16:00:00.000Z",
    "2026-11-21 09:04": "2026-11-21T01:04:00.000Z",
    "2026-11-21": "2026-11-20T16:00:00.000Z",
}
EVERYWHERE = {
    "now": "2026-11-22T00:00:00.000Z",
    "1h ago": "2026-11-21T23:00:00.000Z",
    "2026-11-21T09:04:00Z": "2026-11-21T09:04:00.000Z",
    "2026-11-21T09:04:00+08:00": "2026-11-21T01:04:00.000Z",
    "1795305600000": "2026-11-22T00:00:00.000Z",
    "-1": "1969-12-31T23:59:59.999Z",
}


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this machine stand in Berlin."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("text", [*SHANGHAI, *EVERYWHERE])
def test_times(text: str) -> None:
    """A time without a zone is that of the place, and only then something is said."""
    clock = Clock("Asia/Shanghai", NOW)
    assert (SHANGHAI | EVERYWHERE)[text] == iso_time(clock.ms("--from", text))
    assert bool(clock.note) is (text in SHANGHAI)
    assert ("Asia/Shanghai" in clock.note) is (text in SHANGHAI)


@pytest.mark.usefixtures("berlin")
def test_this_machine() -> None:
    """Summer times are those of the day that is meant, not of today."""
    clock = Clock("", NOW)
    assert "2026-07-01T07:04:00.000Z" == iso_time(clock.ms("--from", "2026-07-01 09:04"))
    assert "2026-11-21T08:04:00.000Z" == iso_time(clock.ms("--from", "2026-11-21 09:04"))
    assert "2026-07-01 09:04 is 2026-07-01T09:04:00.000+02:00, 2026-11-21" in clock.note
    assert "the time zone of this machine" in clock.note


def test_lengths() -> None:
    """A length counts back from now, and to both sides of a time."""
    clock = Clock("UTC", NOW)
    assert NOW - 5_400_000 == clock.since("--since", "1h30m")
    assert NOW - 86_400_000 == clock.since("--since", "2026-11-21")
    for sign in ("±", "+-", "+/-", " ± "):
        found = clock.around("--around", f"2026-11-21T00:00:00Z{sign}90s")
        assert (NOW - 86_400_000 - 90_000, NOW - 86_400_000 + 90_001) == found
    assert (NOW - 300_000, NOW + 300_001) == clock.around("--around", "now")
    assert length_ms("1w2d 3h") == 788_400_000
    assert length_ms("1 fortnight") is None


@pytest.mark.parametrize("text", ["yesterdy", "25:00", "", "2026-13-01", "9999999999999d ago"])
def test_no_time(text: str) -> None:
    """What is no time is refused with examples."""
    with pytest.raises(UsageError, match="such as 14:32"):
        Clock("UTC", NOW).ms("--from", text)


def test_pasted() -> None:
    """A bare word is a time only where it can hardly be anything else."""
    assert all(map(is_time, ("14:32", "yesterday 14:32", "2026-11-21", "2026-11-21T09:04:00Z")))
    assert not any(map(is_time, ("yesterday", "now", "1h ago", "order-14:32", "20261121")))
