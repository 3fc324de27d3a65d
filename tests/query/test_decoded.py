"""IDs say what they hold without a store: what real brokers and clients answered is the measure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmqtool.formats.message import decode
from rmqtool.query.decoded import CLIENT_ID, OFFSET_ID, UNIQUE_KEY, decoded
from rmqtool.rows import rows_of
from rmqtool.times import iso_time
from tests import plain_store
from tests.stores import fixture_store, sent

SECOND_MS = 1000


def _readings(text: str, now_ms: int = 0) -> list[dict[str, Any]]:
    return [dict(row) for chunk in decoded(text, now_ms).chunks for row in rows_of(chunk)]


@pytest.mark.parametrize("name", ["rocketmq-5.3.3-traffic", "rocketmq-5.3.3-ipv6"])
def test_ids_of_a_broker(name: str, tmp_path: Path) -> None:
    """Each ID that a client was given holds the place, and the time at which it was sent."""
    stored = {
        message.physical_offset: message
        for message in (
            decode(record.raw) for record in plain_store.records(fixture_store(name, tmp_path))
        )
    }
    for row in sent(name):
        record = stored[row["physical_offset"]]
        first = _readings(row["offset_message_id"])[0]
        assert (OFFSET_ID, True) == (first["kind"], first["is_likely"])
        assert (row["physical_offset"], record.store_host) == (
            first["physical_offset"],
            first["host"],
        )
        (key,) = _readings(row["unique_key"].lower(), record.store_timestamp)
        assert (UNIQUE_KEY, True, row["unique_key"]) == (key["kind"], key["is_likely"], key["id"])
        assert key["made_time"][:16] <= iso_time(record.born_timestamp)
        assert key["made_time"] >= iso_time(record.born_timestamp - 60 * SECOND_MS)


def test_both_readings() -> None:
    """An ID with a port may be a unique key with a small process: both are rows."""
    kinds = [
        one["kind"] for one in _readings("7F00000100002A9F0000000000001234", 1_700_000_000_000)
    ]
    assert [OFFSET_ID, UNIQUE_KEY] == kinds


def test_5_client() -> None:
    """IDs of the 5.x clients hold the hardware address."""
    (one,) = _readings("01F4D4885A3B6F1A2B0999F6C400000001")
    assert (CLIENT_ID, "f4:d4:88:5a:3b:6f", 1) == (one["kind"], one["host"], one["number"])
    assert "2026-02-08T09:52:04.000Z" == one["made_time"]
