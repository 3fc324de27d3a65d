"""A whole broker of another release hands to real consumers what the preflight says it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests.broker.broker import conf_text, running_broker
from tests.broker.consumer import PullConsumer
from tests.startup.test_against_stores import ALWAYS
from tests.stores import fixture_store, manifest

if TYPE_CHECKING:
    from pathlib import Path

# A store, and the release that is started on it.
PAIRS: Final = (
    ("4.9.3-crash", "5.5.1"),
    ("5.3.3-crash", "5.5.1"),
    ("5.5.1-crash", "5.5.0"),
    ("5.5.1-crash", "5.3.3"),
    ("5.5.0-rocksdb", "5.5.1"),
    ("5.5.1-rocksdb-selective", "4.9.3"),
    ("5.5.1-rocksdb-selective", "5.5.0"),
    ("5.5.1-rocksdb-selective", "5.4.0"),
    ("5.5.1-rocksdb", "5.4.0"),
)


@pytest.mark.broker
@pytest.mark.all_variants
@pytest.mark.parametrize(("fixture", "version"), PAIRS)
def test_delivers_what_is_read(fixture: str, version: str, tmp_path: Path) -> None:
    """Each topic that clients may see has as many messages for a consumer as predicted."""
    name = f"rocketmq-{fixture}"
    root = fixture_store(name, tmp_path)
    settings = {**manifest(name)["settings"], **ALWAYS}
    conf = tmp_path / "asked.conf"
    conf.write_text(conf_text(settings))
    prediction = predict(open_store(root, conf), version)
    assert prediction.starts
    is_read = all(outcome.part != "queues in RocksDB" for outcome in prediction.unread)
    expected = {
        (queue.topic, queue.queue_id): queue.readable if is_read or not queue.in_rocksdb else 0
        # Of queues in both, those in files are read: they come last.
        for queue in sorted(prediction.queues, key=lambda outcome: not outcome.in_rocksdb)
        if queue.topic.endswith(("orders", "rooms")) or "%LMQ%" in queue.topic
    }
    assert expected
    with running_broker(version, tmp_path, settings) as broker:
        reader = PullConsumer(broker, "preflight")
        with reader:
            # Light queues have no route: by the topics before them the client knows the broker.
            keys = sorted(expected, key=lambda key: key[0].startswith("%"))
            found = {key: sum(1 for _ in reader.read(*key)) for key in keys}
    assert expected == found
