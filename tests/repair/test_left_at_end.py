"""A last record whose queue offset is impossible: named in the plan, and no loss is made of it."""

from __future__ import annotations

import shutil
from pathlib import Path

from rmqtool import repair
from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests import inflict, plain_store
from tests.stores import broker_conf, fixture_store

_NAME = "rocketmq-5.3.3-traffic"
_QUEUE = "consumequeue/traffic-orders/1"


def _named(root: Path) -> set[tuple[str, str]]:
    options = ValidateOptions(root, broker_conf=str(broker_conf(_NAME)))
    return {(str(one.code), one.path.removesuffix("/" + "0" * 20)) for one in validate(options)}


def _is_of_queue(record: plain_store.Record) -> bool:
    return (record.topic, record.integer("queue_id")) == ("traffic-orders", 1)


def test_lost_queue(tmp_path: Path) -> None:
    """What a validation says after the repair, the plan has said before."""
    root, conf = fixture_store(_NAME, tmp_path), str(broker_conf(_NAME))
    inflict.flip_field("queue_offset", byte=0, bit=6, where=0.9999, wanted=_is_of_queue)(root)
    shutil.rmtree(root / _QUEUE)
    plan = repair.plan(root, broker_conf=conf)
    repair.apply(plan, in_place=True)
    assert {code for code, path in _named(root) if path == _QUEUE} == {"CQ-GAP"}
    assert ("CQ-GAP", _QUEUE) in {(str(left.code), left.path) for left in plan.left}
    fate = predict(open_store(root, conf))
    assert (1, 0) == (fate.unreachable, sum(one.messages for one in fate.lost_numbers))
