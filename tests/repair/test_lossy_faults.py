"""What repairs once lost, delivered wrongly or did not settle: judged by the bytes they leave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqtool import repair
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests import plain_store
from tests.repair.broker.survivors import QueueKey, Truth
from tests.repair.fault import Fault
from tests.repair.lossy_faults import FAULTS
from tests.repair.repaired import Broken
from tests.stores import broker_conf, fixture_store


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_repaired(fault: Fault, tmp_path: Path) -> None:
    """Each undamaged message has its unit, no unit has a foreign one, and all is settled."""
    root = fixture_store(fault.fixture, tmp_path)
    truth = Truth.of(root)
    fault.inflict(root)
    expected = fault.expected(truth, root)
    conf = str(broker_conf(fault.fixture))
    store = Broken(root, conf, fault.version)
    plan = store.plan()
    repair.apply(plan, in_place=True)
    left = {(one.code, one.path) for one in plan.left}
    assert {(finding.code, finding.path) for finding in store.findings()} <= left
    assert [] == store.plan().edits
    fault.put_back(root)
    assert not fault.is_undone or {*truth.records} == truth.undamaged(root)
    assert [] == [*_lost(root, expected)]
    assert [] == [*_foreign(root, truth)]
    prediction = predict(open_store(root, conf), fault.version)
    assert not prediction.refusals
    delivered = {(queue.topic, queue.queue_id): queue.readable for queue in prediction.queues}
    assert all(delivered[key] >= len({*wanted}) for key, wanted in expected.items() if wanted)


def _lost(root: Path, expected: dict[QueueKey, list[int]]) -> Iterator[tuple[QueueKey, set[int]]]:
    """Yield the undamaged records of a queue that no unit of it names."""
    for (topic, queue_id), wanted in expected.items():
        directory = root / "consumequeue" / topic / str(queue_id)
        if directory.is_dir():  # the units of batch queues are others
            there = {unit.physical_offset for unit in plain_store.units(directory)}
            if lost := {*wanted} - there:
                yield (topic, queue_id), lost


def _foreign(root: Path, truth: Truth) -> Iterator[tuple[QueueKey, int]]:
    """Yield the units that name records of other queues, bridges among them, or end past the log.

    4.9.3 skips all records in front of the end of a queue's last unit.
    """
    records = {record.physical_offset: record for record in plain_store.records(root)}
    end = max(place + record.size for place, record in records.items())
    for directory in plain_store.queue_directories(root):
        key = directory.parent.name, int(directory.name)
        own = {*truth.queues.get(key, ())}
        for unit in plain_store.units(directory):
            place = unit.physical_offset
            is_foreign = place in records and place not in own
            is_past = place >= min(records) and place + unit.size > end
            if is_foreign or is_past:
                yield key, place
