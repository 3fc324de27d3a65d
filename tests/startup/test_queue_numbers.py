"""Numbers of queues: each has one, whoever asks for it, and however."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.startup import queue_numbers
from rmqtool.startup.load import Loader
from rmqtool.startup.plain_queues import PlainQueues, plain_queues
from rmqtool.startup.queue_numbers import NumbersOfQueues
from rmqtool.startup.queue_outcomes import QueueOutcome, QueueOutcomes
from rmqtool.startup.queues import ConsumeQueue
from rmqtool.store.tree import open_store
from tests.bench.store_builder import Builder, Spec


def _plain(store: Path) -> PlainQueues[ConsumeQueue]:
    """Give the plain queues of a new store: 2 topics with 20 queues each."""
    Builder(store, Spec(total_bytes=1 << 20, segment_bytes=1 << 20, topics=2, queues=20)).build()
    opened = open_store(str(store))
    length = opened.geometry.consume_queue.value
    return plain_queues(opened, Loader(Rules(Version.parse("5.3.3"))), length, frozenset())


def test_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue keeps the number that it had, among plain ones, too; no two have the same."""
    monkeypatch.setattr(queue_numbers, "UNITS_AT_A_TIME", 7)
    plain = _plain(tmp_path / "store")
    keys = [*plain.keys]
    numbers = NumbersOfQueues()
    known, other = numbers.of(keys[5]), numbers.of(("other", -1))
    by_rows = numbers.of_plain(plain).tolist()
    assert by_rows[5] == known
    assert [numbers.of(key) for key in keys] == by_rows
    assert [*numbers.of_plain(plain)] == by_rows  # twice: in files and in RocksDB
    assert len({*by_rows, other}) == len(keys) + 1
    assert [numbers.key(number) for number in (*by_rows, other)] == [*keys, ("other", -1)]
    assert numbers.get(("none", 0)) is None
    names = [*dict.fromkeys(topic for topic, _ in keys), "other", "new"]
    asked = [*product(names, (0, 3, -1))] * 3
    topics = np.array([names.index(topic) for topic, _ in asked])
    given = numbers.of_names(names, topics, np.array([queue_id for _, queue_id in asked]))
    assert [numbers.key(number) for number in given.tolist()] == asked
    assert given.tolist() == [numbers.of(key) for key in asked]
    assert max(given) < len(numbers)


def test_outcomes(tmp_path: Path) -> None:
    """Queues that a start leaves as they are stand among the others, in order."""
    plain = _plain(tmp_path / "store")
    plain.is_out[3] = True
    keys = [*plain.left]
    changed = QueueOutcome(keys[0][0], 1000, False, 5, 0, 3, 2, 0, 0, 3)
    nothing = QueueOutcome("no message", 0, False, 0, 0, 0, 0, 0, 0, 0)
    outcomes = QueueOutcomes([changed, nothing], plain.kept())
    assert len(outcomes) == len(keys) + 2
    assert [(it.topic, it.queue_id) for it in outcomes] == sorted(
        [*keys, (keys[0][0], 1000), ("no message", 0)]
    )
    assert (changed in outcomes, outcomes.keep_all) == (True, False)
    assert outcomes.topics_read == {topic for topic, _ in keys}
    of_one = outcomes.of({keys[-1][0], "no message"})
    assert {it.topic for it in of_one} == {keys[-1][0], "no message"}
    assert outcomes == QueueOutcomes(outcomes)
    kept = next(it for it in outcomes if it.queue_id == 7)
    assert (kept.minimum, kept.maximum) == plain.extent((kept.topic, 7))
    assert kept.readable == kept.units_now == kept.maximum - kept.minimum
    assert kept.keeps_all
    more = outcomes.and_more([], plain.kept(in_rocksdb=True))
    assert [it.in_rocksdb for it in more] == [False] * len(outcomes) + [True] * len(keys)
