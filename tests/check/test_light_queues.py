"""Light queues that are gone: only the log still says that there were any."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqtool import repair
from rmqtool.findings.catalogue import Severity
from rmqtool.startup import predict
from rmqtool.startup.report import verdict
from rmqtool.store.tree import open_store
from tests import plain_store
from tests.check.validation import run
from tests.stores import broker_conf

ONE = "%LMQ%home-1"


@pytest.mark.parametrize("is_given", [True, False], ids=["broker.conf", "files-alone"])
@pytest.mark.parametrize("pattern", [f"{ONE}/0", ONE, "%LMQ%*"], ids=["files", "topic", "all"])
@pytest.mark.parametrize("version", ["4.9.3", "5.3.3"])
def test_deleted(
    version: str, pattern: str, is_given: bool, copy_of: Callable[[str], Path]
) -> None:
    """No broker deletes them or makes them anew, so it is damage, predicted, and put right."""
    name = f"rocketmq-{version}-lmq"
    store, conf = copy_of(name), broker_conf(name) if is_given else None
    gone: dict[str, int] = {}
    before: dict[Path, bytes] = {}
    for directory in sorted(store.glob(f"consumequeue/{pattern}")):
        for queue in [directory] if directory.name == "0" else directory.iterdir():
            gone[queue.parent.name] = len(plain_store.units(queue))
            before |= {path: path.read_bytes() for path in queue.iterdir()}
        shutil.rmtree(directory)
    findings = run(store, conf=conf)[0]
    said = {finding.topic: finding.severity for finding in findings if finding.code == "CQ-LMQ"}
    assert dict.fromkeys(gone, Severity.DAMAGE) == said
    prediction = predict(open_store(store, conf), version)
    counts = {topic.topic: topic.messages for topic in prediction.light.topics}
    assert gone == counts
    assert prediction.loses
    assert f"{sum(gone.values())} messages not in {len(gone)} light queue" in verdict(prediction)
    repair.apply(repair.plan(store, broker_conf=str(conf) if conf else None), in_place=True)
    assert before == {path: path.read_bytes() for path in before}
    assert not predict(open_store(store, conf), version).loses


def test_lite_topic_without_configuration(copy_of: Callable[[str], Path]) -> None:
    """Where no file says that its queues may go when they are idle, one that is gone is missing."""
    name = "rocketmq-5.5.0-lmq"
    store, conf = copy_of(name), broker_conf(name)
    (queue,) = store.glob("consumequeue/%LMQ%$lmq-parent$room-1")
    shutil.rmtree(queue)
    for path in store.glob("config/topics.json*"):
        path.write_bytes(b"<nil>")
    (missing,) = [one for one in run(store, conf=conf)[0] if one.topic == queue.name]
    assert ("CQ-LMQ", Severity.DAMAGE) == (missing.code, missing.severity)
    repair.apply(repair.plan(store, broker_conf=str(conf)), in_place=True)
    assert queue.exists()
