"""The unit that stands in the queue for a bridged record, proven place by place.

The choice is `bridges.chosen`: the next sound unit of the queue, else the one before, else one
for which nothing can be read. What other units do to a queue is in `test_rejected`.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.broker.jvm import Jvm
from tests.repair.broker import bridges
from tests.repair.broker.bridges import SEGMENT, Choice, Queue
from tests.repair.broker.conftest import Processes
from tests.repair.broker.reading import BATCHES, Bounds, OpenStore
from tests.startup.small_store import Outline, inner

pytestmark = pytest.mark.broker

Harm = tuple[str, str]  # case, what
Opener = Callable[[Choice], OpenStore]


@dataclass(frozen=True, slots=True)
class Asked:
    """The queues of all cases, and what the sound store answers to searches by time."""

    queues: Mapping[str, Queue]
    times: Mapping[str, Mapping[int, int]]


@pytest.fixture(scope="module")
def sound(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the store of all cases, nothing lost yet."""
    return bridges.write_store(processes.current(), tmp_path_factory.mktemp("sound"))


@pytest.fixture(scope="module")
def asked(processes: Processes, sound: Path, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Ask the sound store."""
    copy = tmp_path_factory.mktemp("asked") / "store"
    shutil.copytree(sound, copy)
    queues = bridges.queues_of(sound)
    opened = OpenStore(processes.current(), copy)
    times = {topic: found_by_time(opened, topic, queue) for topic, queue in queues.items()}
    opened.close()
    return Asked(queues, times)


@pytest.fixture
def opened_with(jvm: Jvm, sound: Path, asked: Asked, tmp_path: Path) -> Opener:
    """Open a copy of the store with bridges, and units of one kind for them."""

    def open_with(choose: Choice) -> OpenStore:
        root = tmp_path / "store"
        shutil.copytree(sound, root)
        bridges.bridge_store(root, asked.queues, choose)
        return OpenStore(jvm, root)

    return open_with


def found_by_time(opened: OpenStore, topic: str, queue: Queue) -> dict[int, int]:
    """Search for the time of each message of a queue."""
    times = [record.integer("store_timestamp") for record in queue.records]
    return {time_ms: opened.at_time(topic, time_ms) for time_ms in times}


def harms(opened: OpenStore, asked: Asked) -> Counter[Harm]:
    """Count what is wrong with an opened store, by case."""
    if not opened.loads:
        return Counter({("store", "refused"): 1})
    found: Counter[Harm] = Counter()
    if opened.behind:
        found["dispatch", f"ends {opened.behind} bytes before the log"] += 1
    for path in opened.deleted:
        found["file", f"deleted: {path}"] += 1
    for topic, queue in asked.queues.items():
        whats = [*by_bounds(opened, topic, queue), *by_counting(opened, topic, queue)]
        whats += by_pulls(opened, topic, queue)
        whats += by_time(opened, topic, queue, asked.times[topic])
        whats += by_expiry(opened, topic, queue)
        found.update((topic, what) for what in whats)
    return found


def by_bounds(opened: OpenStore, topic: str, queue: Queue) -> Iterator[str]:
    """Compare the bounds of a queue."""
    if opened.bounds(topic) != Bounds(0, len(queue.records)):
        yield "bounds changed"


def by_pulls(opened: OpenStore, topic: str, queue: Queue) -> Iterator[str]:
    """Pull with batches of several sizes, from the beginning and from around each lost record."""
    near = {start + shift for start in queue.lost for shift in (-1, 0)}
    starts = sorted({0} | {start for start in near if 0 <= start < len(queue.records)})
    for start in starts:
        for batch in BATCHES:
            yield from by_pull(queue, start, [*reached(opened, topic, queue, start, batch)])


def by_pull(queue: Queue, start: int, got: list[int]) -> Iterator[str]:
    """Compare what pulls gave with the sound records from there on."""
    expected = [i for i in range(start, len(queue.records)) if i not in queue.lost]
    if {*expected} - {*got}:
        yield "pull loses"
    if any(number in queue.lost for number in got):
        yield "pull delivers a bridge"
    if -1 in got:
        yield "pull delivers nothing as something"
    if got != sorted(got):
        yield "pull out of order"
    if len(got) > len({*got}):
        yield "pull delivers twice"


def by_counting(opened: OpenStore, topic: str, queue: Queue) -> Iterator[str]:
    """Read as a consumer that takes the offset after that of the last message, one at a time."""
    position, sound = 0, [i for i in range(len(queue.records)) if i not in queue.lost]
    while sound and position <= sound[-1]:
        got = next(reached(opened, topic, queue, position, 1, most=1), -1)
        if got + 1 <= position:
            yield "counting consumer stays where it is"
            return
        position = got + 1


def by_time(
    opened: OpenStore, topic: str, queue: Queue, expected: Mapping[int, int]
) -> Iterator[str]:
    """Compare searches with those of the sound store."""
    for time_ms, was in expected.items():
        is_now = opened.at_time(topic, time_ms)
        if is_now < 0:
            yield "search by time fails"
        elif {*range(was, is_now)} - {*queue.lost} - {*reached(opened, topic, queue, is_now)}:
            yield "search by time comes too late"
        elif is_now < was - len(queue.lost):
            yield "search by time comes too early"


def reached(
    opened: OpenStore,
    topic: str,
    queue: Queue,
    start: int,
    batch: int = BATCHES[-1],
    most: int | None = None,
) -> Iterator[int]:
    """Yield the numbers of the records that pulls from a queue offset on deliver."""
    numbers = {record.physical_offset: i for i, record in enumerate(queue.records)}
    for physical_offset in opened.pulled(topic, start, batch, most):
        yield numbers.get(physical_offset, -1)


def by_expiry(opened: OpenStore, topic: str, queue: Queue) -> Iterator[str]:
    """Let segments expire one by one: what the rest of the log holds stays in the queue."""
    last = queue.records[-1].physical_offset
    log_starts = range(SEGMENT, last + 1, SEGMENT)
    at_once = [opened.minimum_at_once(topic, start) for start in log_starts]
    in_turn = opened.minimum_after(topic, log_starts)
    for minima in (at_once, in_turn):
        for start, minimum in zip(log_starts, minima, strict=True):
            left = [i for i, record in enumerate(queue.records) if record.physical_offset >= start]
            if {*left} - {*queue.lost} - {*range(minimum, len(queue.records))}:
                yield "expiry loses"


def test_chosen(opened_with: Opener, asked: Asked) -> None:
    """Nothing is lost and no bridge delivered, however a queue is read, now and after expiry.

    A neighbour comes twice, except for a queue that has lost all it had.
    """
    opened = opened_with(bridges.chosen)
    found = harms(opened, asked)
    opened.close()
    twice = {topic for topic, queue in asked.queues.items() if len(queue.lost) < len(queue.records)}
    assert {(topic, "pull delivers twice") for topic in twice} == {*found}


def test_goes_on(jvm: Jvm, opened_with: Opener, asked: Asked, tmp_path: Path) -> None:
    """New messages get the next queue offsets and are delivered, also after another start."""
    opened = opened_with(bridges.chosen)
    for topic, queue in asked.queues.items():
        put(jvm, opened, topic, len(queue.records))
    opened.close()
    again = OpenStore(jvm, tmp_path / "store")
    assert (0, []) == (again.behind, again.deleted)
    for topic, queue in asked.queues.items():
        last = again.pulled(topic, 0, 32)[-1]
        assert last > queue.records[-1].physical_offset, topic
        assert [last] == again.pulled(topic, len(queue.records), 1), topic
        put(jvm, again, topic, len(queue.records) + 1)
    again.close()


def put(jvm: Jvm, opened: OpenStore, topic: str, queue_offset: int) -> None:
    """Put a message, and assert that it gets this queue offset."""
    outline = Outline(topic, 0, b"new", {"UNIQ_KEY": f"7F{queue_offset:030X}"})
    result = opened.store.putMessage(inner(jvm, outline))
    assert queue_offset == result.getAppendMessageResult().getLogicsOffset()


_EARLY: Final = "search by time comes too early"
_LATE: Final = "search by time comes too late"
_LOST: Final = "pull loses"
_EXPIRED: Final = "expiry loses"
_STUCK: Final = "counting consumer stays where it is"
REJECTED: Final[dict[str, tuple[Choice, set[str], set[str]]]] = {
    "skip": (bridges.skip, {_EARLY, _EXPIRED}, {_LATE}),
    "left": (bridges.left, {"pull delivers a bridge"}, set()),
    "before": (bridges.before, {_STUCK}, set()),
    "pre-blank": (bridges.pre_blank, {_EARLY, _LOST, _EXPIRED}, {_LATE}),
    "empty": (bridges.empty, {"pull delivers nothing as something", _LOST}, set()),
}
"""What else could stand for a lost record: what that does in all releases, and what in 5.x, too."""


@pytest.mark.all_variants
@pytest.mark.parametrize("unit", REJECTED)
def test_rejected(opened_with: Opener, asked: Asked, unit: str) -> None:
    """Other units lose messages, lead consumers astray, or keep the store from being loaded."""
    choose, always, in_five = REJECTED[unit]
    opened = opened_with(choose)
    found = {what for _, what in harms(opened, asked)}
    opened.close()
    expected = always | in_five if opened.is_five else always
    assert expected <= found or found == {"refused"}


@pytest.mark.all_variants
def test_pre_blank_at_the_end_hides_new_messages(opened_with: Opener) -> None:
    """Dispatch of 4.9.x goes on at the end of the largest last unit: two GiB ahead."""
    opened = opened_with(bridges.pre_blank)
    behind = opened.behind
    opened.close()
    assert opened.is_five or behind < -(2**30)
