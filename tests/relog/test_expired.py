"""What a broker would delete as expired is left out, by the store time of each record."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from rmqtool.relog.chunk import Reason
from rmqtool.relog.options import Positions
from rmqtool.tables.selection import Selection
from tests.cli.run import rmqtool
from tests.plain_store import Record, records
from tests.relog.rebuilt import damages, rebuilt, unplaced
from tests.stores import broker_conf, fixture_store

TRAFFIC: Final = "rocketmq-5.3.3-traffic"
TOPIC: Final = "traffic-orders"
HOUR_MS: Final = 3_600_000


def stored(record: Record) -> int:
    """Give when a record was stored, ms."""
    return record.integer("store_timestamp")


@pytest.mark.parametrize("positions", Positions)
@pytest.mark.parametrize("hours", [None, 5, 0])
def test_drop_expired(positions: Positions, hours: int | None, tmp_path: Path) -> None:
    """A record goes at the millisecond at which its time is over; the next one stays."""
    store = fixture_store(TRAFFIC, tmp_path)
    old = records(store)
    until = stored(old[600])
    options: dict[str, Any] = {"positions": positions}
    if hours is not None:
        conf = tmp_path / "broker.conf"
        conf.write_text(f"{broker_conf(TRAFFIC).read_text()}\nfileReservedTime={hours}\n")
        options["broker_conf"] = str(conf)
    at = until + (72 if hours is None else hours) * HOUR_MS
    result, output = rebuilt(store, expired_at=at, **options)
    kept = [record for record in old if stored(record) > until]
    new = [record for record in records(output) if record.topic != "rmqtool"]
    assert len(old) == len(new) + result.left_out[Reason.EXPIRED] + result.left_out[Reason.DONE]
    assert 600 < result.left_out[Reason.EXPIRED] < len(old)
    assert {*map(unplaced, new)} <= {*map(unplaced, kept)}
    assert not result.is_damaged
    assert [] == damages(output)
    if positions is Positions.KEEP:
        assert [record.raw for record in kept] == [record.raw for record in new]
        assert new[0].physical_offset // 131072 * 131072 == result.log.start
    again, _ = rebuilt(output, "again", positions=positions, expired_at=at)
    bridges = result.log.bridges  # written before, they are records
    assert (0, result.messages + bridges) == (again.left_out[Reason.EXPIRED], again.messages)


def test_with_filters(tmp_path: Path) -> None:
    """A record that was not asked for is not counted as expired; a damaged one is damage."""
    store = fixture_store(TRAFFIC, tmp_path)
    old = records(store)
    until = stored(old[600])
    own = [record for record in old if record.topic == TOPIC]
    harmed = next(record for record in own if len(record.bytes_of("body")) > 0)
    raw = bytearray(harmed.path.read_bytes())
    raw[harmed.position + harmed.places()["body"][0]] ^= 1
    harmed.path.write_bytes(raw)
    result, output = rebuilt(
        store, expired_at=until + 72 * HOUR_MS, selection=Selection(topics=(TOPIC,))
    )
    expired = [record for record in own if stored(record) <= until and record != harmed]
    assert len(old) - len(own) == result.left_out[Reason.FILTERED]
    assert len(expired) == result.left_out[Reason.EXPIRED]
    assert (1, True) == (result.left_out[Reason.DAMAGED], result.is_damaged)
    assert [unplaced(record) for record in own if stored(record) > until] == [
        *map(unplaced, records(output))
    ]


def test_bridges(tmp_path: Path) -> None:
    """A bridge goes with what lay around it, and is not counted as a record."""
    store = fixture_store(TRAFFIC, tmp_path)
    until = stored(records(store)[600])
    _, kept = rebuilt(store, "kept", positions=Positions.KEEP, selection=Selection(topics=(TOPIC,)))
    own = [record for record in records(kept) if record.topic == TOPIC]
    result, output = rebuilt(kept, positions=Positions.KEEP, expired_at=until + 72 * HOUR_MS)
    assert sum(stored(record) <= until for record in own) == result.left_out[Reason.EXPIRED]
    rest = [record.raw for record in own if stored(record) > until]
    assert rest == [record.raw for record in records(output) if record.topic == TOPIC]


def test_all_expired(tmp_path: Path) -> None:
    """Where nothing is left, nothing is written, and it is said why."""
    store = fixture_store(TRAFFIC, tmp_path)
    count = len(records(store))
    said = f"left out: {count:,} records that a broker would delete: stored 0 hours ago or before"
    for hours, code in ((0, 1), (500_000, 0)):
        conf, output = tmp_path / "broker.conf", tmp_path / f"after-{hours}"
        conf.write_text(f"{broker_conf(TRAFFIC).read_text()}\nfileReservedTime={hours}\n")
        done = rmqtool(
            *("rebuild-log", str(store), "--output", str(output), "--drop-expired"),
            *("--broker-conf", str(conf)),
        )
        assert code == done.code, done.err
        assert (code == 0) == output.exists()
        assert (code == 1) == (said in done.err)
