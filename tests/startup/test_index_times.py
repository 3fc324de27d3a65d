"""Times of index entries, of files that real message stores made."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from rmqtool.times import iso_time
from tests import plain_store
from tests.startup import harm
from tests.startup.small_store import SETTINGS
from tests.startup.variants import ABORT, REBUILD
from tests.tables.dumped import rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.startup.oracle import Oracle

pytestmark = pytest.mark.broker


def test_first_entries(oracle: Oracle, small_stores: dict[str, Path], tmp_path: Path) -> None:
    """An entry has the second of its record, and so has the first one of a file.

    A store counts the time difference of that one from the end of the file before.
    """
    root = tmp_path / "store"
    shutil.copytree(small_stores["clean"], root)
    for step in (harm.spread(5000), *REBUILD, ABORT):
        step(root)
    oracle.observe(root, SETTINGS, {})
    times = {
        record.physical_offset: iso_time(record.integer("store_timestamp"))
        for record in plain_store.records(root)
    }
    entries = rows(root, "index")
    assert any(row["number"] == 1 and row["time_difference"] for row in entries)
    assert [times[row["physical_offset"]] for row in entries] == [
        row["store_time"] for row in entries
    ]
