"""Points in time as RocketMQ stores them, milliseconds since 1970 UTC, and as people write them.

Out: ISO 8601 in UTC with milliseconds, never anything that depends on a locale or a clock. A person
may ask for the clock of a place, in tables only. What people type is read in `clock.py`.
"""

from __future__ import annotations

import re
from datetime import MAXYEAR, UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final

from rmqtool.plural import nearest

USUAL: Final = "Europe/Berlin, Asia/Shanghai, UTC, local"
DAY_MS: Final = 86_400_000
DAY_MINUTES: Final = 1440
LOCAL: Final = "local"
_ISO: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
# A damaged timestamp may be any 64-bit integer, datetime ends with the year 9999.
_DAYS_IN_400_YEARS: Final = 146_097
_ENDS: Final = [f".{ms:03d}Z" for ms in range(1000)]


def iso_time(ms: int) -> str:
    """Give `2026-11-21T02:03:04.005Z` for milliseconds since 1970.

    Years beyond four digits have the sign that ISO 8601 asks for (`+292278994-08-17T…`), so that
    even a damaged timestamp has exactly one text.
    """
    seconds, rest = divmod(ms, 1000)
    return _iso_second(seconds) + _ENDS[rest]


@lru_cache(maxsize=4096)
def _iso_second(seconds: int) -> str:
    """Give the date and the time of a number of seconds since 1970: many times share theirs."""
    minutes, second = divmod(seconds, 60)
    return f"{_iso_minute(minutes)}:{second:02d}"


@lru_cache(maxsize=4096)
def _iso_minute(minutes: int) -> str:
    """Give the date and the time of a number of minutes since 1970."""
    days, minute = divmod(minutes, DAY_MINUTES)
    eras, rest = divmod(days, _DAYS_IN_400_YEARS)
    day = datetime.fromtimestamp(rest * 86_400, UTC)
    year = day.year + 400 * eras
    shown = f"{year:04d}" if 0 <= year <= MAXYEAR else f"{year:+07d}"
    return f"{shown}-{day.month:02d}-{day.day:02d}T{minute // 60:02d}:{minute % 60:02d}"


def ms_of(moment: datetime) -> int:
    """Give the milliseconds since 1970 of a point in time that has a zone."""
    passed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (passed.days * 86_400 + passed.seconds) * 1000 + passed.microseconds // 1000


class _Here(tzinfo):
    """The zone of this machine, with its summer times: the offset of today is not that of March."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        """Give the offset of this machine's clocks from UTC."""
        naive = datetime.now() if moment is None else moment.replace(tzinfo=None)  # noqa: DTZ005
        return naive.astimezone().utcoffset() or timedelta()

    def dst(self, _moment: datetime | None) -> None:
        """Say nothing about summer times: the offset has them."""

    def tzname(self, _moment: datetime | None) -> str:
        """Give the name that people give it here."""
        return LOCAL

    def fromutc(self, moment: datetime) -> datetime:
        """Give what clocks show here."""
        shown = moment.replace(tzinfo=UTC).astimezone()
        here = shown.replace(tzinfo=self)
        return here if here.utcoffset() == shown.utcoffset() else here.replace(fold=1)


# +08:00, UTC+8, GMT+0530; no zone is more than 14 hours from UTC.
_OFFSET: Final = r"(?:UTC|GMT)?(?P<sign>[+-])(?P<hours>0?[0-9]|1[0-4]):?(?P<minutes>[0-5][0-9])?"
AMBIGUOUS: Final = {
    "CST": ("Asia/Shanghai", "America/Chicago"),
    "IST": ("Asia/Kolkata", "Europe/Dublin", "Asia/Jerusalem"),
    "BST": ("Europe/London", "Asia/Dhaka"),
}


def zone_of(name: str) -> tzinfo:
    """Give a time zone by its name; `local` is that of this machine.

    Raises:
        ValueError: there is not of that name here.
    """
    if name == LOCAL:
        return _Here()
    if name == "UTC":
        return UTC  # most often asked, and zoneinfo takes 4 ms to load
    if offset := re.fullmatch(_OFFSET, name):
        minutes = int(offset["hours"]) * 60 + int(offset["minutes"] or 0)
        return timezone(timedelta(minutes=-minutes if offset["sign"] == "-" else minutes))
    if name in AMBIGUOUS:
        reason = f"{name} may be {' or '.join(AMBIGUOUS[name])}: give one of these"
        raise ValueError(reason)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        from zoneinfo import available_timezones

        near = nearest(name, sorted(available_timezones()))
        known = f"nearest: {' '.join(near)}" if near else f"such as {USUAL}"
        reason = f"no time zone {name!r} here; {known}"
        raise ValueError(reason) from error


def in_zone(value: object, zone: tzinfo) -> object:
    """Give a time as clocks of a place show it, with its offset; anything else as it is."""
    if isinstance(value, str) and re.fullmatch(_ISO, value):
        value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        return value
    try:
        return value.astimezone(zone).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):  # at the ends of time there is no offset
        return value
