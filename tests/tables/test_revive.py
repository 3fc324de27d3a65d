"""What revive topics tell of popped messages: a log of notes, written by a test."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from rmqtool.formats import properties
from rmqtool.formats.message import Message, encode, sealed
from rmqtool.relog.options import LogOptions
from rmqtool.relog.work import LogRun
from rmqtool.store.tree import open_store
from rmqtool.tables.pop_acks import REVIVE_GROUP, unacknowledged

TOPIC: Final = "rmq_sys_REVIVE_LOG_DefaultCluster"
CHECKPOINTS: Final[list[Mapping[str, object]]] = [
    {"c": "shop", "t": "orders", "q": 1, "so": start, "n": 3, "bm": 0, "pt": 100, "it": 5000}
    for start in (10, 20, 30)
]
Note = tuple[str, Mapping[str, object]]


def store_of(notes: Iterable[Note], tmp_path: Path) -> Path:
    """Write a store with notes in queue 0 of the revive topic, as a broker dispatches them."""
    file = tmp_path / "notes.rmq"
    file.write_bytes(
        b"".join(
            encode(
                sealed(
                    Message(
                        queue_offset=number,
                        store_timestamp=1_700_000_000_000 + number,
                        body=json.dumps(said).encode(),
                        topic_bytes=TOPIC.encode(),
                        properties_bytes=properties.encode({properties.TAGS: tag}),
                    )
                )
            )
            for number, (tag, said) in enumerate(notes)
        )
    )
    store = tmp_path / "store"
    LogRun(LogOptions((str(file),), str(store), jobs=1)).run()
    return store


def acked(said: Mapping[str, object], *, tag: str = "ack", **offsets: object) -> Note:
    """Give an acknowledgement of a checkpoint."""
    return tag, {name: said[name] for name in ("c", "t", "q", "so", "pt")} | offsets


def test_acknowledged(tmp_path: Path) -> None:
    """One by one, several at once, or by the bits of the checkpoint itself."""
    first, second, third = CHECKPOINTS
    notes: list[Note] = [
        ("ck", first), ("ck", second), ("ck", {**third, "bm": 0b101, "d": [0, 4, 5]}),
        acked(first, ao=11), acked(second, tag="bAck", aol=[20, 22]),
        acked({**first, "pt": 101}, ao=10),
    ]  # fmt: skip
    found = [*unacknowledged(open_store(store_of(notes, tmp_path)), {})]
    assert [10, 12, 21, 34] == [one.queue_offset for one in found]
    assert {("shop", "orders", 1, 100, 5100)} == {
        (one.group, one.topic, one.queue_id, one.pop_time, one.visible_time) for one in found
    }


def test_done_up_to_a_checkpoint(tmp_path: Path) -> None:
    """The offset of the brokers' own group is that of the last checkpoint that was done with.

    Brokers go on behind it (PopReviveService#consumeReviveMessage); its messages are in the retry
    topic by then, and would be named twice.
    """
    store = open_store(store_of([("ck", one) for one in CHECKPOINTS], tmp_path))
    expected = {None: [10, 20, 30], 0: [20, 30], 1: [30], 2: []}
    for last, starts in expected.items():
        found = unacknowledged(store, {(TOPIC, REVIVE_GROUP, 0): last})
        assert [start + one for start in starts for one in range(3)] == [
            one.queue_offset for one in found
        ]
