"""Journals that a stranger forged: not believed, or not followed out of the store."""

from __future__ import annotations

import hashlib
import os

import pytest

from tests.hostile.conftest import InTurn
from tests.hostile.stranger import SECRET, Scene, forge

UNDO = "rmqtool-undo-20260101T000000Z"
STATES = ("prepared", "committed", "undoing", "done")
COMMANDS = (
    ("repair", "--in-place", "--yes", "--yes"),
    ("rebuild-cq", "--in-place", "--yes"),
    ("repair", "--undo"),
)
EVIL = hashlib.sha256(b"evil" * 10).hexdigest()


def swap(path: str, aside: str = "0001") -> list[dict[str, object]]:
    """Give the line of a swap."""
    facts = {"path": path, "aside": aside, "what": "replace", "reason": ""}
    return [{"number": 1, "operation": "swap", **facts}]


def edit(path: str) -> list[dict[str, object]]:
    """Give the lines of an edit that overwrites the begin of a file of `SECRET`, either way."""
    size = len(SECRET)
    head = {"path": path, "length": [size, size], "mtime_ns": [1, 2], "reason": ""}
    old = {"at": 0, "length": 40, "sha256": EVIL}
    return [
        {"number": 1, "operation": "edit", **head},
        {"number": 1, "operation": "bytes", "position": 0, "old": old, "new": old},
    ]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("how", ["{}/secret", "../outside/secret", "link/secret", "zz/../x"])
@pytest.mark.parametrize("what", [swap, edit])
def test_path(stage: Scene, what: object, how: str, state: str, in_turn: InTurn) -> None:
    """Neither a swap nor an edit of a forged journal reaches anything outside of the store."""
    assert callable(what)
    (stage.store / "link").symlink_to("../outside")
    lines = what(how.format(stage.outside))
    aside = stage.store / UNDO / "aside/0001"
    pair = (stage.outside / "secret", aside)
    forge(stage.store, UNDO, lines, state=state, swaps={"1": pair} if what is swap else {})
    refused_or_harmless(stage, state, in_turn)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("aside", ["{}/secret", "../../outside/secret", "../journal.jsonl"])
def test_aside(stage: Scene, aside: str, state: str, in_turn: InTurn) -> None:
    """What is outside of the store is not brought into it, either."""
    lines = swap("abort", aside.format(stage.outside))
    pair = (stage.store / "abort", stage.outside / "secret")
    forge(stage.store, UNDO, lines, state=state, swaps={"1": pair})
    refused_or_harmless(stage, state, in_turn)


@pytest.mark.parametrize("name", [UNDO, UNDO.replace("undo", "discard")])
def test_outside(stage: Scene, name: str, in_turn: InTurn) -> None:
    """What a journal says that it has elsewhere is not removed."""
    victim = stage.outside / UNDO
    victim.mkdir()
    (victim / "file").write_text("precious")
    forge(stage.store, name, [{"outside": str(victim)}], state="prepared")
    refused_or_harmless(stage, "prepared", in_turn)


def refused_or_harmless(stage: Scene, state: str, in_turn: InTurn) -> None:
    """Demand that no command changes anything outside; root does not even believe the journal."""
    stage.yield_to_stranger()
    before = stage.seen()
    is_stranger = stage.user != 0 or os.geteuid() != 0
    for command, *options in in_turn(COMMANDS):
        answer = stage.run(command, stage.store, *options)
        assert answer.code in {0, 1, 2, 3}, answer
        assert before == stage.seen(), (command, options, answer.err)
        there = (stage.store / UNDO).exists()
        if not is_stranger and there and state in {"committed", "undoing"}:
            assert (2, True) == (answer.code, "is not believed" in answer.err), answer


def test_done_of_another(stage: Scene) -> None:
    """An edit of another user that is done is in nobody's way, and is not taken back by root."""
    if stage.user != 0:
        pytest.skip("an ordinary user has only his own")
    forge(stage.store, UNDO, swap("abort"), state="done")
    stage.yield_to_stranger()
    answer = stage.run("repair", stage.store, "--undo")
    assert (2, True) == (answer.code, "no edit to take back" in answer.err), answer
    assert stage.run("repair", stage.store, "--in-place", "--yes", "--yes").code in {0, 1}
    assert (stage.store / UNDO).exists()


def test_writable_by_others(stage: Scene) -> None:
    """A directory of one's own into which others may write is not believed."""
    undo = forge(stage.store, UNDO, swap("abort"), state="committed")
    stage.yield_to_stranger()
    if stage.user == 0:
        os.chown(undo, 0, 0)
    undo.chmod(0o777)
    answer = stage.run("repair", stage.store, "--in-place", "--yes", "--yes")
    assert (2, True) == (answer.code, "others may write into it" in answer.err), answer


def test_of_root(stage: Scene) -> None:
    """An ordinary user is told to let root finish, or take back, what root did."""
    if stage.user == 0 or os.geteuid() != 0:
        pytest.skip("needs root, and somebody else")
    root = Scene(stage.top, 0)
    assert root.run("repair", stage.store, "--in-place", "--yes", "--yes").code in {0, 1}
    stage.yield_to_stranger()
    (undo,) = stage.store.glob("rmqtool-undo-*")
    for path in (undo, *undo.iterdir()):
        os.chown(path, 0, 0)
    answer = stage.run("repair", stage.store, "--undo")
    assert (2, True) == (answer.code, "user 0 made it: run rmqtool as that user" in answer.err)
    assert 0 == root.run("repair", stage.store, "--undo").code
