"""Links, and other things that are no files, in a stranger's store: nothing is reached by them."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.hostile.conftest import Command, InTurn
from tests.hostile.stranger import QUEUE, SECRET, SEGMENT, Attack, Scene, forge, look

FILE = "00000000000000000000"
IN_PLACE = (
    ("repair", "--in-place", "--yes", "--yes", "--clamp-offsets"),
    ("rebuild", "--in-place", "--yes"),
    ("rebuild-cq", "--in-place", "--yes", "--topic", "crash-orders"),
    ("repair", "--undo"),
)
READING: tuple[Command, ...] = (
    ("validate",),
    ("info",),
    ("dump",),
    ("query", "--key", "none"),
    ("startup", "--broker-version", "5.3.3"),
    ("report", "--output", "report.html"),
    ("rebuild", "--check"),
    ("rebuild-cq", "--output", "queues"),
    ("repair", "--dry-run"),
    ("repair", "--output", "copy"),
    ("doctor",),
    ("diff", "../outside"),
    ("extract", "--output", "all.jsonl"),
    ("extract", "--output", "held.rmq", "--held"),
    ("dump", "--as", "all"),
    ("dump", "--as", "config", "--format", "broker-json", "--output", "config"),
    ("query", "--group", "TOOLS_CONSUMER"),
    ("validate", "--recursive"),
    ("validate", "--level", "deep", "--manifest", "manifest"),
    ("repair", "--plan", "plan"),
    ("rebuild-index", "--output", "index"),
    ("rebuild", "--output", "rebuilt"),
)
ASKING = (("dump", "--topic", ""), ("query", "--queue", ""), ("validate", "--only", ""))
UNDO = "rmqtool-undo-20260101T000000Z"
FILES = (
    "abort", "lock", "checkpoint", SEGMENT, f"consumequeue/crash-orders/1/{FILE}",
    "config/topics.json", "config/delayOffset.json", f"{UNDO}/journal.jsonl", f"{UNDO}/bytes.old",
)  # fmt: skip


def linked(name: str, target: str) -> Attack:
    """Put a link in the place of something of the store."""

    def attack(stage: Scene) -> None:
        path = stage.store / name
        if path.is_dir() and not path.is_symlink():
            path.rename(stage.store / f"moved-{path.name}")
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    attack.__name__ = f"{name}-{target}"
    return attack


def hard_linked(name: str, target: str) -> Attack:
    """Give something outside a second name in the store."""

    def attack(stage: Scene) -> None:
        path = stage.store / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.hardlink_to(stage.outside / target)

    attack.__name__ = f"hard-{name}"
    return attack


OF_THE_ROOT = (
    linked("lock", "../outside/secret"),
    linked("abort", "../outside/secret"),
    linked("checkpoint", "../outside/checkpoint"),
    linked("consumequeue", "../outside/consumequeue"),
    linked("index", "../outside/index"),
    linked("config", "../outside/config"),
    linked("commitlog", "../outside/commitlog"),
    linked("zz", "../outside"),
    linked("rmqtool-undo-20260101T000000Z", "../outside"),
    linked("rmqtool-discard-20260101T000000Z", "../outside"),
)
WITHIN = (
    linked(QUEUE, "../../../outside/consumequeue/crash-orders/0"),
    linked(f"consumequeue/crash-orders/1/{FILE}", f"../../../../outside/{SEGMENT}"),
    linked("config/topics.json", "../../outside/config/topics.json"),
    hard_linked(SEGMENT, SEGMENT),
    hard_linked("checkpoint", "checkpoint"),
    hard_linked("lock", "secret"),
)
LINKS = (
    *OF_THE_ROOT,
    *WITHIN,
    linked("lock", "../outside/evil"),
    linked("checkpoint", "../outside/evil"),
    linked("consumequeue/crash-orders", "../../outside/consumequeue/crash-orders"),
    linked(SEGMENT, f"../../outside/{SEGMENT}"),
    hard_linked("config/topics.json", "config/topics.json"),
)


@pytest.mark.parametrize("attack", LINKS, ids=lambda attack: attack.__name__)
def test_links(stage: Scene, attack: Attack, in_turn: InTurn) -> None:
    """No command that writes reaches outside of the store; nothing there changes in any way."""
    attack(stage)
    stage.yield_to_stranger()
    before = stage.seen()
    for command, *options in in_turn(IN_PLACE):
        answer = stage.run(command, stage.store, *options)
        assert answer.code in {0, 1, 2, 3}, answer
        assert before == stage.seen(), (command, options, answer.err)


@pytest.mark.parametrize("command", ["rebuild", "rebuild-index"])
def test_log_of_another(stage: Scene, command: str) -> None:
    """Nothing is made in place of records that a link of the root leads to."""
    linked("commitlog", "../outside/commitlog")(stage)
    stage.yield_to_stranger()
    before = look(stage.store / "index")
    answer = stage.run(command, stage.store, "--in-place", "--yes")
    assert 2 == answer.code
    assert "no --broker-conf names that place" in answer.err
    assert before == look(stage.store / "index")


@pytest.mark.parametrize(
    "attack", [one for one in LINKS if "hard" not in one.__name__], ids=lambda one: one.__name__
)
def test_copies(stage: Scene, attack: Attack) -> None:
    """A copy holds nothing that a link of the store leads to, and is open to nobody new."""
    attack(stage)
    (stage.store / "config").chmod(0o700)
    (stage.store / SEGMENT).chmod(0o600)
    stage.store.chmod(0o750)
    stage.yield_to_stranger()
    before = stage.seen()
    copy = stage.work / "copy"
    answer = stage.run("repair", stage.store, "--output", copy)
    assert before == stage.seen()
    if not copy.exists():
        assert 2 == answer.code
        return
    for name, seen in look(copy, reads=False).items():
        path = copy / name
        assert not path.is_symlink()
        assert not path.is_file() or SECRET not in path.read_bytes()
        original = stage.store / name
        if original.exists() and not original.is_symlink():
            assert 0 == seen.mode & ~(original.stat().st_mode | 0o600), name


@pytest.mark.parametrize("attacks", [OF_THE_ROOT, WITHIN], ids=["root", "within"])
def test_reading(
    stage: Scene, attacks: Sequence[Attack], monkeypatch: pytest.MonkeyPatch, *, is_whole: bool
) -> None:
    """No command that reads changes anything of the store, or outside, whatever it is led to."""
    for attack in attacks:
        attack(stage)
    stage.yield_to_stranger()
    monkeypatch.chdir(stage.work)
    before, store = stage.seen(), look(stage.store, reads=False)
    first = (attacks is WITHIN) ^ (stage.user == 0)
    for command, *options in READING if is_whole else READING[first::2]:
        answer = stage.run(command, stage.store, *options)
        assert answer.code in {0, 1, 2, 3}, answer
        assert before == stage.seen(), (command, options, answer.err)
        assert store == look(stage.store, reads=False), (command, options, answer.err)
    monkeypatch.chdir(stage.store)
    for words in (("help",), ("help", "CL-CRC"), ("completion", "fish")):
        assert 0 == stage.run(*words).code
    monkeypatch.setenv("_RMQTOOL_COMPLETE", "zsh")
    for command, *options in ASKING:
        assert "secret" not in stage.run(command, stage.store, *options).out
    assert before == stage.seen()
    assert store == look(stage.store, reads=False)


@pytest.mark.parametrize("name", FILES)
def test_never_waits(stage: Scene, name: str, in_turn: InTurn) -> None:
    """A FIFO in the place of a file is never opened: no command that writes waits for it."""
    put_odd(stage.store, name, os.mkfifo)
    stage.yield_to_stranger()
    for command, *options in in_turn(IN_PLACE):
        answer = stage.run(command, stage.store, *options)
        assert answer.code in {0, 1, 2, 3}, answer


@pytest.mark.parametrize("kind", ["fifo", "socket"])
def test_reading_never_waits(
    stage: Scene, kind: str, monkeypatch: pytest.MonkeyPatch, *, is_whole: bool
) -> None:
    """No command that reads waits for what is no file, in whatever place it is."""
    for name in (*FILES, "timerwheel", "config/timercheck", "index/20260101000000000"):
        put_odd(stage.store, name, make_socket if kind == "socket" else os.mkfifo)
    stage.yield_to_stranger()
    monkeypatch.chdir(stage.work)
    first = (kind == "fifo") ^ (stage.user == 0)
    for command, *options in READING if is_whole else READING[first::2]:
        answer = stage.run(command, stage.store, *options)
        assert answer.code in {0, 1, 2, 3}, answer


def put_odd(store: Path, name: str, make: Callable[[Path], None]) -> None:
    """Put what is no file in the place of a file; in an undo directory, beside what it needs."""
    path = store / name
    if name.startswith(UNDO) and not path.parent.exists():
        forge(store, UNDO, [], state="committed")
    path.unlink(missing_ok=True)
    make(path)


def make_socket(path: Path) -> None:
    """Make a socket, whose path must be short."""
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)
