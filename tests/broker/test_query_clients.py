"""Real clients agree: over the network a broker gives what lookups find in the same store.

In each run some records of the ordinary traffic of every version, with `--all-variants` all
records of every fixture. A broker
that starts appends to the log (overdue deliveries, transactions that it asks about): what lies
behind the end of the fixture's own log is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.formats import inner_batch
from rmqtool.formats.compression import decompress
from rmqtool.formats.message import Message
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.query import Boundary, ById, ByKey, ByQueueOffset, Lookup
from rmqtool.query.answer import Hit
from rmqtool.query.consume_queue import Queue
from rmqtool.query.log import LogRecord
from rmqtool.query.match import SUPERFICIAL
from rmqtool.query.queue_times import BrokerSearch
from rmqtool.queues.files import PlainUnits
from rmqtool.store.tree import open_store
from tests.broker.bare_store import YEARS_IN_HOURS
from tests.broker.broker import Broker, running_broker
from tests.broker.client import Admin
from tests.broker.consumer import PullConsumer
from tests.broker.message import Received
from tests.query.expected import offsets
from tests.stores import broker_conf, fixture_names, fixture_store, manifest
from tests.truth.fixture import Fixture
from tests.truth.plain_reader import Record

pytestmark = pytest.mark.broker

MOST = 64  # messages in one answer to a query: the broker's own bound, newest first
TIMES = 200
SOME_QUEUES = 8
SOME = 7  # of so many records or keys a client asks for one


@dataclass
class Sides:
    """A running broker with clients, and lookups in a copy of its store."""

    fixture: Fixture
    lookup: Lookup
    broker: Broker
    admin: Admin
    consumer: PullConsumer
    step: int

    def some(self, names: set[tuple[str, str]]) -> list[tuple[str, str]]:
        """Leave out empty names, and in a sample others."""
        return sorted((topic, name) for topic, name in names if name)[:: self.step]

    @property
    def records(self) -> list[Record]:
        """The records that clients may ask for: of light topics they are not told."""
        topics = {record.topic for record in self.fixture.records}
        known = {topic for topic in topics if self.broker.names.knows(topic)}
        return [record for record in self.fixture.records if record.topic in known]

    @property
    def queues(self) -> list[Queue]:
        """The queues that clients may ask for."""
        topics = sorted({record.topic for record in self.records})
        return [queue for topic in topics for queue in self.lookup.queues_of(topic)]

    def own(self, found: Iterable[int]) -> list[int]:
        """Leave out what the broker has appended since."""
        return sorted({offset for offset in found if offset < self.lookup.log.end})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the fixtures."""
    scenario = None if metafunc.config.getoption("--all-variants") else "traffic"
    names = fixture_names(scenario=scenario)
    metafunc.parametrize("sides", names, indirect=True, scope="module")


@pytest.fixture(scope="module")
def sides(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sides]:
    """Start a broker on a copy of a fixture."""
    name = request.param
    fixture = Fixture(name, fixture_store(name, tmp_path_factory.mktemp("ours")))
    theirs = tmp_path_factory.mktemp("theirs")
    fixture_store(name, theirs)
    settings = {**fixture.settings, "fileReservedTime": YEARS_IN_HOURS}
    version = manifest(name)["version"]
    with (
        Lookup(open_store(fixture.store, broker_conf(name))) as lookup,
        running_broker(version, theirs, settings, ipv6=name.endswith("ipv6")) as broker,
    ):
        broker.wait_dispatched()
        with Admin(broker) as admin, PullConsumer(broker, "agreement") as consumer:
            step = 1 if request.config.getoption("--all-variants") else SOME
            yield Sides(fixture, lookup, broker, admin, consumer, step)
        broker.crash()


def test_offset_ids(sides: Sides) -> None:
    """`viewMessage` of a record's offset is the record that its offset message ID names."""
    for record in sides.records[:: sides.step]:
        theirs = sides.admin.view(record.topic, record.physical_offset)
        ours = sides.lookup.log.record_at(record.physical_offset)
        assert isinstance(ours, LogRecord)
        answer = sides.lookup.find(ById(ours.message.message_id))
        assert [record.physical_offset] == offsets(answer)
        assert_same(theirs, answer.hits[0])


def test_unique_keys(sides: Sides) -> None:
    """By a unique key a client gets what a lookup finds; one of 4.9 the first stored of these."""
    names = {(record.topic, record.properties.get("UNIQ_KEY", "")) for record in sides.records}
    for topic, unique_key in sides.some(names):
        answer = sides.lookup.find(ByKey(unique_key, (topic,)))
        found = [hit.record for hit in answer.hits if hit.record.message.unique_key == unique_key]
        asked = sides.admin.query_unique(topic, unique_key)
        theirs = sides.own(one.physical_offset for one in asked)
        assert found, (topic, unique_key)
        if sides.broker.jvm.is_five:
            assert theirs == [record.physical_offset for record in found], (topic, unique_key)
        else:
            first = min(record.message.store_timestamp for record in found)
            earliest = {
                record.physical_offset
                for record in found
                if record.message.store_timestamp == first
            }
            assert len(theirs) == 1, (topic, unique_key)
            assert earliest.issuperset(theirs), (topic, unique_key)


def test_keys(sides: Sides) -> None:
    """`queryMessage` gives the messages that a lookup finds: all of them, and none more."""
    names = {
        (record.topic, key)
        for record in sides.records
        for key in record.properties.get("KEYS", "").split(" ")
    }
    assert names
    for topic, key in sides.some(names):
        answer = sides.lookup.find(ByKey(key, (topic,)))
        ours = [hit for hit in answer.hits if hit.how not in SUPERFICIAL]
        known = [hit.record.physical_offset for hit in ours if key in hit.record.message.keys]
        asked = [hit for hit in sides.admin.query(topic, key, MOST) if hit.topic == topic]
        theirs = sides.own(hit.physical_offset for hit in asked)
        expected = known if len(asked) < MOST else known[-len(theirs) :]
        assert expected == theirs, (topic, key)
        # A broker has more under the same key only where it is a unique key.
        assert all(hit.record.message.unique_key == key for hit in ours if key not in
                   hit.record.message.keys)  # fmt: skip


def test_pull(sides: Sides) -> None:
    """Pulling each queue from its start gives the message that a lookup finds at each offset."""
    for queue in sides.queues:
        topic, queue_id = queue.units.topic, queue.units.queue_id
        pulled = [*sides.consumer.read(topic, queue_id)]
        theirs = {one.queue_offset: one for one in pulled if sides.own([one.physical_offset])}
        ours = {}
        for queue_offset in range(queue.span.min_offset, queue.span.max_offset):
            answer = sides.lookup.find(ByQueueOffset(topic, queue_id, queue_offset))
            if answer.hits:
                ours[queue_offset] = answer.hits[0]
        assert sorted(theirs) == sorted(ours), (topic, queue_id)
        for queue_offset, message in theirs.items():
            assert_same(message, ours[queue_offset])
        assert all(one.queue_offset < two.queue_offset for one, two in pairwise(pulled))


def assert_same(theirs: Received, ours: Hit) -> None:
    """Assert that a client's message is a record: its place, its properties, its body."""
    message: Message = ours.record.message
    assert theirs.physical_offset == ours.record.physical_offset
    assert theirs.topic == message.topic
    assert theirs.queue_id == message.queue_id
    if message.sys_flag & SysFlag.INNER_BATCH_FLAG and not theirs.size:  # one that was in a batch
        members = [*inner_batch.messages(message.body)]
        number = theirs.queue_offset - int(message.properties["INNER_BASE"])
        assert theirs.body == members[number].body
        return
    assert theirs.size == message.size
    assert theirs.queue_offset == message.queue_offset
    assert theirs.body == decompress(message.body, message.sys_flag).body
    assert message.properties.items() <= theirs.properties.items()


def test_search_offset(sides: Sides, pytestconfig: pytest.Config) -> None:
    """`searchOffset` is what `--like-broker` says, at random times and at a queue's edges."""
    release = Rules(Version.parse(manifest(sides.fixture.name)["version"]))
    plain = [queue.units for queue in sides.queues if isinstance(queue.units, PlainUnits)]
    few = 1 if pytestconfig.getoption("--all-variants") else len(plain) // SOME_QUEUES
    for queue in plain[:: max(few, 1)]:
        topic, queue_id = queue.topic, queue.queue_id
        search = BrokerSearch(sides.lookup.log, queue, release)
        if sides.admin.offsets(topic, queue_id)[1] != search.max_offset:
            continue  # the broker has appended to it
        for time in times(sides, topic, queue_id):
            theirs = sides.admin.search_offset(topic, queue_id, time)
            assert theirs == search.find(time, Boundary.LOWER), (topic, queue_id, time)


def times(sides: Sides, topic: str, queue_id: int) -> list[int]:
    """Give random times around and between those of a queue, and the exact ones at its edges."""
    stored = [
        int(record.fields["store_timestamp"])
        for record in sides.records
        if (record.topic, record.fields["queue_id"]) == (topic, queue_id)
    ] or [1]
    chance = np.random.default_rng(len(topic) + queue_id)
    low, high = min(stored), max(stored)
    half = TIMES // 2
    around = chance.choice(stored, half) + chance.integers(-1, 2, half)
    between = chance.integers(low, high, half, endpoint=True)
    edges = {0, low - 1, low, low + 1, high - 1, high, high + 1, 2**53}
    return sorted(edges | {*around.tolist()} | {*between.tolist()})
