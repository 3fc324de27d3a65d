"""`extract` by SQL92, by what another store lacks, and by open transactions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from pyarrow.parquet import ParquetFile

from rmqtool.errors import UsageError, WriteFailed
from rmqtool.messages import tables
from rmqtool.messages.extract import Extracted, ExtractRun, sentences
from rmqtool.messages.options import ExtractOptions
from rmqtool.messages.sent import SENT
from rmqtool.messages.wanted import HOLDING
from rmqtool.tables import arrow
from tests import inflict
from tests.evidence import Evidence
from tests.plain_store import Record, records
from tests.store import faults
from tests.stores import fixture_directory, fixture_store

TRAFFIC = "rocketmq-5.3.3-traffic"
Lines = list[dict[str, Any]]


def extract(
    store: Path,
    name: str = "out.jsonl",
    **options: Any,  # noqa: ANN401 - as they are
) -> tuple[Extracted, Lines]:
    """Extract into a new file beside the store."""
    file = store.parent / name
    file.unlink(missing_ok=True)
    done = ExtractRun(ExtractOptions((str(store),), str(file), **options)).run()
    raw = file.read_bytes()
    return done, [json.loads(line) for line in raw.splitlines()] if name.endswith("jsonl") else []


def test_where(tmp_path: Path, evidence: Evidence) -> None:
    """Properties, tags and keys count, a comparison with nothing is no match, nor its opposite."""
    store = fixture_store(TRAFFIC, tmp_path)
    evidence.keep(store)
    _, every = extract(store)
    some = Counter(one["tags"] for one in every).most_common(2)
    tag = some[1][0]
    found = {
        text: {one["physical_offset"] for one in extract(store, where=text)[1]}
        for text in (
            f"TAGS = '{tag}'",
            f"TAGS <> '{tag}'",
            "decision is null",
            "UNIQ_KEY",
        )
    }
    # of a retried message only the copies have a level, and are written then
    _, delayed = extract(store, where="DELAY > 2")
    assert {"%RETRY%traffic-failing"} < {one["topic"] for one in delayed}
    expected = [
        {one["physical_offset"] for one in every if one["tags"] == tag},
        {one["physical_offset"] for one in every if one["tags"] not in {tag, None}},
        {one["physical_offset"] for one in every if "decision" not in one["properties"]},
        set(),
    ]
    assert expected == [*found.values()]
    assert all(expected[:3])
    assert len(expected[0]) + len(expected[1]) < len(every)


def test_where_in_batches(tmp_path: Path) -> None:
    """Each message of a batch record counts for itself."""
    store = fixture_store("rocketmq-5.3.3-batch-queue", tmp_path)
    _, every = extract(store)
    wanted = [one for one in every if one["keys"] and one["keys"][-1].endswith("1")]
    assert any(one["number"] is not None for one in wanted)
    assert wanted == extract(store, where="KEYS ENDSWITH '1'")[1]


def test_no_expression(tmp_path: Path) -> None:
    """What no broker takes is refused before anything is read."""
    store = fixture_store("rocketmq-5.3.3-lmq", tmp_path)
    with pytest.raises(UsageError, match="not a SQL92 expression that brokers understand"):
        extract(store, where="a ===")
    with pytest.raises(UsageError, match="cannot be combined with --dead-letters"):
        extract(store, undecided=True, dead_letters="g")
    with pytest.raises(UsageError, match="includes the messages"):
        extract(store, undecided=True, pending=True)


def test_undecided(tmp_path: Path) -> None:
    """The transactions whose producers never said how they ended; each group is named."""
    store = fixture_store(TRAFFIC, tmp_path)
    done, found = extract(store, undecided=True)
    sent = (fixture_directory(TRAFFIC) / "sent.jsonl").read_text(encoding="utf-8")
    halves = [half for half in map(json.loads, sent.splitlines()) if half["kind"] == "half"]
    open_ones = [half for half in halves if half["outcome"] == "undecided"]
    assert {half["unique_key"] for half in open_ones} == {half["unique_key"] for half in found}
    assert len(open_ones) == len(found) == done.messages
    assert {half["topic"] for half in open_ones} == {half["topic"] for half in found}
    (said,) = sentences(done, None)
    keys = {half["unique_key"] for half in open_ones}
    held = extract(store, held=True)[1]
    oldest = min(half["store_time"] for half in held if half["unique_key"] in keys)
    assert said == (
        f"producer group traffic-transactions: {len(found)} open transactions, the oldest of "
        f"{oldest}; its application knows: commit or roll back"
    )


@pytest.mark.parametrize(
    "name",
    ["rocketmq-5.3.3-traffic", "rocketmq-5.5.0-traffic"]
    + [f"rocketmq-{version}-timer" for version in ("5.3.3", "5.5.0", "5.5.1")],
)
def test_pending(name: str, tmp_path: Path) -> None:
    """What waits is written once, and it is what no topic of its own has yet."""
    store = fixture_store(name, tmp_path)
    _, found = extract(store, pending=True)
    waiting = Counter((one["topic"], one["unique_key"]) for one in found)
    assert waiting
    assert {1} == set(waiting.values())
    everything = records(store)
    delivered = {
        (record.topic, record.properties.get("UNIQ_KEY"))
        for record in everything
        if record.topic not in HOLDING
    }
    recalled = "".join(record.properties.get("TIMER_DEL_UNIQKEY", "") for record in everything)
    delayed = {
        (record.properties.get("REAL_TOPIC"), key)
        for record in everything
        if record.topic in {"SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"}
        and (key := record.properties.get("UNIQ_KEY"))
        and not record.properties.get("TIMER_DEL_UNIQKEY")
        and key not in recalled
    }
    decides = {(one["topic"], one["unique_key"]) for one in extract(store, undecided=True)[1]}
    again = {one for one in waiting if one[0].startswith("%RETRY%")}  # comes and waits repeatedly
    assert set(waiting) - again == ((delayed - delivered) | decides) - again


def test_undecided_beside_damage(tmp_path: Path) -> None:
    """Damage among half messages is no transaction: the sentences are about those that are open."""
    store = fixture_store(TRAFFIC, tmp_path)
    whole = extract(store, undecided=True)[1]
    inflict.flip_field("body", where=0.0, wanted=_is_half)(store)
    inflict.garbage(where=0.3)(store)
    done, found = extract(store, undecided=True)
    *damage, said = sentences(done, None)
    keys = {one["unique_key"] for one in whole}
    assert damage
    assert len(found) == len(done.undecided)
    assert {one["unique_key"] for one in found} <= keys
    assert said.startswith(f"producer group traffic-transactions: {len(found)} open transactions,")


def _is_half(record: Record) -> bool:
    return record.topic == "RMQ_SYS_TRANS_HALF_TOPIC"


@pytest.mark.parametrize("version", ["4.9.3", "5.3.3", "5.5.0"])
def test_dead_letters(version: str, tmp_path: Path) -> None:
    """A dead message tells which topic its producer sent it to, and its ID there."""
    name = f"rocketmq-{version}-redelivered"
    store = fixture_store(name, tmp_path)
    text = (fixture_directory(name) / "sent.jsonl").read_text(encoding="utf-8")
    sent = {one["unique_key"]: one for one in map(json.loads, text.splitlines())}
    _, dead = extract(store, dead_letters="again-failing")
    assert dead
    for one in dead:
        assert sent[one["unique_key"]]["topic"] == one["origin_topic"]
        assert one["reconsume_times"] > 0
    _, every = extract(store)
    places = {one["message_id"]: one["unique_key"] for one in every}
    assert all(places[one["origin_message_id"]] == one["unique_key"] for one in dead)
    retried = [one for one in every if one["topic"].startswith("%")]
    assert all(sent[one["unique_key"]]["topic"] == one["origin_topic"] for one in retried)
    assert retried == [one for one in every if one["origin_topic"] is not None]


def test_lost_in(tmp_path: Path, evidence: Evidence) -> None:
    """What a store without a segment and with a damaged body lacks; nothing the other way round."""
    store = fixture_store(TRAFFIC, tmp_path)
    (tmp_path / "other").mkdir()
    other = fixture_store(TRAFFIC, tmp_path / "other")
    inflict.remove_segment(1)(other)
    inflict.flip_field("body")(other)
    evidence.keep(store)
    evidence.keep(other)
    _, every = extract(store, held=True)
    left = {
        (record.topic, record.properties.get("UNIQ_KEY") or record.physical_offset)
        for record in records(other)
        if crc32(record.bytes_of("body")) & 0x7FFFFFFF == record.integer("body_crc")
    }
    expected = [
        record["physical_offset"]
        for record in every
        if (record["stored_topic"], record["unique_key"] or record["physical_offset"]) not in left
    ]
    _, lost = extract(store, held=True, lost_in=str(other))
    assert expected == [record["physical_offset"] for record in lost]
    assert 0 < len(lost) < len(every)
    assert 0 == extract(other, lost_in=str(store))[0].messages
    extract(other, "other.rmq", held=True)
    _, again = extract(store, held=True, lost_in=str(other.parent / "other.rmq"))
    assert [record["physical_offset"] for record in lost] == [
        record["physical_offset"] for record in again
    ]


@pytest.mark.parametrize("name", [TRAFFIC, "rocketmq-5.3.3-batch-queue"])
def test_parquet(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a Parquet file are the lines, whatever a row group holds; columns are chosen."""
    monkeypatch.setattr(tables, "GROUP_BYTES", 100_000)
    store = fixture_store(name, tmp_path)
    _, every = extract(store, held=True)
    done, _ = extract(store, "out.parquet", held=True)
    file = ParquetFile(tmp_path / "out.parquet")
    assert (tmp_path / "out.parquet").stat().st_size == done.bytes
    assert file.num_row_groups > 1
    found = file.read()
    assert SENT.arrow.names == found.schema.names
    rows = [row for batch in found.to_batches() for row in arrow.plain_rows(batch)]
    assert every == rows
    extract(store, "out.parquet", columns=("body", "topic"))
    assert ["body", "topic"] == ParquetFile(tmp_path / "out.parquet").schema_arrow.names


def test_parquet_on_a_full_disk_or_killed(tmp_path: Path, evidence: Evidence) -> None:
    """Whatever write fails or is the last one, the file is whole or is not there."""
    store = fixture_store("rocketmq-5.3.3-lmq", tmp_path)
    evidence.keep(store)
    output = tmp_path / "new" / "out.parquet"
    output.parent.mkdir()
    work = ExtractRun(ExtractOptions((str(store),), str(output), jobs=1))
    count = faults.operations(work.run)
    whole = output.read_bytes()
    output.unlink()
    for number in range(count):
        full = faults.Faults(number, faults.no_space, lasting=faults.PERSISTENT)
        with full.injected(), pytest.raises(WriteFailed, match="No space left"):
            work.run()
        assert not output.exists()
        assert faults.killed_at(number, work.run)
        assert not output.exists() or output.read_bytes() == whole
        output.unlink(missing_ok=True)
    work.run()
    assert ["out.parquet"] == [path.name for path in output.parent.iterdir()]
    assert whole == output.read_bytes()
