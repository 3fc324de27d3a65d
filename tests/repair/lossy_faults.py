"""Faults after which repairs once lost messages, delivered wrong ones, or did not settle.

Each was found on a real broker; the campaign's cases among them name the place where it struck.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests import inflict, plain_store
from tests.stores import fixture_store

Inflict = Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        name: of it.
        fixture: whose copy it is done to.
        harms: what is done, one after the other.
        is_killed: whether the broker was killed.
        release: of the broker that is to run; None is the store's own.
        back: file that is put back as it was once the repair is done; empty for none.
        is_proven: whether a real store judges it, too, where only a sample is run.
    """

    name: str
    fixture: str
    harms: tuple[Inflict, ...]
    is_killed: bool = False
    release: str | None = None
    back: str = ""
    is_proven: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def version(self) -> str:
        """Release of the broker that is to run."""
        return self.release or self.fixture.split("-")[1]

    def inflict(self, root: Path) -> None:
        """Do it to a copy of the fixture."""
        for harm in self.harms:
            harm(root)
        if self.is_killed:
            (root / "abort").touch()

    def put_back(self, root: Path) -> None:
        """Put a file back, as a person would who has a backup of it."""
        if self.back:
            with tempfile.TemporaryDirectory() as place:
                shutil.copy(fixture_store(self.fixture, Path(place)) / self.back, root / self.back)


def _zeros(path: str, begin: int, end: int | None = None) -> Inflict:
    def harm(root: Path) -> None:
        file = root / path
        inflict.write_at(file, begin, bytes((end or file.stat().st_size) - begin))

    return harm


def _again(path: str, source: int, end: int, target: int) -> Inflict:
    """Write a stretch of a file to another place of it, as a misdirected write does."""

    def harm(root: Path) -> None:
        raw = inflict.read_at(root / path, source, end - source)
        inflict.write_at(root / path, target, raw)

    return harm


def _size(path: str, size: int) -> Inflict:
    return lambda root: inflict.resize(root / path, size)


def _gone(*paths: str) -> Inflict:
    def harm(root: Path) -> None:
        for path in paths:
            (root / path).unlink(missing_ok=True)

    return harm


def _queue_gone(path: str) -> Inflict:
    return lambda root: shutil.rmtree(root / path)


def _copied(source: str, target: str) -> Inflict:
    def harm(root: Path) -> None:
        shutil.copy2(root / source, root / target)

    return harm


def _exchanged(one: str, other: str) -> Inflict:
    def harm(root: Path) -> None:
        aside = root / "aside"
        (root / one).rename(aside)
        (root / other).rename(root / one)
        aside.rename(root / other)

    return harm


def _flip(physical_offset: int, field: str, byte: int = -1, bit: int = 0) -> Inflict:
    """Flip a bit of a field of the record at an offset."""
    return inflict.flip_field(
        field,
        byte=byte,
        bit=bit,
        where=0,
        wanted=lambda record: record.physical_offset == physical_offset,
    )


def _flip_in_queue(queue: tuple[str, int], which: int, field: str, bit: int) -> Inflict:
    """Flip a bit of a field of the first, or last, record of a queue."""

    def harm(root: Path) -> None:
        own = [
            record.physical_offset
            for record in plain_store.records(root)
            if (record.topic, record.integer("queue_id")) == queue
        ]
        _flip(own[which], field, bit=bit)(root)

    return harm


def _first(topic: str) -> str:
    return f"consumequeue/{topic}/0/{FIRST}"


def _index_zeroed(root: Path) -> None:
    """Zero half of the entries of the first index file."""
    path = plain_store.index_files(root)[0].path
    size = path.stat().st_size
    inflict.write_at(path, 2040, bytes((size - 2040) // 2))


QUEUE: Final = ("traffic-batch", 0)
LOG: Final = "commitlog/00000000000000"
ORDERS: Final = "consumequeue/expired-orders"
BATCHES: Final = "batchconsumequeue/batch-queue/1/00000000000000"
IDLE: Final = "consumequeue/expired-idle/0/00000000000000000000"
TOPICS: Final = "config/topics.json"
FIRST: Final = "00000000000000000000"


def _faults() -> list[Fault]:
    found = [
        Fault(
            f"zeros to the end of a segment, {version}",
            f"rocketmq-{version}-crash",
            (_zeros(f"{LOG}000000", 104857),),
            is_killed=True,
        )
        for version in ("4.9.3", "5.5.0")
    ]
    found.append(
        Fault(
            "queues without a message",
            "rocketmq-4.9.3-traffic",
            (_zeros(f"{LOG}131072", 45928), _zeros(f"{LOG}262144", 0)),
            is_proven=True,
        )
    )
    found += [
        Fault(
            f"bit {bit} of {field} of the {place} record of a queue, {version}",
            f"rocketmq-{version}-traffic",
            (_flip_in_queue(QUEUE, which, field, bit),),
            is_proven=(version, field, place) == ("4.9.3", "queue_id", "first"),
        )
        for version, (field, bit, which, place) in itertools.product(
            ("4.9.3", "5.5.0"),
            (
                ("queue_id", 0, 0, "first"),
                ("topic", 0, 0, "first"),
                ("queue_offset", 6, 0, "first"),
                ("queue_offset", 1, -1, "last"),
                ("queue_offset", 3, -1, "last"),
            ),
        )
    ]
    found += [
        Fault(
            f"batch topic forgotten, {name}",
            "rocketmq-5.3.3-batch-queue",
            (_gone(TOPICS, f"{TOPICS}.bak"), *more),
            back=TOPICS,
            is_proven=bool(more),
        )
        for name, more in (("alone", ()), ("and a body", (inflict.flip_field("body"),)))
    ]
    return [
        *found,
        Fault(
            "first segment of zeros",
            "rocketmq-4.9.3-crash",
            (_zeros(f"{LOG}000000", 0),),
            is_killed=True,
        ),
        Fault(
            "empty queue file whose oldest messages are gone",
            "rocketmq-4.9.3-traffic",
            (_size(_first("traffic-transaction"), 0), _gone(f"{LOG}000000")),
            release="5.3.3",
            is_proven=True,
        ),
        Fault(
            "queue file cut inside of a unit",
            "rocketmq-4.9.3-expired",
            (_size(f"{ORDERS}/0/00000000000000005000", 859),),
            is_proven=True,
        ),
        Fault(
            "queue file exchanged with that of an expired queue",
            "rocketmq-4.9.3-expired",
            (_exchanged(IDLE, f"{ORDERS}/2/00000000000000005000"),),
            is_proven=True,
        ),
        Fault(
            "queue files exchanged",
            "rocketmq-5.3.3-expired",
            (_exchanged(f"{ORDERS}/0/{3000:020}", f"{ORDERS}/1/{4000:020}"),),
        ),
        Fault(
            "queue files of one number exchanged, offsets of consumers",
            "rocketmq-5.3.3-expired",
            (_exchanged(f"{ORDERS}/0/{2000:020}", f"{ORDERS}/1/{2000:020}"),),
        ),
        Fault(
            "queue of a delay level exchanged, offsets of delay levels",
            "rocketmq-5.5.0-traffic",
            (
                _exchanged(
                    _first("RMQ_SYS_TRANS_HALF_TOPIC"),
                    f"consumequeue/SCHEDULE_TOPIC_XXXX/1/{FIRST}",
                ),
                _gone(f"{LOG}131072"),
            ),
        ),
        Fault(
            "queue file of zeros",
            "rocketmq-5.3.3-expired",
            (_zeros(IDLE, 0),),
            is_killed=True,
            is_proven=True,
        ),
        Fault(
            "zeros in index and log",
            "rocketmq-4.9.3-expired",
            (_zeros("index/20261121031707094", 3584), _zeros(f"{LOG}327680", 13312, 15360)),
        ),
        Fault(
            "misdirected write in the index",
            "rocketmq-5.5.0-expired",
            (_again("index/20261121031945780", 5120, 5368, 8192), _zeros(f"{LOG}393216", 43520)),
        ),
        Fault(
            "last segments gone",
            "rocketmq-4.9.3-expired",
            (_zeros(f"{LOG}262144", 34816), _gone(f"{LOG}327680")),
            release="5.5.0",
        ),
        Fault(
            "gap that no record follows",
            "rocketmq-5.3.3-crash",
            (_size(f"{LOG}000000", 51183), _gone(f"{LOG}131072")),
        ),
        Fault(
            "store time and misdirected write",
            "rocketmq-4.9.3-traffic",
            (
                _flip(118218, "store_timestamp", byte=5, bit=2),
                _again(f"{LOG}000000", 86016, 86528, 35328),
            ),
            is_killed=True,
            release="5.5.0",
        ),
        Fault(
            "all messages of some queues, in the middle of the log",
            "rocketmq-4.9.3-traffic",
            (_zeros(f"{LOG}131072", 47104, 57344),),
        ),
        Fault(
            "topic flipped, entries of the index zeroed",
            "rocketmq-5.3.3-traffic",
            (_flip_in_queue(("traffic-orders", 1), 3, "topic", 0), _index_zeroed),
        ),
        Fault(
            "queue offset of a message that has no unit",
            "rocketmq-4.9.3-traffic",
            (
                _flip(277651, "queue_offset", byte=4),
                _zeros(f"consumequeue/traffic-orders/3/{2000:020}", 1520),
                _zeros(f"consumequeue/traffic-orders/3/{4000:020}", 0),
            ),
            is_killed=True,
        ),
        Fault(
            "topic flipped, unit overwritten",
            "rocketmq-5.5.0-ipv6",
            (
                _flip(4828, "topic"),
                _copied(_first("RMQ_SYS_TRANS_OP_HALF_TOPIC"), _first("ipv6-orders")),
            ),
        ),
        Fault(
            "batch queue file cut, and the log before it",
            "rocketmq-5.5.0-batch-queue",
            (_size(f"{BATCHES}001380", 176), _size(f"{LOG}000000", 59483)),
        ),
        Fault(
            "queue offset of a batch, zeros in another batch queue",
            "rocketmq-5.5.0-batch-queue",
            (_flip(17568, "queue_offset"), _zeros(f"{BATCHES}000460", 0)),
        ),
        Fault(
            "separator after the INNER_BASE of a batch",
            "rocketmq-5.3.3-batch-queue",
            (_zeros(f"{LOG}000000", 30638, 30639),),
            is_killed=True,
        ),
        Fault(
            "queue id of a batch",
            "rocketmq-5.3.3-batch-queue",
            (_flip(77390, "queue_id", byte=0, bit=1),),
        ),
        Fault(
            "queue id of a batch, and the end of another queue",
            "rocketmq-5.3.3-batch-queue",
            (_flip(29557, "queue_id", byte=0, bit=5), _zeros(f"{BATCHES}000460", 0)),
        ),
        Fault(
            "light queue exchanged with a file of its parent",
            "rocketmq-5.5.0-lmq",
            (
                _exchanged(
                    _first("%LMQ%$lmq-parent$room-2"),
                    f"consumequeue/lmq-parent/1/{2000:020}",
                ),
            ),
        ),
        Fault(
            "queue id flipped, its own queue gone",
            "rocketmq-4.9.3-traffic",
            (_flip(209330, "queue_id"), _queue_gone("consumequeue/traffic-batch/1")),
        ),
        Fault(
            "queue of timers exchanged, timer log torn at its begin",
            "rocketmq-5.3.3-timer",
            (
                _exchanged(_first("timer-orders"), _first("rmq_sys_wheel_timer")),
                _again(f"timerlog/{FIRST}", 512, 1040, 0),
            ),
        ),
        Fault(
            "light queues exchanged",
            "rocketmq-5.5.0-lmq",
            (_exchanged(_first("%LMQ%home-1"), _first("%LMQ%home-2")),),
            is_proven=True,
        ),
        Fault(
            "topics gone, newest messages of theirs lost",
            "rocketmq-4.9.3-crash",
            (_exchanged(TOPICS, "config/consumerOffset.json"), _gone(f"{LOG}131072")),
        ),
        Fault(
            "topics gone, and with them the log of their last units",
            "rocketmq-5.5.0-expired",
            (
                _exchanged(TOPICS, "config/consumerOffset.json"),
                _zeros(f"{LOG}327680", 48210),
                _gone(f"{LOG}393216"),
            ),
            is_killed=True,
        ),
        Fault(
            "topics gone, one queue of theirs gone",
            "rocketmq-5.5.0-expired",
            (
                _exchanged(TOPICS, "config/consumerFilter.json.bak"),
                _queue_gone(f"{ORDERS}/0"),
            ),
            release="4.9.3",
            is_proven=True,
        ),
    ]


FAULTS: Final = _faults()
