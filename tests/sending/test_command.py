"""`rmqtool send` as it is typed: rows, sentences, exit codes, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqtool.cli.main import main
from tests.sending.cluster import Cluster, running_cluster

LINES = [{"topic": "orders", "queue_id": n % 2, "body": f"body {n}"} for n in range(1, 5)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster with the topic `orders`."""
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Four messages."""
    path = tmp_path / "f.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES), encoding="utf-8")
    return path


def test_sends(cluster: Cluster, file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A row for each queue; the second time there is nothing left to do."""
    words = ["send", str(file), "--name-server", cluster.address]
    assert 0 == main([*words, "--dry-run"])
    capfd.readouterr()
    assert not cluster.sent
    assert 0 == main(words)
    out, err = capfd.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    place = {"kind": "sending", "topic": "orders", "broker": "a", "address": cluster.address}
    counts = {"messages": 2, "sent_before": 0, "sent": 2}
    assert rows == [{**place, "queue_id": line, **counts} for line in (0, 1)]
    assert "sent 4 messages in" in err
    assert f"ledger: {file}.sent" in err
    assert 0 == main(words)
    assert "4 messages had been sent before" in capfd.readouterr().err
    assert 4 == len(cluster.sent)


@pytest.mark.parametrize(
    ("number", "answer", "code", "said"),
    [
        (0, 16, 2, "refuses message 1: 16: the reason of 16"),
        (2, 16, 3, "refuses message 3: 16: the reason of 16"),
        (2, 13, 1, "sent 3 messages"),
        (0, b"", 2, "the connection was closed before the answer"),
        (3, b"", 3, "message 4 was on its way, and may be stored"),
    ],
)
def test_exit_codes(  # noqa: PLR0913, PLR0917 - what is answered, and what follows
    number: int,
    answer: int | bytes,
    code: int,
    said: str,
    cluster: Cluster,
    file: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Something sent, nothing sent, one message refused for itself."""
    cluster.answer = {number: answer}.get
    words = ["send", str(file), "--name-server", cluster.address, "--window", "1"]
    assert code == main(words)
    assert said in capfd.readouterr().err
    assert 0 == main(["send", str(file), "--name-server", cluster.address])
    assert {b"body 1", b"body 2", b"body 3", b"body 4"} == {body for _, body in cluster.sent}


def test_bad_message(cluster: Cluster, file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A message that cannot be sent holds up the others, or is counted beside them."""
    file.write_text('{"topic":"orders","body":""}\n' + file.read_text("utf-8"), "utf-8")
    words = ["send", str(file), "--name-server", cluster.address]
    assert 2 == main(words)
    assert "1 message cannot be sent, so nothing is; --skip-bad" in capfd.readouterr().err
    assert not cluster.sent
    assert 1 == main([*words, "--skip-bad"])
    assert "1 message cannot be sent\n" in capfd.readouterr().err
    assert 4 == len(cluster.sent)


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("window", [1, 2])
def test_interrupted(
    window: int, number: int, cluster: Cluster, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while messages are on their way: each one that goes again is named.

    Which ones they are is for the machine to say: the answer may be there before the signal is.
    """

    def answer(tried: int) -> None:
        if tried == number:
            os.kill(os.getpid(), signal.SIGINT)

    cluster.answer = answer
    words = ["send", str(file), "--name-server", cluster.address, "--window", str(window)]
    code = main([*words, "--rate", "100"])
    cluster.answer = lambda _: None
    capfd.readouterr()
    assert 0 == main(words)
    bodies = [body for _, body in cluster.sent]
    twice = [body for body in sorted(set(bodies)) if bodies.count(body) > 1]
    assert 130 == code
    assert 4 == len(set(bodies))
    assert max(map(bodies.count, bodies)) <= 2
    assert len(twice) <= window
    named = re.search(r"may have been sent twice: messages? ([0-9, ]+);", capfd.readouterr().err)
    numbers = named[1].split(", ") if named else []
    assert {body.decode() for body in twice} <= {f"body {again}" for again in numbers}
