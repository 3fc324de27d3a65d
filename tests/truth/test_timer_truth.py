"""Timer log, wheel and checkpoint are what the rules derive from the timer topic's records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rmqtool.formats import java
from rmqtool.formats.message import BLANK_MAGIC_CODE
from rmqtool.formats.timer import (
    CHECK_FILE_LENGTH,
    DEFAULT_PRECISION_MS,
    MAGIC_DELETE,
    MAGIC_ROLL,
    NO_POSITION,
    TIMER_BLANK,
    TIMER_CHECK,
    TIMER_LOG_RECORD,
    TIMER_SLOT,
    slot_position,
)
from tests.truth.fixture import Fixture

TIMER_TOPIC = "rmq_sys_wheel_timer"
EMPTY = {"first_pos": NO_POSITION, "last_pos": NO_POSITION, "num": 0, "magic": 0}


def timer_log(directory: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read all records of the timer log with their positions; each file ends in a blank."""
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        raw, position = path.read_bytes(), 0
        while position + TIMER_BLANK.size <= len(raw):
            head = TIMER_BLANK.parse(raw[position:])
            if head["magic"] == BLANK_MAGIC_CODE:
                assert head["size"] == len(raw) - position
                break
            if not head["size"]:
                break
            yield int(path.name) + position, TIMER_LOG_RECORD.parse(raw[position:])
            position += TIMER_LOG_RECORD.size


def test_timer_log(fixture: Fixture) -> None:
    """The timer log has one record for each of the timer topic, in order."""
    written = [record for _, record in timer_log(fixture.store / "timerlog")]
    expected = [record for record in fixture.records if record.topic == TIMER_TOPIC]
    for found, record in zip(written, expected, strict=True):
        assert found["size"] == TIMER_LOG_RECORD.size
        assert found["physical_offset"] == record.physical_offset
        assert found["record_size"] == record.size
        assert found["topic_hash"] == java.string_hash(record.properties["REAL_TOPIC"])
        assert bool(found["magic"] & MAGIC_DELETE) == ("TIMER_DEL_UNIQKEY" in record.properties)
        if not found["magic"] & MAGIC_ROLL:
            deliver_ms = found["curr_write_time"] + found["delayed_time"]
            assert deliver_ms == int(record.properties["TIMER_OUT_MS"])


def test_timer_wheel(fixture: Fixture) -> None:
    """The wheel is what the log's records make of it, one after the other."""
    path = fixture.store / "timerwheel"
    if not path.exists():
        return
    slots: dict[int, dict[str, Any]] = {}
    for position, record in timer_log(fixture.store / "timerlog"):
        deliver_ms = record["curr_write_time"] + record["delayed_time"]
        place = slot_position(deliver_ms, DEFAULT_PRECISION_MS)
        time = deliver_ms // DEFAULT_PRECISION_MS
        slot = slots.get(place, EMPTY | {"time": time})
        slot = slot if slot["time"] == time else EMPTY | {"time": time}
        assert record["prev_pos"] == slot["last_pos"]
        first = position if slot["first_pos"] == NO_POSITION else slot["first_pos"]
        step = -1 if record["magic"] & MAGIC_DELETE else 1
        slots[place] = slot | {"first_pos": first, "last_pos": position, "num": slot["num"] + step}
    raw = bytearray(path.read_bytes())
    for place, slot in slots.items():
        assert slot == TIMER_SLOT.parse(bytes(raw[place : place + TIMER_SLOT.size]))
        raw[place : place + TIMER_SLOT.size] = bytes(TIMER_SLOT.size)
    assert raw.count(0) == len(raw)


def test_timer_checkpoint(fixture: Fixture) -> None:
    """The checkpoint points behind the timer log and the timer topic's queue, or before."""
    path = fixture.store / "config" / "timercheck"
    if not path.exists():
        return
    raw = path.read_bytes()
    check = TIMER_CHECK.parse(raw)
    assert len(raw) == CHECK_FILE_LENGTH
    assert not any(raw[TIMER_CHECK.size :])
    ends = [position + record["size"] for position, record in timer_log(fixture.store / "timerlog")]
    count = sum(record.topic == TIMER_TOPIC for record in fixture.records)
    assert 0 <= check["last_timer_log_flush_pos"] <= max(ends, default=0)
    assert 0 <= check["last_timer_queue_offset"] <= count
