"""No false alarm beside a broker that writes, or on a copy that was taken meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import Finding
from rmqtool.findings.registry_index import IX_CRASH
from rmqtool.findings.registry_layout import FS_LOCK
from rmqtool.rebuild.options import RebuildOptions
from rmqtool.rebuild.work import rebuild
from rmqtool.rows import rows_of
from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump
from tests.broker.broker import SMALL_GEOMETRY, Broker, running_broker
from tests.broker.client import wait_until
from tests.broker.jars import missing_tools
from tests.broker.message import Outgoing
from tests.broker.producer import Producer
from tests.check.validation import run
from tests.cli.run import COMMAND

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(missing_tools()), reason="needs Java and Maven"),
]

TOPIC = "in-flight"
COPIES = 4
_PATIENCE = 600.0  # seconds, on a busy machine
RUNS = 5
SOME_BYTES = 50_000  # messages of 750 bytes
BODY = 90  # a byte of the body of a file's first record
SLOTS = 500  # as SMALL_GEOMETRY has them


@contextmanager
def _writing(broker: Broker) -> Iterator[None]:
    """Let a thread send messages of all sizes, without a pause, from the block's begin to its end.

    The first ones are stored when it begins: until then a broker has no commitlog directory.
    """
    begun, ended = threading.Event(), threading.Event()

    def send() -> None:
        with Producer(broker, "in-flight-producer") as producer:
            number = 0
            while not ended.is_set():
                number += 1
                body = bytes([number % 251]) * (number * 37 % 1500 + 1)
                message = Outgoing(TOPIC, body, tags="TagA", keys=(f"KEY-{number}", "all"))
                producer.send(message, number % 4)
                begun.set()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        assert begun.wait(_PATIENCE), "no message was sent"
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
    return [
        finding
        for finding in found
        if finding.severity is not Severity.NOTE and finding.code != IX_CRASH
    ]


@pytest.fixture(
    scope="module",
    params=["4.9.3", pytest.param("5.3.3", marks=pytest.mark.all_variants), "5.5.0"],
)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A broker that is written to until the tests of this file end."""
    home = tmp_path_factory.mktemp("broker")
    with running_broker(request.param, home, dict(SMALL_GEOMETRY)) as broker:
        broker.create_topic(TOPIC, 4)
        with _writing(broker):
            _written_on(broker)  # each test finds queues and an index, whichever runs first
            yield broker


def test_copy_in_flight(broker: Broker, tmp_path: Path) -> None:
    """Queues and index ahead of the log or behind it, and a torn last record: at most notes."""
    counts = []
    for number in range(COPIES):
        _written_on(broker)
        target = tmp_path / f"copy-{number}"
        _copy(_store(broker), target, backwards=number % 2 == 1)
        findings, exit_code, summary = run(target, "deep", broker.conf)
        assert [] == _above_notes(findings), f"copy {number}"
        assert 0 == exit_code
        counts.append(summary.account.records)
    assert sorted(counts) == counts
    assert 0 < counts[0] < counts[-1]


def test_beside_a_broker(broker: Broker) -> None:
    """What is written meanwhile is no damage; the lock is a note."""
    ends, since = [], []
    for _ in range(RUNS):
        findings, exit_code, summary = run(_store(broker), "deep", broker.conf)
        assert ([], 0) == (_above_notes(findings), exit_code)
        since.append(summary.account.since)
        assert FS_LOCK in {finding.code for finding in findings}
        result = rebuild(_checked(broker))
        assert [] == result.differences
        assert result.cut is not None
        ends.append(result.cut)
    assert ends == sorted(ends)
    assert ends[0] < ends[-1], "the broker was written to"
    assert None not in since
    assert any(since), "records that came meanwhile are counted"


def test_damage_beside_a_broker(broker: Broker) -> None:
    """A flipped bit of an old record, queue unit and index entry is found while all else moves."""
    segment = min((_store(broker) / "commitlog").iterdir())
    queue = min((_store(broker) / "consumequeue" / TOPIC / "0").iterdir())
    index = min((_store(broker) / "index").iterdir())
    with _flipped(segment, BODY), _flipped(queue, 20 * 3 + 7):
        findings, exit_code, _ = run(_store(broker), "full", broker.conf)
        assert 1 == exit_code
        paths = {difference.path for difference in _above_notes(findings)}
        assert {f"commitlog/{segment.name}", f"consumequeue/{TOPIC}/0/{queue.name}"} <= paths
    with _flipped(queue, 20 * 3 + 7), _flipped(index, 40 + 4 * SLOTS + 20 * 5):
        differing = {difference.path for difference in rebuild(_checked(broker)).differences}
        assert {f"consumequeue/{TOPIC}/0/{queue.name}", f"index/{index.name}"} == differing
    assert [] == rebuild(_checked(broker)).differences


def test_follow(broker: Broker) -> None:
    """Messages are shown as they come: each once, in order, none half, until SIGTERM; then 0."""
    command = [*COMMAND, "dump", str(_store(broker)), "--follow", "--tail", "50", "--quiet"]
    with subprocess.Popen([*command, "--format", "jsonl"], stdout=subprocess.PIPE) as follower:  # noqa: S603 - our own
        assert follower.stdout is not None
        rows = [json.loads(follower.stdout.readline()) for _ in range(500)]
        follower.send_signal(signal.SIGTERM)
        rows += map(json.loads, follower.stdout.read().splitlines())
        assert 0 == follower.wait(_PATIENCE)
    assert {None} == {row["code"] for row in rows}
    offsets = [row["physical_offset"] for row in rows]
    found = dump(DumpOptions((str(_store(broker)),), broker_conf=str(broker.conf)), DumpOutcome())
    stored = [row["physical_offset"] for chunk in found[0] for row in rows_of(chunk)]
    first = stored.index(offsets[0])
    assert stored[first : first + len(offsets)] == offsets


def _written_on(broker: Broker) -> None:
    """Wait until the log is longer by some messages."""
    end = int(broker.store.getMaxPhyOffset()) + SOME_BYTES
    wait_until(lambda: int(broker.store.getMaxPhyOffset()) > end, "messages are written")


def _store(broker: Broker) -> Path:
    return broker.conf.parent / "store"


def _checked(broker: Broker) -> RebuildOptions:
    return RebuildOptions(str(_store(broker)), broker_conf=str(broker.conf), check=True, jobs=1)


@contextmanager
def _flipped(path: Path, position: int) -> Iterator[None]:
    """Flip a bit of a file, and flip it back: the broker maps the same bytes."""
    for step in range(2):
        with path.open("r+b") as file:
            file.seek(position)
            (byte,) = file.read(1)
            file.seek(position)
            file.write(bytes([byte ^ 1]))
        if step == 0:
            yield
