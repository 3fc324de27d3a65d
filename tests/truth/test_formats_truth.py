"""The formats read every byte of what real brokers wrote, and write it back."""

from __future__ import annotations

from rmqtool.formats import annotate, config, config_shapes, message, properties
from rmqtool.formats.message_id import UniqueKey, recognise
from tests.truth.fixture import Fixture

QUARTER_HOUR_MS = 15 * 60 * 1000  # time zones differ by multiples of it
SENDING_MS = 10_000  # between the client's ID and the born timestamp


def test_records(fixture: Fixture) -> None:
    """Decode sees what construct sees, encode gives the bytes back, spans tile them."""
    for record in fixture.records:
        found = message.decode(record.raw)
        assert record.raw == message.encode(found)
        assert record.fields == {name: getattr(found, name) for name in record.fields}
        assert (record.topic, record.properties) == (found.topic, found.properties)
        assert found.crc_matches is not False
        annotated = annotate.body_spans(found, record.raw)
        ends = [span.position + span.length for span in annotated]
        assert [0, *ends] == [*(span.position for span in annotated), record.size]


def test_property_crc(fixture: Fixture) -> None:
    """With the setting on every record has a property CRC, and it matches; else none has."""
    is_on = fixture.is_on("enabledAppendPropCRC") or None
    for record in fixture.records:
        assert properties.crc_matches(record.raw, record.properties) is is_on


def test_unique_keys(fixture: Fixture) -> None:
    """The time in a client's ID is that of sending, up to the time zone."""
    for record in fixture.records:
        unique_key = recognise(record.properties.get("UNIQ_KEY", ""))
        if isinstance(unique_key, UniqueKey):
            born = record.fields["born_timestamp"]
            time = unique_key.nearest_time(born)
            assert time is not None
            off = (time - born + QUARTER_HOUR_MS // 2) % QUARTER_HOUR_MS - QUARTER_HOUR_MS // 2
            assert abs(off) < SENDING_MS


def test_config_files(fixture: Fixture) -> None:
    """All that brokers write into `config` can be read, and means something."""
    found = {
        path.name: config.parse_object(path.read_bytes(), path=path.name)
        for path in (fixture.store / "config").glob("*.json*")
        if path.stat().st_size
    }
    topics = {topic.topic: topic for topic in config_shapes.topics(found.get("topics.json", {}))}
    assert bool(topics) is not fixture.is_in_rocksdb
    assert all(topic.write_queue_nums is not None for topic in topics.values())
    offsets = list(config_shapes.consumer_offsets(found.get("consumerOffset.json", {})))
    assert all(offset.queue_offset is not None for offset in offsets)
    groups = list(config_shapes.subscription_groups(found.get("subscriptionGroup.json", {})))
    assert all(group.retry_max_times is not None for group in groups)
