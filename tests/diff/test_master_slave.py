"""Real masters and slaves: killed in the middle, truncated, written on alone, and joined again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

import pytest

from rmqtool.diff import StoreDifference
from rmqtool.diff.log_difference import AFTER, SHARED
from rmqtool.diff.report import verdict
from tests.broker.bare_store import BareStore
from tests.broker.broker import SMALL_GEOMETRY, Broker, running_broker
from tests.broker.client import wait_until
from tests.broker.consumer import PullConsumer
from tests.broker.jvm import Jvm
from tests.broker.message import Outgoing, Sent
from tests.broker.producer import Producer
from tests.diff.conftest import Pair

TOPIC: Final = "orders"
QUEUES: Final = 4
FIRST: Final = 300  # messages before there is a slave: more than one segment
COPIED: Final = 200  # that the slave has, before it is killed beside further ones
ALONE: Final = 150  # of the master, a third of them at least when the slave is gone
PROMOTED: Final = 500  # of the slave as master: its log becomes the longer one
FILE: Final = int(str(SMALL_GEOMETRY["mappedFileSizeCommitLog"]))
MASTER: Final = {**SMALL_GEOMETRY, "brokerRole": "ASYNC_MASTER"}
PATIENCE: Final = {"haSendHeartbeatInterval": 200}  # ms: so late an empty slave asks

Offsets = dict[tuple[str, str, int], tuple[int | None, int | None]]


@dataclass
class Pairing:
    """What a master and its slave went through, each in a home of its own.

    Attributes:
        version: of both brokers.
        stores: A is the master's, B the slave's.
        sent: what the master took, in its order.
    """

    version: str
    stores: Pair
    sent: list[Sent] = field(default_factory=list)

    @property
    def begin(self) -> int:
        """Where the slave's log begins: with the file that the master wrote when it came."""
        return self.sent[FIRST - 1].physical_offset // FILE * FILE

    def own(self, end: int) -> int:
        """Count what the master took from a physical offset on."""
        return sum(one.physical_offset >= end for one in self.sent)


def send(producer: Producer, count: int, writer: str) -> Iterator[Sent]:
    """Send messages to the queues by turns; each has a body of its own."""
    for number in range(count):
        body = f"{writer}{number:06}".encode() * 40
        outgoing = Outgoing(TOPIC, body, keys=(f"{writer}-{number}",))
        yield producer.send(outgoing, number % QUEUES)


def commit(broker: Broker, group: str, queue_id: int, queue_offset: int) -> None:
    """Let a group say that it has consumed what is before a queue offset."""
    with PullConsumer(broker, group) as consumer:
        consumer.commit(TOPIC, queue_id, queue_offset)
        wait_until(lambda: consumer.committed(TOPIC, queue_id) == queue_offset, "the commit")


@contextmanager
def slave(version: str, home: Path, master: Broker) -> Iterator[Broker]:
    """Run a broker that copies another one's log; it is killed at the end."""
    # The name server tells it where: 5.3.3 forgets a `haMasterAddress` that it is given (observed).
    settings = {**SMALL_GEOMETRY, "brokerRole": "SLAVE", "brokerId": 1, **PATIENCE}
    home.mkdir(parents=True, exist_ok=True)
    with Jvm(version, home) as jvm:
        yield Broker(jvm, master.names, settings)


def end_of(broker: Broker) -> int:
    """Give where a broker's log ends."""
    return int(broker.store.getMaxPhyOffset())


def wait_copied(master: Broker, copy: Broker) -> None:
    """Wait until a slave has all of its master's log."""
    end = end_of(master)
    wait_until(lambda: end_of(copy) == end, "the copy of the log")


def kill_in_the_middle(pairing: Pairing, producer: Producer, copy: Broker) -> None:
    """Kill a slave while its master takes messages: when it has some of them, and not yet all."""
    begin = end_of(copy)
    killed = Event()

    def go_on() -> list[Sent]:
        found = []
        for one in send(producer, ALONE, "alone"):
            found.append(one)
            if len(found) == ALONE * 2 // 3:
                assert killed.wait(600)
        return found

    with ThreadPoolExecutor(1) as pool:
        further = pool.submit(go_on)
        wait_until(lambda: end_of(copy) > begin, "the first of them")
        copy.crash()
        killed.set()
        pairing.sent += further.result()


@pytest.fixture(scope="module", params=["4.9.3", "5.3.3", "5.5.0"])
def parted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pairing:
    """Give a master that was stopped, and its slave, killed before that while it copied."""
    home = tmp_path_factory.mktemp("replicated")
    version = str(request.param)
    pairing = Pairing(version, Pair(home / "a/store", home / "b/store"))
    with running_broker(version, home / "a", MASTER) as master:
        master.create_topic(TOPIC, QUEUES)
        with Producer(master, "shop") as producer:
            pairing.sent += send(producer, FIRST, "first")
            with slave(version, home / "b", master) as copy:
                wait_copied(master, copy)
                pairing.sent += send(producer, COPIED, "copied")
                commit(master, "both", 0, 20)
                wait_copied(master, copy)
                copy.controller.getSlaveSynchronize().syncAll()
                kill_in_the_middle(pairing, producer, copy)
        commit(master, "both", 0, 70)
        commit(master, "late", 1, 9)
        master.wait_dispatched()
    assert {one.status for one in pairing.sent} == {"SEND_OK"}
    return pairing


def offsets(found: StoreDifference) -> Offsets:
    """Give the consumer offsets that differ."""
    return {(key.group, key.topic, key.queue_id): two for key, two in found.state.offsets.items()}


def counted(found: StoreDifference) -> tuple[int, ...]:
    """Count the messages that only A, only B has where both have a log, and after that."""
    return tuple(own.messages(SHARED, AFTER) for own in found.log.own)


def recovered_end(version: str, home: Path, root: Path) -> int:
    """Let a message store recover, and give the physical offset at which its log ends then."""
    with Jvm(version, home) as jvm:
        bare = BareStore(jvm, root, SMALL_GEOMETRY)
        assert bare.load()
        bare.start()
        end = bare.physical_offsets()[1]
        bare.stop()
    return end


@pytest.mark.broker
def test_killed_in_the_middle(parted: Pairing, tmp_path: Path) -> None:
    """The point is where the slave's own recovery ends; offsets that it never got are newer in A.

    A slave without a log begins with the last file of its master.
    """
    compared = parted.stores.compare()
    end = compared.parts_at
    assert end is not None
    copy = Path(shutil.copytree(parted.stores.b, tmp_path / "b"))
    assert recovered_end(parted.version, tmp_path / "home", copy) == end
    own = parted.own(end)
    assert 0 < own < ALONE
    assert (compared.log.b.begin, compared.log.b.end, compared.log.first) == (
        parted.begin,
        end,
        None,
    )
    assert counted(compared) == (own, 0)
    said = verdict(compared).split("; ")
    assert said[0].startswith("B is A's log up to ")
    assert said[0].endswith(f"(physical offset {end})")
    older = sum(one.physical_offset < parted.begin for one in parted.sent)
    assert said[1:4] == [
        f"A has {own} messages more",
        f"A has {older} older messages",
        "the offsets of 2 groups are newer in A",
    ]
    assert offsets(compared) == {("both", TOPIC, 0): (70, 20), ("late", TOPIC, 1): (9, None)}


@pytest.mark.broker
def test_truncated(parted: Pairing, tmp_path: Path) -> None:
    """A slave's recovery cuts its log at a damaged record: that is the point.

    The cut does not erase: what lies behind it in the file is the same in both.
    """
    stores = Pair(parted.stores.a, Path(shutil.copytree(parted.stores.b, tmp_path / "b")))
    end = stores.compare().parts_at
    assert end is not None
    copied = [one for one in parted.sent if one.physical_offset < end]
    start = copied[-1].physical_offset // FILE * FILE
    inside = [one for one in copied if one.physical_offset >= start]
    lost = inside[len(inside) // 2]
    path = stores.b / "commitlog" / f"{start:020}"
    raw = bytearray(path.read_bytes())
    raw[raw.index(lost.body)] ^= 1
    path.write_bytes(raw)
    assert recovered_end(parted.version, tmp_path / "home", stores.b) == lost.physical_offset
    compared = stores.compare()
    assert compared.parts_at == lost.physical_offset
    assert counted(compared) == (1 + parted.own(end), 1)
    assert [one.code for one in compared.troubles[1] if one.code] == ["CL-CRC"]


@pytest.mark.broker
def test_written_alone(parted: Pairing, tmp_path: Path) -> None:
    """The slave becomes the master and takes messages; the old master comes back as its slave.

    That one asks for what comes after its own log, and gets it, from the middle of a record on.
    """
    homes = [tmp_path / name for name in ("a", "b")]
    for home, store in zip(homes, (parted.stores.a, parted.stores.b), strict=True):
        shutil.copytree(store, home / "store")
    stores = Pair(*(home / "store" for home in homes))
    first = stores.compare()
    end, end_a = first.parts_at, first.log.a.end
    assert end is not None
    with running_broker(parted.version, homes[1], MASTER) as promoted:
        assert end_of(promoted) == end
        with Producer(promoted, "shop") as producer:
            taken = list(send(producer, PROMOTED, "promoted"))
        commit(promoted, "both", 0, 110)
        promoted.controller.getConsumerOffsetManager().persist()
        promoted.wait_dispatched()
        compared = stores.compare()
        own = parted.own(end)
        assert (compared.parts_at, compared.log.first, compared.log.goes_on) == (end, end, False)
        assert counted(compared) == (own, PROMOTED)
        assert verdict(compared).startswith(
            f"they part at {end}: from there A has {own} messages and B has {PROMOTED} messages "
            "of its own; "
        )
        newer = "; the offsets of 1 group are newer in A; the offsets of 1 group are newer in B; "
        assert newer in verdict(compared)
        assert offsets(compared) == {("both", TOPIC, 0): (70, 110), ("late", TOPIC, 1): (9, None)}
        with slave(parted.version, homes[0], promoted) as copy:
            wait_copied(promoted, copy)
            copy.controller.getSlaveSynchronize().syncAll()
    compared = stores.compare()
    overwritten = sum(one.physical_offset < end_a for one in taken)
    assert (compared.parts_at, compared.log.first, compared.log.goes_on) == (end, end, True)
    assert compared.log.a.end == compared.log.b.end
    assert counted(compared) == (own, overwritten)
    aligned = any(one.physical_offset == end_a for one in taken)
    damage = [one.physical_offset for one in compared.troubles[0] if one.length]
    assert damage == ([] if aligned else [end_a])
    assert offsets(compared) == {("late", TOPIC, 1): (9, None)}
