"""Times as people type them: `14:32`, `yesterday 14:32`, `1h`, `2026-11-21 09:04`, `TIME±5m`.

A time with an offset from UTC means the same everywhere. One without is read in the zone of a
`Clock`, and the clock keeps what it took the words for, so that an answer can say it.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from rmqtool.errors import UsageError
from rmqtool.times import DAY_MS, LOCAL, ms_of, zone_of

if TYPE_CHECKING:
    from datetime import tzinfo

EXAMPLES: Final = "14:32, 'yesterday 14:32', '2026-11-21 09:04', 2026-11-21T09:04:00Z, 1h ago, ms"
NEAR_MS: Final = 5 * 60_000  # of `--around TIME` without a length
UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": DAY_MS, "w": 7 * DAY_MS}
# Compiled where they are used: most commands are given no time.
_EPOCH_MS: Final = r"-?\d{1,19}"
_LENGTH: Final = r"(?:\d{1,9}\s*(?:ms|s|m|h|d|w)\s*)+"
_PART: Final = r"(\d+)\s*(ms|s|m|h|d|w)"
_AGO: Final = r"(.+?)\s+ago"
_CLOCK: Final = r"(?:(today|yesterday)\s+)?(\d{1,2}:\d\d(?::\d\d(?:\.\d{1,6})?)?)"
_DAYS: Final = {"today": 0, "yesterday": 1}
_AROUND: Final = r"(.+?)\s*(?:±|\+/?-)\s*(.+)"


AT: Final = "RMQTOOL_AT"  # of option --at, which not all have that predict a start


def start_ms() -> int:
    """Give the time of a start that is predicted, ms since 1970: as RMQTOOL_AT has it, else now.

    Raises:
        UsageError: the variable is no time.
    """
    text = os.environ.get(AT)
    return Clock().ms(AT, text) if text else time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Clock:
    """Reads times for somebody in a place."""

    place: str = ""  # name of a time zone; empty for that of this machine
    # what "yesterday" and "1h ago" count from, ms since 1970; None is now
    now_ms: int | None = None
    # what times without a zone were taken for, filled while reading
    read: dict[str, str] = field(default_factory=dict)

    def ms(self, option: str, text: str) -> int:
        """Give the milliseconds since 1970 of a time. Raises UsageError: it is not one."""
        text = text.strip()
        if re.fullmatch(_EPOCH_MS, text):
            return int(text)
        moment = self._moment(text)
        if moment is None:
            reason = f"{text!r} is not a time; such as {EXAMPLES}"
            raise UsageError(option=option, reason=reason)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=self.zone)
            self.read[text] = moment.isoformat(timespec="milliseconds")
        return ms_of(moment)

    def since(self, option: str, text: str) -> int:
        """Read a length of time before now, such as `1h`, or a time.

        Raises:
            UsageError: it is neither.
        """
        length = length_ms(text)
        return self.ms(option, text) if length is None else self._now - length

    def around(self, option: str, text: str) -> tuple[int, int]:
        """Read `TIME±5m`: the first millisecond, and the one past the last.

        Raises:
            UsageError: it is not one.
        """
        parts = re.fullmatch(_AROUND, text.strip())
        near = NEAR_MS if parts is None else length_ms(parts[2])
        if near is None:
            raise UsageError(option=option, reason=f"{text!r} is not TIME±LENGTH, such as 14:32±5m")
        middle = self.ms(option, text if parts is None else parts[1])
        return middle - near, middle + near + 1

    @property
    def zone(self) -> tzinfo:
        """The time zone of the place. Raises ValueError: there is not of that name."""
        return zone_of(self.place or LOCAL)

    @property
    def java_zone(self) -> str:
        """The name that Java knows: that of the place, or today's offset of this machine."""
        if self.place not in {"", LOCAL}:
            return self.place
        return datetime.now(self.zone).isoformat()[-6:]

    @property
    def note(self) -> str:
        """What times without a zone were taken for, one sentence; empty where all had one."""
        if not self.read:
            return ""
        whose = "this machine" if self.place in {"", LOCAL} else self.place
        taken = ", ".join(f"{text} is {meant}" for text, meant in self.read.items())
        return f"{taken}, in the time zone of {whose} (--time-zone changes it)"

    @property
    def _now(self) -> int:
        return ms_of(datetime.now(UTC)) if self.now_ms is None else self.now_ms

    def _moment(self, text: str) -> datetime | None:
        """Give the point in time of words, without a zone where they have none."""
        now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self._now)
        if text == "now":
            return now
        if (ago := re.fullmatch(_AGO, text)) and (length := length_ms(ago[1])) is not None:
            return now - timedelta(milliseconds=length)
        try:
            if hour := re.fullmatch(_CLOCK, text):
                there = now.astimezone(self.zone) - timedelta(days=_DAYS.get(hour[1], 0))
                return datetime.fromisoformat(f"{there.date()}T{hour[2]:0>5}")
            if text in _DAYS:
                there = now.astimezone(self.zone) - timedelta(days=_DAYS[text])
                return datetime.fromisoformat(f"{there.date()}")
            return datetime.fromisoformat(text)
        except (ValueError, OverflowError):
            return None


def is_time(text: str) -> bool:
    """Tell whether words are written as a time: a date with or without an hour, or an hour."""
    return bool(re.fullmatch(_CLOCK, text) or re.fullmatch(r"\d{4}-\d\d-\d\d([T ]\S*)?", text))


def length_ms(text: str) -> int | None:
    """Give the milliseconds of `90s`, `5m`, `1h30m`, `2d`; None when it is no length of time."""
    if not re.fullmatch(_LENGTH, text.strip()):
        return None
    return sum(int(number) * UNITS_MS[unit] for number, unit in re.findall(_PART, text))
