"""What repairs once lost, delivered wrongly or did not settle: judged by real message stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool import repair
from tests import plain_store
from tests.broker.jvm import Jvm
from tests.repair.broker import survivors
from tests.repair.broker.survivors import Truth
from tests.repair.broker.test_all_damages import delivers, put_one
from tests.repair.fault import Fault
from tests.repair.lossy_faults import FAULTS
from tests.repair.repaired import Broken
from tests.stores import broker_conf, fixture_store

pytestmark = pytest.mark.broker

JUDGED = [
    pytest.param(fault, marks=() if fault.is_proven else pytest.mark.all_variants, id=str(fault))
    for fault in FAULTS
]


@pytest.mark.parametrize("fault", JUDGED)
def test_delivered(jvm: Jvm, fault: Fault, tmp_path: Path) -> None:
    """Each undamaged message is delivered in order, no other is, and a new one is the last."""
    if jvm.version != fault.version:
        pytest.skip("of another release")
    root = fixture_store(fault.fixture, tmp_path)
    truth = Truth.of(root)
    fault.inflict(root)
    expected = fault.expected(truth, root)
    store = Broken(root, str(broker_conf(fault.fixture)), fault.version)
    repair.apply(store.plan(), in_place=True)
    fault.put_back(root)
    last = max(record.physical_offset for record in plain_store.records(root))
    unused = {
        f"commitlog/{segment.name}"
        for segment in plain_store.segments(root)
        if int(segment.name) > last
    }
    opened = survivors.open_store(jvm, root, fault.fixture)
    delivers(opened, truth, expected, unused)
    emptied = {key: queue for key, queue in truth.queues.items() if queue and not expected[key]}
    new = put_one(jvm, opened, Truth(truth.records, emptied or truth.queues))
    assert all([place] == opened.all_of(*key)[-1:] for key, place in new.items())
    opened.close_later()
