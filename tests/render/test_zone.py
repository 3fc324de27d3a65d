"""Times for people: in tables only, and nothing that a stranger wrote is taken for a time."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.render.emit import emit
from rmqtool.render.look import Format, Look
from rmqtool.render.sink import Sink
from rmqtool.rows import Row, Rows
from rmqtool.times import in_zone, iso_time, zone_of

TIME = "2026-11-21T02:51:38.877Z"
THERE = "2026-11-21T10:51:38.877+08:00"


def shown(row: Row, format_: Format = Format.TABLE) -> str:
    """Write one row as somebody in Shanghai wants it."""
    out = io.BytesIO()
    look = Look(format_, zone=zone_of("Asia/Shanghai"))
    emit(Rows(list(row), [[row]]), look, Sink(out, "test"))
    return out.getvalue().decode()


def test_table() -> None:
    """Fields that are times are shown as clocks there do, whatever type they have."""
    assert THERE in shown({"store_time": TIME})
    assert THERE in shown({"store_time": datetime.fromisoformat(TIME)})
    assert THERE in shown({"field": "store_time", "value": TIME})


def test_other_formats() -> None:
    """What programs read stays as it is."""
    for format_ in (Format.JSON, Format.JSONL, Format.CSV):
        assert TIME in shown({"store_time": TIME}, format_)


def test_strangers() -> None:
    """A key that looks like a time is a key."""
    assert TIME in shown({"keys": TIME})
    assert TIME in shown({"field": "keys", "value": TIME})


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_time(ms: int) -> None:
    """The moment stays the same, and a damaged time is no error."""
    found = in_zone(iso_time(ms), zone_of("America/Caracas"))
    assert isinstance(found, str)
    if found != iso_time(ms):
        moment = datetime.fromisoformat(found).astimezone(UTC)
        assert iso_time(ms)[:23] == moment.isoformat(timespec="milliseconds")[:23]


def test_names() -> None:
    """This machine's zone has a name of its own, and an unknown one is refused with examples."""
    assert datetime.now(zone_of("local")).utcoffset() is not None
    for name in ("Mars/Olympus", "", "../../etc/passwd"):
        with pytest.raises(ValueError, match="such as Europe/Berlin"):
            zone_of(name)
    with pytest.raises(ValueError, match="nearest: Asia/Shanghai"):
        zone_of("asia/shangai")
