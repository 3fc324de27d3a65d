"""The key index in a starting broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.startup.indexes import ModelIndex, ModelIndexFile
from rmqtool.startup.records import DispatchRequest
from rmqtool.startup.settings import Settings
from rmqtool.startup.walk import Block

if TYPE_CHECKING:
    from numpy.typing import NDArray

CAPACITY = 6
ROLLBACK = 0xC
ROWS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 3), st.sampled_from([0, ROLLBACK])), max_size=20
)


def index(entries: int, end: int) -> ModelIndex:
    """Give an index with one file, or none when it has no entry."""
    made = ModelIndex(Rules(Version.parse("5.3.3")), Settings(), CAPACITY)
    if entries:
        made.files.append(ModelIndexFile("index/1", 0, end, entries + 1))
    return made


def facts(made: ModelIndex) -> tuple[object, ...]:
    """Give what later records go by; where a full file ended is no longer asked."""
    newest = made.files[-1] if made.files else None
    return made.added, made.created, newest, [file.index_count for file in made.files]


def record(offset: int, keys: int, sys_flag: int) -> DispatchRequest:
    """Give a record with so many keys."""
    found = {"KEYS": " ".join("k" * keys)} if keys else {}
    return DispatchRequest("topic", 0, offset, 10, offset + 5, 0, sys_flag, found)


def block(rows: list[tuple[int, int, int]]) -> Block:
    """Give the same records as columns."""
    columns: list[NDArray[np.int64]] = [
        np.array([row[number] for row in rows], np.int64) for number in range(3)
    ]
    none: Any = np.zeros(len(rows), np.int64)
    offsets, keys, flags = columns
    rest = (offsets, none, offsets, none, none, flags, offsets + 5, keys, none)
    return Block(0, 0, *rest, names=["topic"], again=lambda _: record(0, 0, 0))


@given(rows=ROWS, entries=st.integers(0, CAPACITY - 1), end=st.integers(0, 30))
def test_many_like_one_by_one(rows: list[tuple[int, int, int]], entries: int, end: int) -> None:
    """In order or not, over the ends of files, with rolled back records between."""
    one, many = index(entries, end), index(entries, end)
    for row in rows:
        one.put(record(*row))
    many.put_many(block(rows), np.ones(len(rows), np.bool_))
    assert facts(one) == facts(many)


def test_new_file_goes_on_where_the_full_one_ended() -> None:
    """A record that the full file has already passed is not indexed again."""
    made = index(CAPACITY - 1, 30)
    made.put(record(20, 2, 0))
    assert (0, 1) == (made.added, made.created)
    made.put(record(30, 2, 0))
    assert 2 == made.added


def test_tags_are_keys_since_5_4() -> None:
    """One entry more for each record with tags."""
    tagged = DispatchRequest("topic", 0, 0, 10, 0, 0, 0, {"TAGS": "a", "UNIQ_KEY": "u"})
    for version, entries in (("5.3.3", 1), ("5.4.0", 2)):
        made = ModelIndex(Rules(Version.parse(version)), Settings(), CAPACITY)
        made.put(tagged)
        assert entries == made.added
