"""The rules of dispatch, one by one, over records made for it."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rmqtool.broker.conf import DELAY_LEVELS
from rmqtool.broker.dispatch import DispatchRules, parse_delay_levels
from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.derive.part import DeriveOptions, derive
from rmqtool.formats import java
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT, QueueKind
from rmqtool.formats.message import Message, SysFlag
from rmqtool.scan.batch import ScanOptions
from tests.scan.segments import MESSAGE, placed, segment_bytes, whole, written

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.derive.runs import Runs

RULES = DispatchRules(Rules(Version(5, 3, 3)), parse_delay_levels(DELAY_LEVELS.default))
DELAYED = MESSAGE._replace(topic_bytes=b"SCHEDULE_TOPIC_XXXX")
INNER = SysFlag.NEED_UNWRAP_FLAG | SysFlag.INNER_BATCH_FLAG


def runs_of(
    directory: Path, messages: list[Message], rules: DispatchRules = RULES, run_units: int = 0
) -> Runs:
    """Derive the runs of some messages, in one window and in many, and send them on a journey."""
    segment = written(directory, segment_bytes(messages, size=1 << 18))
    small = ScanOptions(window_bytes=1 << 10, batch_rows=3)
    options = DeriveOptions(rules, run_units=run_units)
    runs = derive(whole(segment), options)
    again: Runs = pickle.loads(  # noqa: S301 - our own bytes
        pickle.dumps(derive(whole(segment), replace(options, scan=small)))
    )
    assert values(runs) == values(again)
    return again


def values(runs: Runs) -> list[object]:
    """Give all that runs hold, to be compared."""
    queues = [
        (run.topic, run.queue_id, run.queue_offset, bytes(run.units), run.store_timestamp)
        for run in (*runs.queues, *runs.batch_queues)
    ]
    index = [
        array.tolist()
        for array in (
            runs.index.hashes, runs.index.physical_offsets, runs.index.store_timestamps
        )
    ]  # fmt: skip
    return [queues, index, runs.stretches, runs.undispatched, runs.first, runs.end, runs.records]


def units(runs: Runs) -> list[tuple[bytes, int, int, int, int]]:
    """Give topic, queue id, queue offset, physical offset and tags code of each unit."""
    found = []
    for run in (*runs.queues, *runs.batch_queues):
        layout = CQ_UNIT if run.kind is QueueKind.CONSUME_QUEUE else BATCH_CQ_UNIT
        for number in range(run.count):
            values = layout.parse(bytes(run.units[number * layout.size :][: layout.size]))
            at = values.get("msg_base_offset", run.queue_offset + number)
            found.append(
                (run.topic, run.queue_id, at, values["physical_offset"], values["tags_code"])
            )
    return found


def properties(**values: str) -> bytes:
    """Write properties."""
    return b"".join(f"{name}\x01{value}\x02".encode() for name, value in values.items())


def test_units_of_two_queues(tmp_path: Path) -> None:
    """Units are sorted by queue, in log order within each, and cut where offsets do not go on."""
    offsets = [(0, 5), (1, 0), (0, 6), (1, 1), (0, 8), (1, 1), (0, 9)]
    drawn = [MESSAGE._replace(queue_id=queue, queue_offset=at) for queue, at in offsets]
    runs = runs_of(tmp_path, drawn)
    starts = [message.physical_offset for message in placed(drawn)]
    assert [(0, 5, 2), (0, 8, 2), (1, 0, 2), (1, 1, 1)] == [
        (run.queue_id, run.queue_offset, run.count) for run in runs.queues
    ]
    assert [starts[number] for number in (0, 2, 4, 6, 1, 3, 5)] == [unit[3] for unit in units(runs)]


def test_runs_end_with_their_file(tmp_path: Path) -> None:
    """No run reaches over the end of a queue file; each knows its last store time."""
    drawn = [MESSAGE._replace(queue_offset=8 + n, store_timestamp=n) for n in range(10)]
    runs = runs_of(tmp_path, drawn, run_units=5)
    assert [(8, 2, 1), (10, 5, 6), (15, 3, 9)] == [
        (run.queue_offset, run.count, run.store_timestamp) for run in runs.queues
    ]


@pytest.mark.parametrize(
    ("flags", "queued", "indexed"),
    [
        (SysFlag.TRANSACTION_NOT_TYPE, 1, 1),
        (SysFlag.TRANSACTION_PREPARED_TYPE, 0, 1),
        (SysFlag.TRANSACTION_COMMIT_TYPE, 1, 1),
        (SysFlag.TRANSACTION_ROLLBACK_TYPE, 0, 0),
    ],
)
def test_transactions(flags: int, queued: int, indexed: int, tmp_path: Path) -> None:
    """What is not committed reaches no queue, what was rolled back no index."""
    runs = runs_of(tmp_path, [MESSAGE._replace(sys_flag=flags)])
    assert (queued, indexed) == (len(units(runs)), len(runs.index))


@pytest.mark.parametrize(
    ("level", "code"),
    [("3", 10_000), ("18", 7_200_000), ("99", 7_200_000), ("+1", 1000), ("0", None), ("-2", None)],
)
def test_delay(level: str, code: int | None, tmp_path: Path) -> None:
    """A delayed message has its deliver time as tags code; levels are capped."""
    message = DELAYED._replace(properties_bytes=properties(DELAY=level, TAGS="TagA"))
    expected = java.string_hash("TagA") if code is None else MESSAGE.store_timestamp + code
    assert [expected] == [unit[4] for unit in units(runs_of(tmp_path, [message]))]
    delivered = message._replace(topic_bytes=b"real")
    found = units(runs_of(tmp_path, [delivered]))
    assert [java.string_hash("TagA")] == [unit[4] for unit in found]


def test_no_number(tmp_path: Path) -> None:
    """A delay that is no number: the record reaches neither queue nor index."""
    bad = DELAYED._replace(properties_bytes=properties(DELAY="soon", KEYS="k"))
    runs = runs_of(tmp_path, [MESSAGE, bad, MESSAGE])
    starts = [message.physical_offset for message in placed([MESSAGE, bad, MESSAGE])]
    assert (starts[1],) == runs.undispatched
    assert [starts[0], starts[2]] == [unit[3] for unit in units(runs)]
    assert [starts[0], starts[2]] == runs.index.physical_offsets.tolist()
    harmless = bad._replace(topic_bytes=b"real")
    assert () == runs_of(tmp_path, [harmless]).undispatched


@pytest.mark.parametrize("batch_topics", [None, ["TopicTest"], ["other"]])
@pytest.mark.parametrize("version", ["4.9.3", "5.3.3"])
def test_batch_queues(version: str, batch_topics: list[str] | None, tmp_path: Path) -> None:
    """Records of a batch topic go to its batch queue, those in no batch as a batch of one."""
    drawn = [
        MESSAGE._replace(
            queue_offset=10,
            sys_flag=INNER,
            properties_bytes=properties(INNER_NUM="3", INNER_BASE="10"),
        ),
        MESSAGE._replace(queue_offset=13),
    ]
    rules = DispatchRules(
        Rules(Version.parse(version)),
        batch_topics=None if batch_topics is None else frozenset(batch_topics),
    )
    runs = runs_of(tmp_path, drawn, rules)
    batched = [
        BATCH_CQ_UNIT.parse(bytes(run.units[at : at + 46]))
        for run in runs.batch_queues
        for at in range(0, len(run.units), 46)
    ]
    sizes = [(unit["msg_base_offset"], unit["batch_size"]) for unit in batched]
    if version == "4.9.3" or batch_topics == ["other"]:
        assert [] == sizes
    else:
        assert ([(10, 3), (13, 1)] if batch_topics else [(10, 3)]) == sizes
    assert 2 == len(units(runs))
    if batched:
        message = placed(drawn)[0]
        assert {
            "physical_offset": 0, "size": message.size, "tags_code": 0,
            "store_timestamp": message.store_timestamp, "msg_base_offset": 10, "batch_size": 3,
            "compacted_offset": -1, "reserved": 0,
        } == batched[0]  # fmt: skip


def lmq(names: str, offsets: str, topic: str = "parent") -> Message:
    """Make a message that goes to further queues."""
    dispatch = properties(INNER_MULTI_DISPATCH=names, INNER_MULTI_QUEUE_OFFSET=offsets)
    return MESSAGE._replace(
        topic_bytes=topic.encode(), queue_id=4, properties_bytes=dispatch + b"TAGS\x01t"
    )


@pytest.mark.parametrize(
    ("names", "offsets", "expected"),
    [
        ("%LMQ%a,b", "7,8", [(b"%LMQ%a", 0, 7), (b"b", 4, 8)]),
        ("%LMQ%a", "1,2", []),
        ("%LMQ%a,%LMQ%b", "1", []),
        ("%LMQ%a,%LMQ%b", "x,2", []),
        ("%LMQ%a,%LMQ%b", "1,", []),
        ("%LMQ%a,,", "1", [(b"%LMQ%a", 0, 1)]),
        ("a/b,%LMQ%温度", "1,2", [("%LMQ%温度".encode(), 0, 2)]),
        (" ", " ", []),
    ],
)
def test_multi_dispatch(
    names: str, offsets: str, expected: list[tuple[bytes, int, int]], tmp_path: Path
) -> None:
    """Further queues get units with the plain tags code, if the broker is set so."""
    rules = RULES._replace(multi_dispatch=True, lmq=True)
    found = units(runs_of(tmp_path, [MESSAGE, lmq(names, offsets)], rules))
    assert expected == [unit[:3] for unit in found[2:]]
    assert all(unit[3:] == (found[1][3], java.string_hash("t")) for unit in found[2:])
    assert 2 == len(units(runs_of(tmp_path, [MESSAGE, lmq(names, offsets)])))


def test_many_queues(tmp_path: Path) -> None:
    """More queues than there is room for at first."""
    drawn = [MESSAGE._replace(queue_id=number) for number in (*range(1200), -1)]
    found = units(runs_of(tmp_path, drawn))
    assert [*range(1200), -1] == [unit[1] for unit in found]


def test_facts_of_a_part(tmp_path: Path) -> None:
    """A part says where it begins and ends, what is no record, and what its last record is."""
    runs = runs_of(tmp_path, [MESSAGE, MESSAGE._replace(store_timestamp=9)])
    size = placed([MESSAGE])[0].size
    assert (0, 1 << 18, 2, size, 9) == (
        runs.first, runs.end, runs.records, runs.last_physical_offset, runs.last_store_timestamp
    )  # fmt: skip
    assert [("filler", 2 * size)] == [
        (stretch.kind, stretch.position) for stretch in runs.stretches
    ]
