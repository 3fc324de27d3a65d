"""Records whose end is lost have a code: no checksum covers their properties."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from tests import plain_store
from tests.inflict import write_at
from tests.stores import fixture_store
from tests.tables.dumped import rows

SECTOR = 512
TRAFFIC = "rocketmq-5.3.3-traffic"
PROPERTIES = 40  # bytes of them that are lost
FOREIGN = b"".join(sha256(bytes([number])).digest() for number in range(SECTOR // 32))


def torn(store: Path, number: int, filling: bytes) -> int:
    """Write over the end of a record and the beginning of the next one; give the record's place."""
    record, other = plain_store.records(store)[number : number + 2]
    assert record.path == other.path
    write_at(record.path, other.position - PROPERTIES, filling)
    return int(record.path.name) + record.position


@pytest.mark.parametrize("filling", [bytes(SECTOR), FOREIGN], ids=["zeros", "foreign"])
@pytest.mark.parametrize("number", [40, 400, 1000])
def test_torn(tmp_path: Path, number: int, filling: bytes) -> None:
    """A record before a gap that took its end has a code, as the gap has; its neighbours have none.

    Zeros do it, and bytes of another file.
    """
    store = fixture_store(TRAFFIC, tmp_path)
    sound = [row["physical_offset"] for row in rows(store) if not row.get("code")]
    place = torn(store, number, filling)
    found = {row["physical_offset"]: row.get("code") for row in rows(store)}
    gap = min(offset for offset, code in found.items() if code and offset > place)
    assert found[place] == found[gap] is not None
    assert {place, gap} == {offset for offset, code in found.items() if code}
    assert set(found) <= {*sound, gap}


def test_end_of_log(tmp_path: Path) -> None:
    """A last record that ends in zeros is torn; one with odd properties is a client's own."""
    store = fixture_store(TRAFFIC, tmp_path)
    last = plain_store.records(store)[-1]
    write_at(last.path, last.position + last.size - 3, b"\xff\xfe\x02")
    assert [] == [row for row in rows(store) if row.get("code")]
    write_at(last.path, last.position + last.size - 3, bytes(3))
    (row,) = (row for row in rows(store) if row.get("code"))
    assert ("CL-TAIL", int(last.path.name) + last.position) == (row["code"], row["physical_offset"])
