"""The table of messages says what the formats say, of every record, and accounts for every byte."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path
from typing import Any

import pytest

from rmqtool.clock import Clock
from rmqtool.formats import message
from rmqtool.formats.compression import decompress
from rmqtool.rows import JsonLines, rows_of
from rmqtool.store.segment import SegmentPart
from rmqtool.store.tree import open_store
from rmqtool.tables import messages
from rmqtool.tables.bodies import BodyMode, BodyOptions
from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump
from rmqtool.tables.messages import MessageOptions, MessagesOf
from rmqtool.tables.record_columns import SCHEMA
from rmqtool.tables.record_tables import MESSAGES
from rmqtool.tables.selection import Selection
from rmqtool.times import iso_time
from tests.store.built_store import build_store
from tests.tables.dumped import rows, without_nulls


def expected(row: dict[str, Any], store: Path) -> dict[str, Any]:
    """Say what a row must be, by reading its record with construct only."""
    with (store / row["segment"]).open("rb") as file:
        file.seek(row["position"])
        found = message.decode(file.read(row["size"]))
    start = int(Path(row["segment"]).name)
    body = decompress(found.body, found.sys_flag).body or b""
    wanted = {
        "physical_offset": start + row["position"],
        "size": found.total_size,
        "segment": row["segment"],
        "position": row["position"],
        "version": found.version,
        "topic": found.topic,
        "queue_id": found.queue_id,
        "queue_offset": found.queue_offset,
        "flag": found.flag,
        "sys_flag": found.sys_flag,
        "transaction": found.transaction,
        "compression": found.compression,
        "born_time": iso_time(found.born_timestamp),
        "born_host": found.born_host,
        "store_time": iso_time(found.store_timestamp),
        "store_host": found.store_host,
        "reconsume_times": found.reconsume_times,
        "prepared_transaction_offset": found.prepared_transaction_offset,
        "body_crc": found.body_crc,
        "body_size": len(found.body),
        "tags": found.tags,
        "keys": list(found.keys),
        "unique_key": found.unique_key,
        "message_id": found.message_id,
        "properties": found.properties,
        "body_b64": base64.b64encode(body).decode(),
    }
    return {name: value for name, value in wanted.items() if value is not None}


def test_records(store: Path) -> None:
    """Every field of every record of every fixture."""
    found = rows(store, body=BodyOptions(BodyMode.BASE64))
    assert found
    for row in found:
        row.pop("properties_b64", None)
        assert expected(row, store) == row


def test_every_byte(store: Path) -> None:
    """Records, fillers, gaps and unused tails tile each segment; a DLedger header is a record's."""
    header = 48 if open_store(store).is_dledger else 0
    ends: dict[str, int] = {}
    for row in rows(store, fillers=True):
        position = row["position"] - (0 if "extent" in row else header)
        assert ends.get(row["segment"], 0) == position
        ends[row["segment"]] = row["position"] + row["size"]
    assert ends == {segment.path: segment.size for segment in open_store(store).commitlog}


def test_json_is_the_same(store: Path) -> None:
    """What workers write as JSON is what the plain rows say."""
    options = DumpOptions((str(store),), as_json=True, body=BodyOptions(BodyMode.TEXT))
    (given,) = dump(options, DumpOutcome())
    lines = list(given)
    assert all(isinstance(chunk, JsonLines) for chunk in lines)
    found = [row for chunk in lines for row in rows_of(chunk)]
    assert rows(store, body=BodyOptions(BodyMode.TEXT)) == [without_nulls(row) for row in found]


SIZES = [1000, 3333, 70_000]


def test_parts_join(store: Path, monkeypatch: pytest.MonkeyPatch, *, is_whole: bool) -> None:
    """However a log is cut into parts, the rows are the same; in a sample one size, or none."""
    if sum(segment.size for segment in open_store(store).commitlog) > 8 << 20:
        return  # too long to be cut so small
    turn = zlib.crc32(store.parent.name.encode())
    if not is_whole and turn // len(SIZES) % 2:
        return
    whole = rows(store, fillers=True)
    for size in SIZES if is_whole else [SIZES[turn % len(SIZES)]]:
        monkeypatch.setattr(messages, "PART_BYTES", size)
        assert whole == rows(store, fillers=True)
        assert whole[-7:] == rows(store, fillers=True, tail=7)
        assert whole[:7] == rows(store, fillers=True, limit=7)


def selections(found: list[dict[str, Any]]) -> dict[str, tuple[Selection, Any]]:
    """Give filters with what they must mean, made from a row in the middle."""
    one = found[len(found) // 2]
    keyed = next((row for row in found if row["keys"]), one)
    tagged = next((row for row in found if "tags" in row), one)
    name, value = next(iter(one["properties"].items()), ("none", "x"))
    offset, queue_offset = one["physical_offset"], one["queue_offset"]
    times = sorted(row["store_time"] for row in found)
    low, high = times[len(times) // 3], times[2 * len(times) // 3]
    key = keyed["keys"][-1] if keyed["keys"] else "x"
    return {
        "topic": (Selection(topics=(one["topic"],)), lambda r: r["topic"] == one["topic"]),
        "queue": (Selection(queue_id=one["queue_id"]), lambda r: r["queue_id"] == one["queue_id"]),
        "tag": (
            Selection(tag=tagged.get("tags", "x")),
            lambda r: r.get("tags") == tagged.get("tags", "x"),
        ),
        "key": (Selection(key=key), lambda r: key in r["keys"] or r.get("unique_key") == key),
        "unique_key": (
            Selection(key=one.get("unique_key", "x")),
            lambda r: one.get("unique_key", "x") in (r.get("unique_key"), *r["keys"]),
        ),
        "property": (
            Selection(properties=((name, value),)),
            lambda r: r["properties"].get(name) == value,
        ),
        "time": (
            Selection(store_time=(Clock().ms("", low), Clock().ms("", high))),
            lambda r: low <= r["store_time"] < high,
        ),
        "offsets": (
            Selection(offsets=(offset, offset + 2000)),
            lambda r: offset <= r["physical_offset"] < offset + 2000,
        ),
        "queue_offsets": (
            Selection(queue_offsets=(queue_offset, queue_offset + 2)),
            lambda r: queue_offset <= r["queue_offset"] < queue_offset + 2,
        ),
        "nothing": (Selection(topics=("no-such-topic",)), lambda _: False),
    }


@pytest.mark.parametrize(
    "name", ["topic", "queue", "tag", "key", "unique_key", "property", "time", "offsets",
             "queue_offsets", "nothing"]
)  # fmt: skip
def test_selection(store: Path, name: str) -> None:
    """A filter gives exactly the rows that it is about."""
    found = rows(store)
    selection, wanted = selections(found)[name]
    assert [row for row in found if wanted(row)] == rows(store, selection=selection)


def test_properties_as_columns(store: Path) -> None:
    """A column that is a property has its value, and none where the record has none."""
    columns = {
        column.name: column.source.of_property
        for column in MESSAGES.columns
        if column.source is not None and column.source.of_property
    }
    assert {"tags", "unique_key"} <= columns.keys()
    for row in rows(store):
        if "extent" not in row:
            stored = row["properties"]
            assert {name: row.get(name) for name in columns} == {
                name: stored.get(of) for name, of in columns.items()
            }


def test_schema() -> None:
    """The promised columns are those of the Arrow batches, in the same order."""
    assert list(MESSAGES.names) == SCHEMA.names


def test_unreadable_part_of_a_log(tmp_path: Path) -> None:
    """A segment that vanishes while it is read is one row, and the rest is there."""
    build_store(tmp_path, 40)
    first, *_ = open_store(tmp_path).commitlog
    (tmp_path / first.path).unlink()
    result = MessagesOf(MessageOptions())(SegmentPart(first, 0, first.size))
    assert result.unread is not None
    assert (None, first.size, ()) == (result.first, result.end, result.chunks)


def test_offsets_inside_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for offsets inside of a gap is shown the gap, wherever it begins."""
    built = build_store(tmp_path, 40)
    first, *_ = open_store(tmp_path).commitlog
    path = tmp_path / first.path
    raw = bytearray(path.read_bytes())
    begin, end = built.offsets[2], built.offsets[9]
    raw[begin:end] = b"\x55" * (end - begin)
    path.write_bytes(raw)
    monkeypatch.setattr(messages, "PART_BYTES", 300)
    wanted = Selection(offsets=(end - 10, end + 1))
    found = rows(tmp_path, selection=wanted)
    assert [(begin, end - begin, "gap"), (end, built.sizes[9], None)] == [
        (row["physical_offset"], row["size"], row.get("extent")) for row in found
    ]


def test_unused_dledger_directory(tmp_path: Path) -> None:
    """Beside a DLedger directory without a file, records of the plain log are read as such."""
    build_store(tmp_path, 4)
    expected_rows = rows(tmp_path)
    (tmp_path / "dledger-n0/data").mkdir(parents=True)
    assert expected_rows == rows(tmp_path)
    assert 4 == sum("extent" not in row for row in expected_rows)


def test_missing_segment(tmp_path: Path) -> None:
    """Where a segment is missing, one row says from where to where, whichever offsets are asked."""
    build_store(tmp_path, 200)
    segment, gone, after, *_ = open_store(tmp_path).commitlog
    (tmp_path / gone.path).unlink()
    hole = (gone.start, gone.size, "gap", "FS-GAP")
    for offsets in (
        (None, None),
        (gone.start + 5, gone.start + 6),
        (segment.end - 1, after.start + 1),
    ):
        found = rows(tmp_path, selection=Selection(offsets=offsets))
        assert [hole] == [
            (row["physical_offset"], row["size"], row["extent"], row["code"])
            for row in found
            if "code" in row
        ]
        places = [row["physical_offset"] for row in found]
        assert sorted(places) == places
    outside = rows(tmp_path, selection=Selection(offsets=(after.start, None)))
    assert outside
    assert not any("code" in row for row in outside)
