"""The walk over records: it agrees with the formats, tiles whatever it is given, and goes on."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats.message import BLANK, BLANK_MAGIC_CODE, Message, decode, encode
from rmqtool.scan import columns as row
from rmqtool.scan import kernels_walk
from rmqtool.scan import message as scanner
from rmqtool.scan.batch import Extent, ScanOptions
from rmqtool.scan.join import run_joined
from rmqtool.scan.message import scan
from rmqtool.store.segment import SegmentPart
from tests.formats.strategies import messages
from tests.scan.segments import (
    MESSAGE,
    SMALL,
    dledger_bytes,
    extents,
    placed,
    segment_bytes,
    whole,
    written,
)

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Buffer

SIZE = 6000
START = 3 * SIZE
FIELDS = {
    "total_size": row.SIZE,
    "magic_code": row.MAGIC_CODE,
    "body_crc": row.BODY_CRC,
    "queue_id": row.QUEUE_ID,
    "flag": row.FLAG,
    "queue_offset": row.QUEUE_OFFSET,
    "physical_offset": row.PHYSICAL_OFFSET_FIELD,
    "sys_flag": row.SYS_FLAG,
    "born_timestamp": row.BORN_TIMESTAMP,
    "store_timestamp": row.STORE_TIMESTAMP,
    "reconsume_times": row.RECONSUME_TIMES,
    "prepared_transaction_offset": row.PREPARED_TRANSACTION_OFFSET,
    "body_length": row.BODY_LENGTH,
    "topic_length": row.TOPIC_LENGTH,
    "properties_length": row.PROPERTIES_LENGTH,
}
FLIPS = st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(1, 255)), max_size=8)


def varied(count: int) -> list[Message]:
    """Give messages of different lengths and kinds of hosts."""
    return [
        MESSAGE._replace(
            queue_offset=number,
            body=bytes([number]) * (number * 37 % 300),
            born_address=bytes(16 if number % 3 == 0 else 4),
            store_address=bytes(16 if number % 4 == 0 else 4),
        )
        for number in range(count)
    ]


@given(drawn=st.lists(messages(), min_size=1, max_size=12), options=st.sampled_from([None, SMALL]))
def test_agrees_with_formats(
    drawn: list[Message], options: ScanOptions | None, tmp_path: Path
) -> None:
    """Record by record, the kernel reads what the declaration in `formats` reads."""
    raw = segment_bytes(drawn, start=START, blank=False)
    found = []
    for batch in scan(whole(written(tmp_path, raw, START)), options):
        assert Extent.RECORD == batch.kind
        for number in range(batch.count):
            column = batch.columns[:, number].tolist()
            assert START + column[row.POSITION] == column[row.PHYSICAL_OFFSET]
            message = decode(raw[column[row.POSITION] :])
            assert [getattr(message, name) for name in FIELDS] == [
                column[place] for place in FIELDS.values()
            ]
            texts = [
                batch.text(column[start], column[length])
                for start, length in (
                    (row.RECORD_START, row.SIZE),
                    (row.BODY_START, row.BODY_LENGTH),
                    (row.TOPIC_START, row.TOPIC_LENGTH),
                    (row.PROPERTIES_START, row.PROPERTIES_LENGTH),
                )
            ]
            assert texts == [
                encode(message), message.body, message.topic_bytes, message.properties_bytes
            ]  # fmt: skip
            assert message.body_crc == column[row.BODY_CRC_FOUND]
            assert message.topic_bytes == batch.topics[column[row.TOPIC_NUMBER]]
            found.append(message)
    assert placed(drawn, START) == found


def test_reasons_differ() -> None:
    """Each reason why a walk stops is a number of its own."""
    walk = kernels_walk
    reasons = [walk.FULL, walk.SHORT, walk.LIMIT, walk.BLANK_AHEAD, walk.SOUND, *walk.DAMAGED]
    assert len(set(reasons)) == len(reasons) == 10


@given(flips=FLIPS, blank=st.booleans())
def test_extents_tile(flips: list[tuple[int, int]], blank: bool, tmp_path: Path) -> None:
    """Whatever the damage, extents tile the segment: no hole, no overlap, and the walk ends."""
    raw = bytearray(segment_bytes(varied(20), start=START, size=SIZE, blank=blank))
    for position, mask in flips:
        raw[position] ^= mask  # never `=`, which may change nothing
    segment = written(tmp_path, bytes(raw), START)
    found = extents(whole(segment), SMALL)
    assert all(length > 0 for _, _, length, _ in found)
    ends = list(accumulate(length for _, _, length, _ in found))
    assert [0, *ends[:-1]] == [position for _, position, _, _ in found]
    assert SIZE == ends[-1]
    assert extents(whole(segment)) == found  # neither window nor batch decides


@given(
    flips=FLIPS,
    cuts=st.lists(st.integers(1, SIZE - 1), min_size=1, max_size=4, unique=True),
    is_dledger=st.booleans(),
)
def test_parts_are_the_whole(
    flips: list[tuple[int, int]], cuts: list[int], is_dledger: bool, tmp_path: Path
) -> None:
    """Wherever a segment is cut, its parts joined give what one scan gives."""
    make = dledger_bytes if is_dledger else segment_bytes
    raw = bytearray(make(varied(15), start=START, size=SIZE))
    for position, mask in flips:
        raw[position] ^= mask
    segment = written(tmp_path, bytes(raw), START, is_dledger=is_dledger)
    edges = [0, *sorted(cuts), SIZE]
    parts = [SegmentPart(segment, *edge) for edge in pairwise(edges)]

    class Found:
        """The extents of a part."""

        def __init__(self, part: SegmentPart, start: int | None) -> None:
            self.rows = extents(part, SMALL, start=start)
            self.first = self.rows[0][1] if self.rows else None
            self.end = self.rows[-1][1] + self.rows[-1][2] if self.rows else part.end

    def work(part: SegmentPart, *, start: int | None = None) -> Found:
        return Found(part, start)

    joined = [row for _, found in run_joined(work, parts, jobs=1) for row in found.rows]
    assert extents(whole(segment), SMALL) == joined


@given(garbage=st.binary(max_size=200), count=st.integers(0, 5))
def test_garbage_changes_nothing_before_it(garbage: bytes, count: int, tmp_path: Path) -> None:
    """Bytes behind complete records do not change them."""
    raw = segment_bytes(varied(count), blank=False)
    before = extents(whole(written(tmp_path, raw))) if raw else []
    after = extents(whole(written(tmp_path, raw + garbage, SIZE * 9)))
    assert before == after[: len(before)]


def sizes(messages: list[Message]) -> list[int]:
    """Give where each message begins, and where the last one ends."""
    return [0, *accumulate(message.size for message in placed(messages))]


@pytest.mark.parametrize(
    ("position", "mask", "code"),
    [
        (4, 0x01, "CL-MAGIC"),
        (7, 0x80, "CL-MAGIC"),
        (0, 0x40, "CL-SIZE"),
        (3, 0x01, "CL-SIZE"),
        (87, 0x01, "CL-SIZE"),
        (88 + 37, 0x80, "CL-TOPIC"),
        (88 + 37, 0x01, "CL-SIZE"),
        (88 + 37 + 1 + 9, 0x10, "CL-SIZE"),
    ],
    ids=["magic", "magic-low", "size-huge", "size", "body-length", "topic-sign", "topic", "props"],
)
def test_gap_is_one_record(position: int, mask: int, code: str, tmp_path: Path) -> None:
    """One bad field that the walk depends on costs one record, and says which kind it is of."""
    drawn = [MESSAGE._replace(body=bytes(37)), *[MESSAGE._replace(body=bytes(37))] * 2]
    starts = sizes(drawn)
    raw = bytearray(segment_bytes(drawn, size=SIZE))
    raw[starts[1] + position] ^= mask
    assert [
        ("record", 0, starts[1], ""),
        ("gap", starts[1], starts[2] - starts[1], code),
        ("record", starts[2], starts[3] - starts[2], ""),
        ("filler", starts[3], SIZE - starts[3], ""),
    ] == extents(whole(written(tmp_path, bytes(raw))), SMALL)


def test_copies_in_bodies_mislead_nobody(tmp_path: Path) -> None:
    """A body that holds a copy of a segment, behind a damaged magic: the gap is the record."""
    copy = segment_bytes(varied(3), start=77, blank=False)
    drawn = [MESSAGE, MESSAGE._replace(body=copy), MESSAGE]
    starts = sizes(drawn)
    raw = bytearray(segment_bytes(drawn, size=SIZE))
    raw[starts[1] + 4] ^= 1
    assert ("gap", starts[1], starts[2] - starts[1], "CL-MAGIC") == extents(
        whole(written(tmp_path, bytes(raw)))
    )[1]


def test_true_copy_in_a_body(tmp_path: Path) -> None:
    """A body with a record that lies where it says misleads neither a scan nor parts of one."""
    trap = encode(placed([MESSAGE], sizes([MESSAGE])[1] + 88)[0])
    drawn = [MESSAGE, MESSAGE._replace(body=trap), MESSAGE]
    starts = sizes(drawn)
    segment = written(tmp_path, segment_bytes(drawn, size=SIZE))
    inside = SegmentPart(segment, starts[1] + 20, SIZE)
    assert starts[1] + 88 == extents(inside)[0][1]  # alone, it takes the bait
    assert starts[2] == extents(inside, start=starts[2])[0][1]


@pytest.mark.parametrize(
    ("position", "mask"),
    [(4, 0x01), (3, 0x01), (2, 0x01), (-35, 0x01), (-24, 0x40)],
    ids=["magic", "size", "size-high", "topic-length", "properties-length"],
)
def test_body_of_a_damaged_record(position: int, mask: int, tmp_path: Path) -> None:
    """A body that its checksum proves holds no record, whatever is wrong around it."""
    trap = encode(placed([MESSAGE], sizes([MESSAGE])[1] + 88)[0])
    drawn = [MESSAGE, MESSAGE._replace(body=trap), MESSAGE]
    starts = sizes(drawn)
    raw = bytearray(segment_bytes(drawn, size=SIZE))
    raw[(starts[1] if position >= 0 else starts[2]) + position] ^= mask
    found = extents(whole(written(tmp_path, bytes(raw))))
    assert starts[2] == found[2][1]
    assert ("gap", starts[1], starts[2] - starts[1]) == found[1][:3]


def test_size_that_ends_at_a_later_record(tmp_path: Path) -> None:
    """A wrong size is not believed, though a record begins where it ends."""
    drawn = [MESSAGE._replace(body=bytes([number]) * 40) for number in range(12)]
    starts = sizes(drawn)
    for later in range(3, 12):
        raw = bytearray(segment_bytes(drawn, size=SIZE))
        raw[starts[1] : starts[1] + 4] = (starts[later] - starts[1]).to_bytes(4, "big")
        found = extents(whole(written(tmp_path, bytes(raw))))
        assert ("gap", starts[1], starts[2] - starts[1], "CL-SIZE") == found[1]
        assert starts[2:12] == [start for kind, start, *_ in found[2:] if kind == "record"]


class Counting:
    """A file that counts the bytes that are read."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.size, self.bytes_read = raw, len(raw), 0

    def read_into(self, buffer: Buffer, position: int) -> int:
        """Copy bytes, and count them."""
        view = memoryview(buffer).cast("B")
        part = self.raw[position : position + len(view)]
        view[: len(part)] = part
        self.bytes_read += len(part)
        return len(part)

    def next_data(self, position: int) -> int:
        """Give the position back: there are no holes."""
        return position


def test_bodies_that_are_not_theirs(tmp_path: Path) -> None:
    """Headers that state bodies up to the end of the file, before records: work stays linear."""
    costs = []
    for count in (200, 400, 800):
        pair = segment_bytes([MESSAGE._replace(body=bytes(100)), MESSAGE], blank=False)
        raw = bytearray()
        for number in range(count):
            start = number * len(pair)
            raw += segment_bytes(
                [MESSAGE._replace(body=bytes(100)), MESSAGE], start=start, blank=False
            )
            left = count * len(pair) - start - kernels_walk.BODY
            raw[start + kernels_walk.BODY_LENGTH : start + kernels_walk.BODY] = left.to_bytes(4)
        file = Counting(bytes(raw))
        part = whole(written(tmp_path, bytes(raw)))
        search = scanner.SegmentScanner(file, part, ScanOptions(window_bytes=1 << 16))
        assert count == sum(batch.count for batch in search.batches(0))
        costs.append(file.bytes_read / len(raw))
    assert max(costs) < 1.5 * min(costs)


@pytest.mark.parametrize("blank", [True, False])
def test_tail(blank: bool, tmp_path: Path) -> None:
    """Zeros behind the last record are unused, a blank fills its file."""
    raw = segment_bytes([MESSAGE], size=SIZE, blank=blank)
    end = sizes([MESSAGE])[1]
    kind = "filler" if blank else "unused"
    found = extents(whole(written(tmp_path, raw)))
    assert [("record", 0, end, ""), (kind, end, SIZE - end, "")] == found


def test_half_written_tail(tmp_path: Path) -> None:
    """A record that was not written to its end is a gap, the zeros behind it are unused."""
    end = sizes([MESSAGE])[1]
    raw = segment_bytes([MESSAGE, MESSAGE], blank=False)[: end + 100].ljust(SIZE, b"\0")
    used = len(raw.rstrip(b"\0"))
    assert [
        ("record", 0, end, ""),
        ("gap", end, used - end, "CL-TAIL"),
        ("unused", used, SIZE - used, ""),
    ] == extents(whole(written(tmp_path, raw)), SMALL)


@pytest.mark.parametrize("left", [1, 7, 8, 50, 100])
def test_cut_file(left: int, tmp_path: Path) -> None:
    """A file that ends inside a record ends in a gap."""
    end = sizes([MESSAGE])[1]
    raw = segment_bytes([MESSAGE, MESSAGE._replace(flag=-1)], blank=False)[: end + left]
    found = extents(whole(written(tmp_path, raw)))
    assert ("record", 0, end, "") == found[0]
    assert {"CL-TAIL", ""} >= {code for *_, code in found}
    assert end + left == found[-1][1] + found[-1][2]


def test_lost_page(tmp_path: Path) -> None:
    """A run of zeros between records is a gap, not the end."""
    drawn = [MESSAGE._replace(body=bytes([7]) * 100)] * 12
    starts = sizes(drawn)
    raw = bytearray(segment_bytes(drawn, size=SIZE))
    raw[starts[2] : starts[5] + 10] = bytes(starts[5] + 10 - starts[2])
    found = extents(whole(written(tmp_path, bytes(raw))), SMALL)
    assert ("gap", starts[2], starts[6] - starts[2], "CL-MAGIC") == found[2]
    assert ("record", starts[6], starts[7] - starts[6], "") == found[3]


@pytest.mark.parametrize(("change", "follows"), [(-8, False), (8, False), (-8, True)])
def test_blank_with_a_wrong_length(change: int, follows: bool, tmp_path: Path) -> None:
    """A blank whose length is not what is left still fills the file, unless records follow."""
    end = sizes([MESSAGE])[1]
    raw = bytearray(segment_bytes([MESSAGE], size=SIZE))
    raw[end : end + 8] = BLANK.build(
        {"total_size": SIZE - end + change, "magic_code": BLANK_MAGIC_CODE}
    )
    expected = [("filler", end, SIZE - end, "CL-BLANKLEN")]
    if follows:
        at = end + 500
        raw[at : at + end] = encode(placed([MESSAGE], at)[0])
        expected = [
            ("filler", end, 500, "CL-CHAIN"),
            ("record", at, end, ""),
            ("unused", at + end, SIZE - at - end, ""),
        ]
    assert expected == extents(whole(written(tmp_path, bytes(raw))), SMALL)[1:]


@pytest.mark.parametrize("is_dledger", [False, True])
@pytest.mark.parametrize("largest", [1 << 24, 1 << 12])
def test_record_longer_than_the_window(
    largest: int, is_dledger: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long record is read like any other; of a very long one only the body is not kept."""
    monkeypatch.setattr(scanner, "LARGEST_WINDOW", largest)
    drawn = [MESSAGE, MESSAGE._replace(body=bytes(range(256)) * 100), MESSAGE]
    make = dledger_bytes if is_dledger else segment_bytes
    segment = written(tmp_path, make(drawn, start=START, size=40_000), START, is_dledger=is_dledger)
    rows = []
    for batch in scan(whole(segment), SMALL):
        rows += batch.columns.T.tolist()
        if batch.count and batch.columns[row.SIZE, 0] > 10_000:
            body = drawn[1].body if largest > 40_000 else b""
            start = int(batch.columns[row.BODY_START, 0])
            assert body == (batch.text(start, len(drawn[1].body)) if start >= 0 else b"")
    expected = placed(drawn, START, 48 if is_dledger else 0)
    for message, column in zip(expected, rows, strict=True):
        for name, place in FIELDS.items():
            assert getattr(message, name) == column[place], name
        assert message.body_crc == column[row.BODY_CRC_FOUND]
        assert 1 == column[row.TOPIC_LENGTH] - 8
        assert message.physical_offset == column[row.PHYSICAL_OFFSET]


def test_long_lie(tmp_path: Path) -> None:
    """A size that leads to the end of a long file, but is none, costs one record."""
    drawn = [MESSAGE._replace(body=bytes(200))] * 200
    starts = sizes(drawn)
    raw = bytearray(segment_bytes(drawn, size=starts[-1] + 100))
    raw[starts[3] : starts[3] + 4] = (40_000).to_bytes(4, "big")
    found = extents(whole(written(tmp_path, bytes(raw))), SMALL)
    assert ("gap", starts[3], starts[4] - starts[3], "CL-SIZE") == found[3]


@pytest.mark.parametrize("field", [0, 4, 24, 44])
def test_dledger_entry(field: int, tmp_path: Path) -> None:
    """An entry header that does not fit its record is a gap; the record behind it is read."""
    raw = bytearray(dledger_bytes(varied(6), start=START, size=SIZE))
    sound = extents(whole(written(tmp_path, bytes(raw), START, is_dledger=True)), SMALL)
    assert ["record"] * 6 + ["filler"] == [kind for kind, *_ in sound]
    raw[sound[2][1] + field] ^= 0x01
    damaged = extents(whole(written(tmp_path, bytes(raw), START, is_dledger=True)), SMALL)
    assert sound[:2] + sound[3:] == damaged[:2] + damaged[4:]
    assert ("gap", sound[2][1], 48) == damaged[2][:3]
    assert ("record", sound[2][1] + 48, sound[2][2] - 48, "") == damaged[3]


def test_empty_file(tmp_path: Path) -> None:
    """A file of no bytes has no extents."""
    assert [] == extents(whole(written(tmp_path, b"")))


def test_part_in_which_nothing_begins(tmp_path: Path) -> None:
    """A part inside a record gives nothing; the record belongs to the part before."""
    segment = written(tmp_path, segment_bytes([MESSAGE._replace(body=bytes(2000))], size=SIZE))
    assert [] == extents(SegmentPart(segment, 500, 1500))
