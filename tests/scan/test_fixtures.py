"""Real brokers' segments: each record as `formats` reads it, every checksum right, no damage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.formats.message import decode
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent, ScanOptions
from rmqtool.scan.message import scan
from rmqtool.store.tree import open_store
from tests.scan.segments import whole
from tests.scan.test_walk import FIELDS
from tests.stores import broker_conf, fixture_names, fixture_store

if TYPE_CHECKING:
    from pathlib import Path

SCENARIOS = ("traffic", "ipv6", "property-crc", "dledger", "crash")
NAMES = [name for scenario in SCENARIOS for name in fixture_names(scenario=scenario)]


@pytest.mark.parametrize("name", NAMES)
def test_records(name: str, tmp_path: Path) -> None:
    """The kernels read of each record what the declarations read of it."""
    store = open_store(fixture_store(name, tmp_path), broker_conf(name))
    options = ScanOptions(property_crc=True, well_formed=True, window_bytes=20_000)
    records = 0
    for segment in store.commitlog:
        for batch in scan(whole(segment), options):
            assert batch.kind is not Extent.GAP
            assert batch.code is None
            for column in batch.columns.T.tolist():
                start = column[row.RECORD_START]
                message = decode(batch.text(start, column[row.SIZE]))
                assert [getattr(message, field) for field in FIELDS] == [
                    column[place] for place in FIELDS.values()
                ]
                assert message.body_crc == column[row.BODY_CRC_FOUND]
                assert message.physical_offset == column[row.PHYSICAL_OFFSET]
                assert message.topic_bytes == batch.topics[column[row.TOPIC_NUMBER]]
                if "property-crc" in name:
                    assert column[row.PROPERTY_CRC] == column[row.PROPERTY_CRC_FOUND]
                records += 1
    assert records > 0
