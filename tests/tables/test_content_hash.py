"""The hash of a log is that of its records, wherever they lie."""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path

import orjson
import pytest

from rmqtool.store.tree import open_store
from rmqtool.tables.content_hash import content_hash
from tests import inflict
from tests.cli.run import rmqtool
from tests.plain_store import Record, records
from tests.stores import fixture_store

CRC_ITEM = b"__CRC32#\x01"


def plain_hash(record: Record) -> int:
    """Hash one record, by an independent reader."""
    raw, places = record.raw, record.places()
    offset = places["physical_offset"][0]
    half = places["prepared_transaction_offset"][0]
    end = len(raw) - len(CRC_ITEM) - 11
    end = end if raw[end:].startswith(CRC_ITEM) else len(raw)
    text = raw[:offset] + raw[offset + 8 : half] + raw[half + 8 : end]
    return int.from_bytes(sha256(text).digest(), "big")


@pytest.mark.parametrize("name", ["4.9.3-traffic", "5.3.3-property-crc", "5.5.0-ipv6"])
def test_is_sum_of_records(name: str, tmp_path: Path) -> None:
    """The hash is the sum of those of its records, up to an offset, too."""
    store = fixture_store(f"rocketmq-{name}", tmp_path)
    every = records(store)
    found = content_hash(open_store(store), (None, None), jobs=2)
    assert (len(every), 0) == (found.records, found.gaps)
    assert sum(map(plain_hash, every)) % (1 << 256) == found.total
    some = every[3 : len(every) // 2]
    first, last = (record.integer("physical_offset") for record in (some[0], some[-1]))
    part = content_hash(open_store(store), (first, last + 1))
    assert (first, last + some[-1].size, len(some)) == (part.begin, part.end, part.records)
    assert sum(map(plain_hash, some)) % (1 << 256) == part.total


def test_does_not_depend_on_places(tmp_path: Path) -> None:
    """A log that was written anew with other files has the same hash; after a flip it has not."""
    store = fixture_store("rocketmq-4.9.3-traffic", tmp_path)
    new = tmp_path / "new"
    run = rmqtool("rebuild-log", store, "--output", new, "--segment-size", "300000", "--quiet")
    assert 0 == run.code, run.err
    rows = [orjson.loads(rmqtool("hash", path).out) for path in (store, new)]
    assert rows[0]["sha256_sum"] == rows[1]["sha256_sum"]
    assert rows[0]["begin"] != rows[1]["begin"]
    damaged = shutil.copytree(store, tmp_path / "damaged")
    inflict.flip_field("body")(damaged)
    done = rmqtool("hash", damaged)
    row = orjson.loads(done.out)
    assert (1, 1, rows[0]["records"] - 1) == (done.code, row["gaps"], row["records"])
    assert row["sha256_sum"] != rows[0]["sha256_sum"]
    assert 2 == rmqtool("hash", store / "config").code
