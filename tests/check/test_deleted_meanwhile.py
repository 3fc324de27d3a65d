"""A topic that a running broker deletes, or a segment that expires, while a command runs is gone.

What is deleted at one of the moments at which a command looks at it, no command calls unreadable,
damaged or lost.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from unittest import mock

import pytest

from rmqtool.cli.main import main
from rmqtool.store.place import Place
from tests import plain_store
from tests.stores import broker_conf, fixture_store, held_by_another

NAME: Final = "rocketmq-5.3.3-traffic"
TOPIC: Final = "traffic-orders"
LOOKS: Final = ("stat", "names", "entries", "owners", "open", "open_listed")
MOMENTS: Final = 4  # of the looks at a store, evenly spread
# Exit codes that are true of the store after it, besides 0.
COMMANDS: Final = {
    "validate STORE --jobs 1": {0},
    "validate STORE --level quick": {0},
    "dump STORE --as all": {0},
    "dump STORE --as consume-queue": {0},
    "info STORE": {0},
    "doctor STORE": {0},
    "startup STORE": {0},
    "report STORE --output STORE.html": {0},
    "repair STORE": {0},
    "rebuild STORE --check": {0, 1},  # the log still has the messages of the topic
    "diff STORE STORE": {0, 1},  # it is read twice, before the deletion and after it
    "hash STORE": {0},
    "extract STORE --output STORE.jsonl": {0},
}


def _delete_topic(store: Path) -> None:
    """Do what brokers do: the configuration first, then the queues."""
    topics = store / "config" / "topics.json"
    said = json.loads(topics.read_text(encoding="utf-8"))
    said["topicConfigTable"].pop(TOPIC, None)
    topics.write_text(json.dumps(said), encoding="utf-8")
    shutil.rmtree(store / "consumequeue" / TOPIC)


def _expire(store: Path) -> None:
    """Delete the oldest file of the log; its units and entries point to nothing."""
    plain_store.numbered(store / "commitlog")[0].unlink()


DELETIONS: Final[dict[str, tuple[Callable[[Path], None], str]]] = {
    "topic": (_delete_topic, f"/consumequeue/{TOPIC}"),
    "segment": (_expire, "/commitlog"),
}


@contextmanager
def _at(look: int, deletion: str, store: Path) -> Iterator[list[str]]:
    """Delete something right before it is looked at for the nth time; give what was looked at."""
    delete, below = DELETIONS[deletion]
    seen: list[str] = []

    def looking(name: str) -> Callable[..., object]:
        real = getattr(Place, name)

        def wrapper(place: Place, *arguments: object) -> object:
            if below in place.location:
                seen.append(place.location)
                if len(seen) == look:
                    delete(store)
            return real(place, *arguments)

        return wrapper

    with ExitStack() as stack:
        for name in LOOKS:
            stack.enter_context(mock.patch.object(Place, name, looking(name)))
        yield seen


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("deletion", DELETIONS)
def test_deleted_meanwhile(
    deletion: str,
    command: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whenever it is deleted, nothing is unreadable, and no finding is about it."""
    monkeypatch.setattr("rmqtool.store.moment.PAUSES", (0.0, 0.0))
    whole = fixture_store(NAME, tmp_path)

    def run(look: int) -> int:
        root = tmp_path / f"run-{look}" / "store"
        shutil.copytree(whole, root)
        words = command.replace("STORE", str(root)).split()
        if words[0] not in {"diff", "hash"}:
            words += ["--broker-conf", str(broker_conf(NAME))]
        with held_by_another(root), _at(look, deletion, root) as seen:
            code = main(words)
        out, said = capfd.readouterr()
        about = f"look {look} of {command}: {said}"
        assert code in COMMANDS[command], about
        for text in (out, said):
            assert "FS-READ" not in text, about
            assert "could not be read" not in text, about
            assert "no such file" not in text, about
        return len(seen)

    looks = run(0)
    for look in sorted({1 + number * looks // MOMENTS for number in range(MOMENTS)}):
        run(look)
