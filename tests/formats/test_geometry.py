"""Where slots, entries and timer steps lie; the file lengths of the default configuration."""

from __future__ import annotations

from rmqtool.formats import consume_queue, index, timer


def test_index_geometry() -> None:
    """The default index file, and the slot of the appendix's key."""
    length = index.file_length(index.DEFAULT_HASH_SLOT_NUM, index.DEFAULT_INDEX_NUM)
    assert length == 420_000_040
    assert index.slot_position(1209712) == 40 + 4 * 1209712
    assert index.entry_position(1000, 1) == 40 + 4 * 1000 + 20


def test_timer_geometry() -> None:
    """The wheel's length, and the records of a default log file: the blank is its last 16 bytes."""
    assert timer.DEFAULT_WHEEL_LENGTH == 38_707_200
    left = timer.DEFAULT_LOG_FILE_LENGTH - 2_016_492 * timer.TIMER_LOG_RECORD.size
    assert left == timer.TIMER_BLANK.size
    assert timer.slot_position(1_700_000_000_000, 1000) == 1_700_000_000 % 1_209_600 * 32


def test_timer_magic() -> None:
    """Each bit of a timer record's magic has its word."""
    assert timer.magic_names(5) == ("default", "delete")
    assert timer.magic_names(2) == ("roll",)


def test_queue_geometry() -> None:
    """A default queue file holds 300,000 units."""
    assert consume_queue.DEFAULT_FILE_LENGTH == 300_000 * consume_queue.CQ_UNIT_SIZE
