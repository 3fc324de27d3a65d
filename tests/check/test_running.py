"""No false alarm on a copy that was taken while a broker went on writing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import Finding
from rmqtool.findings.registry_index import IX_CRASH
from tests.broker.broker import SMALL_GEOMETRY, Broker, running_broker
from tests.broker.jars import missing_tools
from tests.broker.message import Outgoing
from tests.broker.producer import Producer
from tests.check.validation import run

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(missing_tools()), reason="needs Java and Maven"),
]

TOPIC = "in-flight"
COPIES = 4


@contextmanager
def _writing(broker: Broker) -> Iterator[None]:
    """Let a thread send messages of all sizes, without a pause, until the block ends."""
    ended = threading.Event()

    def send() -> None:
        with Producer(broker, "in-flight-producer") as producer:
            number = 0
            while not ended.is_set():
                number += 1
                body = bytes([number % 251]) * (number * 37 % 1500 + 1)
                message = Outgoing(TOPIC, body, tags="TagA", keys=(f"KEY-{number}", "all"))
                producer.send(message, number % 4)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _copy(source: Path, target: Path, *, backwards: bool) -> None:
    """Copy file by file, as a backup does that knows nothing of brokers."""
    files = sorted(path for path in source.rglob("*") if path.is_file())
    for path in reversed(files) if backwards else files:
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            copy.write_bytes(path.read_bytes())
        except FileNotFoundError:
            continue  # a `.tmp` that was renamed meanwhile


def _above_notes(found: list[Finding]) -> list[Finding]:
    """Leave out what is true of a copy whose checkpoint is older: a start destroys an index."""
    return [one for one in found if one.severity is not Severity.NOTE and one.code != IX_CRASH]


@pytest.mark.parametrize(
    "version", ["4.9.3", pytest.param("5.3.3", marks=pytest.mark.all_variants), "5.5.0"]
)
def test_copy_in_flight(version: str, tmp_path: Path) -> None:
    """Queues and index ahead of the log or behind it, and a torn last record: at most notes."""
    settings = dict(SMALL_GEOMETRY)
    with running_broker(version, tmp_path / "broker", settings) as broker:
        broker.create_topic(TOPIC, 4)
        with _writing(broker):
            for number in range(COPIES):
                threading.Event().wait(0.7)
                target = tmp_path / f"copy-{number}"
                _copy(tmp_path / "broker" / "store", target, backwards=number % 2 == 1)
        conf = broker.conf
        counts = []
        for number in range(COPIES):
            found, exit_code, summary = run(tmp_path / f"copy-{number}", "deep", conf)
            assert [] == _above_notes(found), f"copy {number}"
            assert 0 == exit_code
            counts.append(summary.account.records)
    assert sorted(counts) == counts
    assert 0 < counts[0] < counts[-1]
