"""Every unit and entry that a real broker wrote is what the rules derive from its commitlog."""

from __future__ import annotations

from typing import Any

from rmqtool.formats import compression, consume_queue_ext, index, inner_batch
from rmqtool.formats.bloom import BloomFilter, filter_name
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.consume_queue_ext import ExtUnit
from rmqtool.formats.message_id import OffsetMessageId, UniqueKey, recognise
from tests.truth import broker_files, plain_reader, sql_filters
from tests.truth.fixture import Fixture
from tests.truth.plain_reader import Key, Queue, Record


def test_consume_queues(fixture: Fixture) -> None:
    """The units of each queue are those derived, at their places; only expired ones are more."""
    derived = plain_reader.queue_units(fixture.records, fixture.rules)
    if fixture.is_in_rocksdb:  # no files to compare with: what the broker answered must do
        assert _places(fixture) == _places_of_units(derived)
        return
    for queue, directory in broker_files.queues(fixture.store / "consumequeue"):
        written, ext_units = broker_files.queue_units(directory), fixture.ext_units(queue)
        alive = {
            offset: _without_address(unit, ext_units)
            for offset, unit in written.items()
            if CQ_UNIT.parse(unit)["physical_offset"] >= fixture.log_start
        }
        assert derived.pop(queue, {}) == alive, queue
    assert derived == {}


def test_ext_units(fixture: Fixture) -> None:
    """Ext units belong to the units that point at them, in order, with the bits of the filters."""
    records = {record.physical_offset: record for record in fixture.records}
    for queue, directory in broker_files.queues(fixture.store / "consumequeue_ext"):
        ext_units = broker_files.ext_units(directory)
        units = broker_files.queue_units(fixture.store / "consumequeue" / queue[0] / str(queue[1]))
        rows = [CQ_UNIT.parse(unit) for _, unit in sorted(units.items())]
        assert list(ext_units) == [row["tags_code"] for row in rows]
        for row, ext_unit in zip(rows, ext_units.values(), strict=True):
            record = records[row["physical_offset"]]
            assert ext_unit.tags_code == plain_reader.plain_tags_code(record)
            assert ext_unit.msg_store_time == record.store_timestamp
            assert ext_unit.bit_map == sql_filters.bit_map(record, fixture.filters)


def test_filters(fixture: Fixture) -> None:
    """The bits that the broker gave each SQL92 subscription are those of its name."""
    bloom_filter = BloomFilter()
    for one in fixture.filters:
        assert one.bit_count == bloom_filter.bit_count
        name = filter_name(one.group, one.topic)
        assert sorted(one.bit_positions) == sorted(bloom_filter.bit_positions(name))


def test_batch_queues(fixture: Fixture) -> None:
    """The units of each batch queue are those derived, in order."""
    derived = plain_reader.batch_units(fixture.records, fixture.rules)
    written = {
        queue: broker_files.batch_units(directory)
        for queue, directory in broker_files.queues(fixture.store / "batchconsumequeue")
    }
    assert derived == {queue: units for queue, units in written.items() if units}


def test_index(fixture: Fixture) -> None:
    """Index files are those derived, byte for byte: entries, chains, slots and header."""
    slot_count, entry_count = fixture.index_geometry
    keys = list(plain_reader.index_keys(fixture.records, fixture.rules))
    before: dict[str, Any] | None = None
    for file in broker_files.index_files(fixture.store / "index", slot_count):
        expired = _expired_keys(file, fixture.log_start)
        before = before or _before(file, fixture.log_start)
        room = entry_count - index.FIRST_ENTRY - len(expired)
        image = broker_files.index_image([*expired, *keys[:room]], slot_count, before)
        keys, before = keys[room:], file.header
        assert file.differences(image) == [], file.name
    assert keys == []


def test_sent(fixture: Fixture) -> None:
    """Each message that was sent lies where the broker said, as it was sent."""
    stored = {record.physical_offset: record for record in fixture.records}
    for row in fixture.sent:
        if row["physical_offset"] >= fixture.log_start:
            record = stored[row["physical_offset"]]
            assert _as_sent(row, fixture) == _as_stored(record, row), row["offset_message_id"]


def test_ids(fixture: Fixture) -> None:
    """IDs that a broker and clients made are recognised for what they are."""
    for row in fixture.sent:
        offset_id = recognise(row["offset_message_id"])
        assert isinstance(offset_id, OffsetMessageId)
        assert offset_id.physical_offset == row["physical_offset"]
        if row["unique_key"] is not None:
            unique_key = recognise(row["unique_key"])
            assert isinstance(unique_key, UniqueKey)
            assert str(unique_key) == row["unique_key"]


def _places(fixture: Fixture) -> dict[tuple[str, int, int], int]:
    """Give the physical offset that the broker answered, by topic, queue ID and queue offset."""
    return {
        (row["topic"], row["queue_id"], row["queue_offset"]): row["physical_offset"]
        for row in fixture.sent
    }


def _places_of_units(units: dict[Queue, dict[int, bytes]]) -> dict[tuple[str, int, int], int]:
    """Give the same of derived units."""
    return {
        (*queue, queue_offset): CQ_UNIT.parse(unit)["physical_offset"]
        for queue, by_offset in units.items()
        for queue_offset, unit in by_offset.items()
    }


def _without_address(unit: bytes, ext_units: dict[int, ExtUnit]) -> bytes:
    """Give a unit with the tags code of the ext unit that it points at."""
    values = CQ_UNIT.parse(unit)
    if not consume_queue_ext.is_ext_address(values["tags_code"]):
        return unit
    return CQ_UNIT.build(values | {"tags_code": ext_units[values["tags_code"]].tags_code})


def _expired_keys(file: broker_files.IndexFile, log_start: int) -> list[Key]:
    """Give the entries whose records are gone; what the file says of them is taken on trust."""
    begin, keys = file.header["begin_timestamp"], []
    for number, entry in enumerate(file.entries()):
        if entry["physical_offset"] >= log_start:
            break
        time = begin + 1000 * entry["time_difference"] if number else begin
        keys.append(Key(entry["key_hash"], entry["physical_offset"], time))
    return keys


def _before(file: broker_files.IndexFile, log_start: int) -> dict[str, Any] | None:
    """Give what the first file that is left says about the header of the one before it."""
    first = file.entries()[0]
    if log_start == 0:
        return None
    end_timestamp = file.header["begin_timestamp"] - 1000 * first["time_difference"]
    return {"end_timestamp": end_timestamp, "end_physical_offset": 0}


def _as_sent(row: dict[str, Any], fixture: Fixture) -> dict[str, Any]:
    """Give what a line of `sent.jsonl` promises."""
    sent = dict(row["properties"])
    if "DELAY" in sent:  # the broker caps it
        sent["DELAY"] = str(min(int(sent["DELAY"]), len(fixture.rules.delay_seconds)))
    return {
        "topic": row["topic"],
        "queue_id": row["queue_id"],
        "tags": row["tags"],
        "keys": row["keys"],
        "properties": sent,
        "body": row["body"],
        "flag": row["flag"],
        "offset_message_id": row["offset_message_id"],
    }


def _as_stored(record: Record, row: dict[str, Any]) -> dict[str, Any]:
    """Give the same of a record; properties that the broker added are left out."""
    fields = record.fields
    values = record.own_properties if row["kind"] == "batch" else record.properties
    body = compression.decompress(record.body, fields["sys_flag"]).body
    flag = fields["flag"]
    is_elsewhere = row["kind"] in {"half", "delay", "timer"}
    topic = values["REAL_TOPIC"] if is_elsewhere else record.topic
    queue_id = int(values["REAL_QID"]) if is_elsewhere else fields["queue_id"]
    if row["kind"] == "inner-batch":
        messages = list(inner_batch.messages(record.body))
        assert len(messages) == int(values["INNER_NUM"])
        message = messages[row["queue_offset"] - int(values["INNER_BASE"])]
        values, body, flag = message.properties, message.body, message.flag
    host = (fields["store_address"], fields["store_port"])
    return {
        "topic": topic,
        "queue_id": queue_id,
        "tags": values.get("TAGS"),
        "keys": [key for key in values.get("KEYS", "").split(" ") if key],
        "properties": {name: value for name, value in values.items() if name in row["properties"]},
        "body": body,
        "flag": flag,
        "offset_message_id": str(OffsetMessageId(*host, record.physical_offset)),
    }
