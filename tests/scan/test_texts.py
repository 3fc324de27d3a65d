"""Topic and properties in columns: what `formats` reads of them, for any bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqtool.formats import java, properties
from rmqtool.formats.message import Message, SysFlag, encode
from rmqtool.machine.intrinsics import SLACK
from rmqtool.scan import columns as row
from rmqtool.scan.batch import ScanOptions
from rmqtool.scan.message import scan
from tests.scan.segments import MESSAGE, placed, segment_bytes, whole, written

if TYPE_CHECKING:
    from pathlib import Path

ALL = ScanOptions(keys=True, tag_keys=True, property_crc=True, well_formed=True)
NAMES = [
    "TAGS", "KEYS", "UNIQ_KEY", "DELAY", "INNER_NUM", "INNER_BASE", "__CRC32#",
    "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET", "TAG", "KEYSX", "INNER_BASF", "a", "名字",
]  # fmt: skip
VALUES = st.one_of(
    st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=12),
    st.integers(-(2**63), 2**63).map(str),
    st.integers(-40, 40).map(str),
    st.sampled_from(["+7", "-", "+", "01", "7x", " 7", "a b", " a  b ", "a\x01b"]),
)
BYTES = [0, 1, 2, 32, 84, 120, 255]
ITEMS = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=7)
RAW = st.one_of(
    ITEMS.map(lambda items: "".join(f"{name}\x01{value}\x02" for name, value in items).encode()),
    st.lists(st.sampled_from([b"\1", b"\2", b"TAGS", b"KEYS", b"x", b"\xff"]), max_size=12).map(
        b"".join
    ),
)


def as_window(raw: bytes) -> npt.NDArray[np.uint8]:
    """Give bytes as kernels take them, with other bytes behind."""
    return np.frombuffer(bytearray(raw + b"\xa5" * SLACK), np.uint8)


def read(
    directory: Path, messages: list[Message], options: ScanOptions = ALL
) -> list[dict[str, Any]]:
    """Scan messages and give each one's columns, with its index hashes and topic."""
    found = []
    for batch in scan(whole(written(directory, segment_bytes(messages, blank=False))), options):
        keys = batch.key_pairs
        for number in range(batch.count):
            column = batch.columns[:, number].tolist()
            found.append(
                {
                    "column": column,
                    "topic": batch.topics[column[row.TOPIC_NUMBER]],
                    "hashes": keys[1, keys[0] == number].tolist(),
                    "tags": batch.text(column[row.TAGS_START], column[row.TAGS_LENGTH]),
                    "keys": batch.text(column[row.KEYS_START], column[row.KEYS_LENGTH]),
                    "unique_key": batch.text(
                        column[row.UNIQUE_KEY_START], column[row.UNIQUE_KEY_LENGTH]
                    ),
                }
            )
    return found


def number(text: str | None, largest: int) -> int:
    """Read a number as Java does."""
    if text is None:
        return row.ABSENT
    digits = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit()) or abs(int(text)) > largest:
        return row.UNPARSABLE
    return int(text)


@given(drawn=st.lists(st.tuples(st.text(max_size=9), RAW), min_size=1, max_size=4))
@example(drawn=[("T", b"KEYS\x01jllgvmc\x02")])
def test_agrees_with_formats(drawn: list[tuple[str, bytes]], tmp_path: Path) -> None:
    """Any properties: tags, keys, numbers and index hashes are those of `formats`."""
    messages = [
        MESSAGE._replace(topic_bytes=topic.encode(), properties_bytes=raw) for topic, raw in drawn
    ]
    for message, found in zip(placed(messages), read(tmp_path, messages), strict=True):
        assert_agrees(message, found)


@given(raw=RAW, changes=st.lists(st.tuples(st.integers(0, 99), st.sampled_from(BYTES))))
@example(raw=b"TAGS\x01ab\x02KEYS\x01c\x02", changes=[(5, 2), (5, 1), (0, 120), (7, 1), (12, 2)])
def test_same_shape(raw: bytes, changes: list[tuple[int, int]], tmp_path: Path) -> None:
    """Records like those in front of them, but for a byte, are read as they are."""
    alike = []
    for place, byte in changes if raw else []:
        other = bytearray(raw)
        other[place % len(raw)] = byte
        alike += [raw, raw, raw, bytes(other), bytes(other)]
    messages = [MESSAGE._replace(properties_bytes=one) for one in [raw, raw, *alike, raw]]
    for message, found in zip(placed(messages), read(tmp_path, messages), strict=True):
        assert_agrees(message, found)


def assert_agrees(message: Message, found: dict[str, Any]) -> None:
    """Compare columns with what `formats` reads."""
    values = message.properties
    column = found["column"]
    tags, unique_key = message.tags or "", message.unique_key
    assert message.topic_bytes == found["topic"]
    assert java.string_hash(tags) == column[row.TAGS_CODE]
    for name in ("tags", "keys", "unique_key"):
        stored = values.get({"unique_key": "UNIQ_KEY"}.get(name, name.upper()), "")
        assert stored == java.text(found[name])
    assert number(values.get("DELAY"), 2**31 - 1) == column[row.DELAY_LEVEL]
    assert number(values.get("INNER_NUM"), 2**15 - 1) == column[row.INNER_NUM]
    assert number(values.get("INNER_BASE"), 2**63 - 1) == column[row.INNER_BASE]
    keys = [*([unique_key] if unique_key else []), *message.keys]
    keys += [f"T#{tags}"] if tags else []
    assert [java.key_hash(message.topic, key) for key in keys] == found["hashes"]
    assert len(keys) == column[row.KEY_COUNT]
    marks = column[row.MARKS]
    dropped = any(not item.is_kept and len(item.name + item.value) for item in items(message))
    assert dropped == bool(marks & row.MARK_DROPPED_ITEM) or b"\1" in message.properties_bytes
    multi = {"INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"} <= values.keys()
    assert multi == bool(marks & row.MARK_MULTI_DISPATCH)
    texts = message.topic_bytes, message.properties_bytes
    malformed = any(raw != raw.decode(errors="replace").encode() for raw in texts)
    assert malformed == bool(marks & row.MARK_MALFORMED)


def items(message: Message) -> list[properties.PropertyItem]:
    """Give the property items of a message."""
    return list(properties.items(message.properties_bytes))


@pytest.mark.parametrize(
    ("flags", "hashes"),
    [
        (SysFlag.TRANSACTION_NOT_TYPE, 2),
        (SysFlag.TRANSACTION_PREPARED_TYPE, 2),
        (SysFlag.TRANSACTION_COMMIT_TYPE, 2),
        (SysFlag.TRANSACTION_ROLLBACK_TYPE, 0),
    ],
)
def test_rolled_back_is_not_indexed(flags: int, hashes: int, tmp_path: Path) -> None:
    """Transactions that were rolled back make no index entries, all others do."""
    (found,) = read(tmp_path, [MESSAGE._replace(sys_flag=flags)])
    assert hashes == len(found["hashes"])


def test_tags_are_no_key_before_5_4(tmp_path: Path) -> None:
    """Only 5.4.0 and later index tags."""
    (found,) = read(tmp_path, [MESSAGE], ALL._replace(tag_keys=False))
    assert [java.key_hash("TopicTest", "ORDER-1")] == found["hashes"]


@pytest.mark.parametrize(("damage", "matches"), [(None, True), (50, False), (100, False)])
def test_property_crc(damage: int | None, matches: bool, tmp_path: Path) -> None:
    """The property CRC covers all of the record before it, and is read only if asked for."""
    item = properties.crc_item(b"")
    (message,) = placed(
        [MESSAGE._replace(properties_bytes=b"KEYS\x01k\x02" + item, body=bytes(60))]
    )
    head = encode(message)[: -len(item)]
    raw = bytearray(head + properties.crc_item(head))
    if damage is not None:
        raw[damage] ^= 1
    for batch in scan(whole(written(tmp_path, bytes(raw))), ALL):
        column = batch.columns[:, 0].tolist()
        assert matches == (column[row.PROPERTY_CRC] == column[row.PROPERTY_CRC_FOUND])
        assert column[row.PROPERTY_CRC] >= 0
    for batch in scan(whole(written(tmp_path, bytes(raw))), ALL._replace(property_crc=False)):
        assert -1 == batch.columns[row.PROPERTY_CRC_FOUND, 0]


def test_duplicates_are_marked(tmp_path: Path) -> None:
    """The later of two equal names counts, and the record is marked."""
    raw = b"TAGS\x01one\x02KEYS\x01k\x02TAGS\x01two\x02"
    (found,) = read(tmp_path, [MESSAGE._replace(properties_bytes=raw)])
    assert b"two" == found["tags"]
    assert row.MARK_DUPLICATE == found["column"][row.MARKS]


def test_unique_key_of_the_batch(tmp_path: Path) -> None:
    """What brokers append to each message of a batch is no oddity; the later one counts."""
    raw = b"UNIQ_KEY\x01own\x02UNIQ_KEY\x01batch\x02"
    (found,) = read(tmp_path, [MESSAGE._replace(properties_bytes=raw)])
    assert (b"batch", 0) == (found["unique_key"], found["column"][row.MARKS])


def test_many_topics(tmp_path: Path) -> None:
    """More topics, and longer ones, than the table has room for at first; numbers stay."""
    names = [b"%0*d" % (number % 120 + 4, number) for number in range(3000)]
    messages = [MESSAGE._replace(topic_bytes=name) for name in names * 2]
    found = read(tmp_path, messages)
    assert names * 2 == [one["topic"] for one in found]
    assert list(range(3000)) * 2 == [one["column"][row.TOPIC_NUMBER] for one in found]


def test_many_keys(tmp_path: Path) -> None:
    """More keys in a batch than there is room for at first."""
    text = " ".join(f"key{number}" for number in range(3000))
    message = MESSAGE._replace(properties_bytes=b"KEYS\x01" + text.encode() + b"\x02")
    options = ALL._replace(window_bytes=1 << 20)
    found = read(tmp_path, [message] * 20, options)
    assert [java.key_hash("TopicTest", key) for key in text.split()] == found[-1]["hashes"]
    assert [3000] * 20 == [message["column"][row.KEY_COUNT] for message in found]
