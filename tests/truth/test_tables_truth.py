"""What `sql` says of messages, queue units and index entries is what a plain reader reads."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.reads.options import SourceOptions
from rmqtool.sql.questions import LocalQuestions
from tests.truth.fixture import Fixture
from tests.truth.plain_reader import index_keys, queue_units

MESSAGES = """
SELECT physical_offset, size, topic, queue_id, queue_offset, sys_flag, body_crc,
    unix_millis(store_time) AS stored, unix_millis(born_time) AS born, reconsume_times, body_size,
    tags, unique_key FROM messages WHERE extent IS NULL ORDER BY physical_offset
"""
UNITS = """
SELECT topic, queue_id, queue_offset, physical_offset, size FROM queue_units
    WHERE physical_offset >= {start} AND size BETWEEN 1 AND 2147483646 ORDER BY ALL
"""
ENTRIES = "SELECT key_hash, physical_offset FROM index_entries WHERE physical_offset >= {start}"


def asked(fixture: Fixture, text: str) -> list[dict[str, Any]]:
    """Give the rows of an answer."""
    with LocalQuestions(SourceOptions(str(fixture.store))) as questions:
        return [row for chunk in questions.ask(text).chunks for row in chunk]


def test_messages(fixture: Fixture) -> None:
    """Each record of the log is a row, with its fields."""
    expected = [
        {
            "physical_offset": record.physical_offset,
            "size": record.size,
            "topic": record.topic,
            **{name: record.fields[name] for name in ("queue_id", "queue_offset", "sys_flag")},
            "body_crc": record.fields["body_crc"],
            "stored": record.store_timestamp,
            "born": record.fields["born_timestamp"],
            "reconsume_times": record.fields["reconsume_times"],
            "body_size": len(record.body),
            "tags": record.properties.get("TAGS"),
            "unique_key": record.properties.get("UNIQ_KEY"),
        }
        for record in fixture.records
    ]
    assert expected == asked(fixture, MESSAGES)


def test_queue_units(fixture: Fixture) -> None:
    """Each record has its unit in its queue, and in its light queues."""
    plain = queue_units(fixture.records, fixture.rules)
    expected = [
        (topic, queue_id, number, *CQ_UNIT.packer.unpack(unit)[:2])
        for (topic, queue_id), units in plain.items()
        for number, unit in units.items()
    ]
    rows = asked(fixture, UNITS.format(start=fixture.log_start))
    assert sorted(expected) == [tuple(row.values()) for row in rows]


def test_index_entries(fixture: Fixture) -> None:
    """Each key of a record has its entry."""
    expected = Counter(
        (key.key_hash, key.physical_offset) for key in index_keys(fixture.records, fixture.rules)
    )
    rows = asked(fixture, ENTRIES.format(start=fixture.log_start))
    assert expected == Counter(tuple(row.values()) for row in rows)
