"""Names of queues in columns are what a dictionary of them is."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.queues.queue_names import EndList, EndsOfQueues, NameList, QueueEnds, QueueNames

TOPICS = st.sampled_from([b"", b"\0", b"a", b"ab", b"b", b"\xff", b"longer topic"])
NUMBERS = st.integers(-(1 << 31), (1 << 31) - 1)
NAMES = st.tuples(TOPICS, st.integers(-2, 3) | NUMBERS)
OFFSETS = st.integers(-(1 << 63) + 1, (1 << 63) - 1)
ENDS = st.dictionaries(NAMES, st.tuples(OFFSETS, OFFSETS), max_size=12)


def listed(names: list[tuple[bytes, int]]) -> NameList:
    """Give a list of names."""
    made = NameList()
    for name in names:
        made.add(*name)
    return made


@given(st.lists(NAMES, max_size=30), NAMES)
def test_names(given_names: list[tuple[bytes, int]], other: tuple[bytes, int]) -> None:
    """Each once, sorted; by row, by name, by topic, from either end."""
    names, rows = QueueNames.of(listed(given_names))
    wanted = sorted({*given_names})
    assert [*names] == wanted
    assert len(names) == len(wanted)
    assert [names[row] for row in rows.tolist()] == given_names
    assert [names.row(*name) for name in wanted] == [*range(len(wanted))]
    assert names[1:-1] == wanted[1:-1]
    assert [names[-1 - row] for row in range(len(wanted))] == wanted[::-1]
    assert (other in names) == (other in wanted)
    assert (names.row(*other) < 0) == (other not in wanted)
    assert [*names.of_topic(other[0])] == [name for name in wanted if name[0] == other[0]]


@given(st.lists(NAMES, max_size=30), st.lists(NAMES, max_size=30))
def test_rows_of_many(
    given_names: list[tuple[bytes, int]], others: list[tuple[bytes, int]]
) -> None:
    """Many names are looked up at once as each is by itself; -1 is of no topic."""
    names, _ = QueueNames.of(listed(given_names))
    asked = [*given_names, *others]
    topics = np.array([names.topic_number(topic) for topic, _ in asked], np.int64)
    numbers = np.array([queue_id for _, queue_id in asked], np.int64)
    assert [names.row(*name) for name in asked] == names.rows_of(topics, numbers).tolist()


def ends_of(maxima: dict[tuple[bytes, int], tuple[int, int]]) -> EndList:
    """Give rows of one kind."""
    made = EndList.new()
    for name, end in maxima.items():
        made.add(name, end)
    return made


@given(ENDS, ENDS)
def test_ends(
    maxima: dict[tuple[bytes, int], tuple[int, int]],
    minima: dict[tuple[bytes, int], tuple[int, int]],
) -> None:
    """They are a mapping, and the same by columns."""
    ends = EndsOfQueues(ends_of(maxima), ends_of(minima))
    wanted = {name: QueueEnds(maxima.get(name), minima.get(name)) for name in {*maxima, *minima}}
    assert dict(ends) == wanted
    assert len(ends) == len(wanted)
    assert ends.of((b"none", 0)) == QueueEnds()
    assert [*ends.with_maximum] == sorted(maxima)
    names = QueueNames.of(listed([*wanted]))[0]
    for whole in (names, ends.with_maximum):
        if {*minima} <= {*whole}:
            columns = ends.columns(whole)
            oldest = 5
            first = np.array([minima.get(name, (0, 7))[1] for name in whole], np.int64)
            last = np.array([maxima.get(name, (0, 9))[1] for name in whole], np.int64)
            place = np.array([maxima.get(name, (0, 9))[0] for name in whole], np.int64)
            assert [name in maxima for name in whole] == [
                *columns.whole(first, last, place, oldest)
            ]
            late = [minima.get(name, (0, 0))[0] < oldest for name in whole]
            is_whole = columns.whole(first ^ 1, last, place, oldest)
            found = [name in maxima and old for name, old in zip(whole, late, strict=True)]
            assert found == [*is_whole]
            assert not columns.whole(first, last ^ 1, place, oldest).any()
