"""Where records go: the reference, and that kernels and a starting broker agree with it.

What the reference says is compared with real message stores in `test_dispatch_oracle`.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqtool.broker.conf import DELAY_LEVELS
from rmqtool.broker.dispatch import (
    DispatchRules,
    DispatchThrows,
    index_keys,
    light_queue_texts,
    parse_delay_levels,
)
from rmqtool.broker.release import RELEASES, Version
from rmqtool.broker.rules import Rules
from rmqtool.derive.part import DeriveOptions, derive
from rmqtool.formats import java
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT, QueueKind
from rmqtool.formats.message import Message, SysFlag
from rmqtool.formats.properties import (
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
)
from rmqtool.startup.files import FileQueue, ModelFile
from rmqtool.startup.indexes import ModelIndex
from rmqtool.startup.load import Loader
from rmqtool.startup.model import DispatchFails, Model
from rmqtool.startup.records import RecordCheck
from rmqtool.startup.settings import Settings
from rmqtool.startup.walk import Block, Walk
from tests.broker.hostile import hostile_messages
from tests.scan.segments import placed, segment_bytes, whole, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.derive.runs import Runs
    from rmqtool.startup.records import DispatchRequest

ON_MAVEN_CENTRAL = [release for release in RELEASES if release >= Version(4, 9, 3)]
DELAYS = parse_delay_levels(DELAY_LEVELS.default)
SEGMENT_LENGTH = 1 << 16


class Unit(NamedTuple):
    """One unit, and where it belongs."""

    topic: str
    queue_id: int
    queue_offset: int
    batch_size: int | None
    physical_offset: int
    tags_code: int


class Dispatch(NamedTuple):
    """What came of some records."""

    units: list[Unit]
    entries: list[tuple[int, int]]
    refused: list[int]


def by_reference(rules: DispatchRules, messages: Sequence[Message]) -> Dispatch:
    """Dispatch one record after the other, as `broker.dispatch` says."""
    dispatch = Dispatch([], [], [])
    for message in messages:
        at = message.physical_offset
        if rules.is_refused(message.topic, message.properties):
            dispatch.refused.append(at)
            continue
        with suppress(DispatchThrows):
            for place in rules.places(message):
                dispatch.units.append(Unit(*place, at, rules.tags_code(message)))
        keys = index_keys(rules.release, message)
        dispatch.entries.extend((java.key_hash(message.topic, key), at) for key in keys)
    return dispatch._replace(units=sorted(dispatch.units, key=repr))


def by_kernels(runs: Runs) -> Dispatch:
    """Read what was derived."""
    units = []
    for run in (*runs.queues, *runs.batch_queues):
        is_batch = run.kind is QueueKind.BATCH_QUEUE
        layout = BATCH_CQ_UNIT if is_batch else CQ_UNIT
        for number in range(run.count):
            unit = layout.parse(bytes(run.units[number * layout.size :][: layout.size]))
            place = run.topic.decode("utf-8", "replace"), run.queue_id
            offset = unit["msg_base_offset"] if is_batch else run.queue_offset + number
            size = unit["batch_size"] if is_batch else None
            units.append(Unit(*place, offset, size, unit["physical_offset"], unit["tags_code"]))
    hashes, offsets = runs.index.hashes.tolist(), runs.index.physical_offsets.tolist()
    index = list(zip(hashes, offsets, strict=True))
    return Dispatch(sorted(units, key=repr), index, list(runs.undispatched))


class Taken(NamedTuple):
    """A queue that only says what it was given."""

    queue: tuple[str, int]
    units: list[Unit]
    is_batch: bool = False
    extension: None = None

    def put(self, record: DispatchRequest, queue_offset: int, tags_or_size: int) -> None:
        """Take one unit: the tags code of an ordinary one, the size of a batch."""
        size = tags_or_size if self.is_batch else None
        self.units.append(Unit(*self.queue, queue_offset, size, record.physical_offset, 0))

    def put_many(self, offsets: Sequence[int], _: object, queue_offsets: Sequence[int]) -> None:
        """Take many units."""
        for at, queue_offset in zip(offsets, queue_offsets, strict=True):
            self.units.append(Unit(*self.queue, int(queue_offset), None, int(at), 0))


class Listening(Model):
    """A starting broker whose queues only say what they were given."""

    taken: list[Unit]

    def _consume_queue(self, topic: str, queue_id: int) -> Taken:  # type: ignore[override]
        return Taken((topic, queue_id), self.taken)

    def _batch_queue(self, topic: str, queue_id: int) -> Taken:  # type: ignore[override]
        return Taken((topic, queue_id), self.taken, is_batch=True)


def listening(rules: DispatchRules) -> Listening:
    """Give a broker that has not begun."""
    settings = Settings()
    model = Listening(
        rules=rules.release,
        settings=settings,
        loader=Loader(rules.release),
        stopped_cleanly=True,
        checkpoint={},
        commitlog=FileQueue("commitlog", SEGMENT_LENGTH),
        index=ModelIndex(rules.release, settings, 1 << 20),
        queue_length=6000,
        batch_length=6000,
        dispatch_rules=rules,
    )
    model.taken = []
    return model


def by_startup(rules: DispatchRules, file: ModelFile, messages: Sequence[Message]) -> Dispatch:
    """Check and dispatch each record as a starting broker does; tags codes are not modelled."""
    model, refused = listening(rules), []
    check = RecordCheck(rules.release, model.settings)
    with file.open() as reader:
        for message in messages:
            found = check.check(reader, message.physical_offset, file.length).record
            if found is None:
                refused.append(message.physical_offset)
                continue
            with suppress(DispatchFails):
                model.dispatch(found)
    return Dispatch(sorted(model.taken, key=repr), [(0, 0)] * model.index.added, refused)


def in_blocks(rules: DispatchRules, file: ModelFile) -> Dispatch:
    """Do the same by kernels, up to the first record that is refused, or at which Java throws."""
    model = listening(rules)
    walk = Walk(RecordCheck(rules.release, model.settings), by_kernels=True)
    with file.open() as reader, suppress(DispatchFails):
        for step in walk.steps(file, reader, 0, reads_body=False):
            if isinstance(step, Block):
                model.dispatch_block(step, step.positions >= 0)
            elif step.record is not None:
                model.dispatch(step.record)
    return Dispatch(sorted(model.taken, key=repr), [(0, 0)] * model.index.added, [])


@st.composite
def all_rules(draw: st.DrawFn) -> DispatchRules:
    """Draw a release and a configuration."""
    return DispatchRules(
        Rules(draw(st.sampled_from(ON_MAVEN_CENTRAL))),
        draw(st.sampled_from([DELAYS, (), (-1, 1000)])),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from([None, frozenset(["batch"]), frozenset[str]()])),
    )


def without_codes(units: list[Unit]) -> list[Unit]:
    """Give units whose tags codes do not matter."""
    return sorted((unit._replace(tags_code=0) for unit in units), key=repr)


@pytest.mark.parametrize("release", ON_MAVEN_CENTRAL, ids=str)
@settings(max_examples=2 * settings().max_examples)
@given(data=st.data())
def test_all_agree(release: Version, data: st.DataObject) -> None:
    """Kernels, a starting broker and the reference send hostile records to the same places."""
    rules = data.draw(all_rules())
    rules = DispatchRules(Rules(release), *rules[1:])
    drawn = data.draw(st.lists(hostile_messages(rules), min_size=1, max_size=6))
    messages = placed(drawn)
    expected = by_reference(rules, messages)
    with tempfile.TemporaryDirectory() as directory:
        segment = written(Path(directory), segment_bytes(drawn, size=SEGMENT_LENGTH))
        assert expected == by_kernels(derive(whole(segment), DeriveOptions(rules)))
        if rules.batch_topics is None:  # a broker always knows
            return
        file = ModelFile(segment.path, 0, SEGMENT_LENGTH, segment.place, SEGMENT_LENGTH)
        dispatch = by_startup(rules, file, messages)
        plain = without_codes(expected.units)
        assert (plain, expected.refused) == (dispatch.units, dispatch.refused)
        if throws(rules, messages):
            return
        assert len(expected.entries) == len(dispatch.entries)
        if not expected.refused:
            blocks = in_blocks(rules, file)
            assert (plain, len(expected.entries)) == (blocks.units, len(blocks.entries))


def throws(rules: DispatchRules, messages: Sequence[Message]) -> bool:
    """Tell whether dispatch gets stuck at one of some records: then it has no index entry."""
    for message in messages:
        try:
            list(rules.places(message))
        except DispatchThrows:
            return True
    return False


WITH_LIGHT_QUEUES = {  # topic: the first release whose records go to no light queue
    "%RETRY%g": Version(5, 1, 1),
    "SCHEDULE_TOPIC_XXXX": Version(5, 1, 2),
    "rmq_sys_wheel_timer": Version(5, 1, 2),
    "rmq_sys_other": Version(5, 2, 0),
    "%DLQ%g": None,
    "orders": None,
}


@pytest.mark.parametrize("topic", WITH_LIGHT_QUEUES)
def test_topics_without_light_queues(topic: str) -> None:
    """Each release leaves out more topics than the one before."""
    first = WITH_LIGHT_QUEUES[topic]
    having = [
        release
        for release in ON_MAVEN_CENTRAL
        if DispatchRules(Rules(release), multi_dispatch=True).multi_dispatches(topic)
    ]
    assert having == [version for version in ON_MAVEN_CENTRAL if first is None or version < first]
    rules = [DispatchRules(Rules(release)) for release in ON_MAVEN_CENTRAL]
    assert not any(rule.multi_dispatches(topic) for rule in rules)


@pytest.mark.parametrize(
    ("topics", "offsets", "expected"),
    [
        ("a,b", "1,2", (["a", "b"], ["1", "2"])),
        ("a,", "1", (["a"], ["1"])),
        ("a,", "1,,", (["a"], ["1"])),
        (",a", "1", (["", "a"], ["1"])),
        (",", "1", ([], ["1"])),
        ("a", "\u3000", ([], [])),
        ("a", "\u00a0", (["a"], ["\u00a0"])),
        (" ", "1", ([], [])),
    ],
)
def test_cut_like_java(topics: str, offsets: str, expected: tuple[list[str], list[str]]) -> None:
    """Empty texts at the end vanish; what is blank, Java says."""
    values = {INNER_MULTI_DISPATCH: topics, INNER_MULTI_QUEUE_OFFSET: offsets}
    assert expected == light_queue_texts(values)


def test_one_unit_a_queue() -> None:
    """A queue takes no record twice, whatever the names say."""
    values = b"INNER_MULTI_DISPATCH\x01a,a,T\x02INNER_MULTI_QUEUE_OFFSET\x011,2,3\x02"
    message = Message(topic_bytes=b"T", queue_id=4, queue_offset=9, properties_bytes=values)
    rules = DispatchRules(Rules(Version(5, 3, 3)), multi_dispatch=True)
    assert [("T", 4, 9), ("a", 4, 1)] == [place[:3] for place in rules.places(message)]


@pytest.mark.parametrize("release", ON_MAVEN_CENTRAL, ids=str)
def test_without_properties(release: Version) -> None:
    """4.9.3 alone does not get past a record without properties when it dispatches to many."""
    rules = DispatchRules(Rules(release), multi_dispatch=True)
    assert throws(rules, [Message(topic_bytes=b"T")]) is (release == Version(4, 9, 3))
    half = Message(topic_bytes=b"T", sys_flag=SysFlag.TRANSACTION_PREPARED_TYPE)
    assert not throws(rules, [half])


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ("1s 5m", (1000, 300_000)),
        ("1d", (86_400_000,)),
        ("1s 5x 3s", (1000, 1000)),
        ("1s s", (1000, 1000)),
        ("1s  3s", (1000,)),
        ("-2s", (-2000,)),
        ("", ()),
        (" 1s", ()),
    ],
)
def test_delay_levels(levels: str, expected: tuple[int, ...]) -> None:
    """Java stops at the first text that is no delay, and what it has by then counts."""
    assert expected == parse_delay_levels(levels)
    assert (1000, 7_200_000, 18) == (DELAYS[0], DELAYS[-1], len(DELAYS))
