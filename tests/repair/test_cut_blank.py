"""Commitlog files that are cut inside of the blank that closes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool import repair
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests import inflict, plain_store
from tests.check.validation import run
from tests.stores import broker_conf, fixture_store

NAME = "rocketmq-4.9.3-traffic"


@pytest.mark.parametrize("missing", [1, 50, 97, 98])
def test_put_back(missing: int, tmp_path: Path) -> None:
    """Zeros put it right, however little is missing: no bridge, and every byte as it was."""
    store, conf = fixture_store(NAME, tmp_path), str(broker_conf(NAME))
    path, _, length = inflict.first_blank(store)
    before = [segment.read_bytes() for segment in plain_store.segments(store)]
    assert missing <= length - 8
    inflict.resize(path, path.stat().st_size - missing)
    assert {"FS-LEN"} == {finding.code for finding in run(store)[0] if finding.severity == "damage"}
    assert not predict(open_store(store, Path(conf)), "4.9.3").starts
    repair.apply(repair.plan(store, broker_conf=conf), in_place=True)
    assert before == [segment.read_bytes() for segment in plain_store.segments(store)]
    assert not repair.plan(store, broker_conf=conf).edits
    assert predict(open_store(store, Path(conf)), "4.9.3").is_whole
