"""Files that the broker's user cannot use, judged for that user whoever asks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.errors import UsageError
from rmqtool.findings.catalogue import Severity
from rmqtool.startup import predict
from rmqtool.store.tree import open_store

NAME = "rocketmq-5.3.3-traffic"
BROKER, OTHER = 3000, 3001
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def _found(store: Path, as_user: str | None = None) -> dict[str, Severity]:
    asked = ValidateOptions(store, frozenset({"FS-OWNER"}), as_user=as_user, jobs=1)
    return {finding.path: finding.severity for finding in validate(asked)}


def _refused(store: Path, as_user: str | None = None) -> set[str]:
    prediction = predict(open_store(store), "5.3.3", as_user=as_user)
    return {refusal.path for refusal in prediction.refusals}


def _give(store: Path, uid: int) -> None:
    for path in (store, *store.rglob("*")):
        os.chown(path, uid, uid)
        path.chmod(0o755 if path.is_dir() else 0o644)


@needs_root
def test_left_by_root(copy_of: Callable[[str], Path]) -> None:
    """What root left among the files of another user, that user cannot open."""
    store = copy_of(NAME)
    _give(store, BROKER)
    assert ({}, set()) == (_found(store), _refused(store))
    segment = max((store / "commitlog").iterdir())
    queue = next((store / "consumequeue").glob("*/0"))
    for path in (segment, queue, *queue.iterdir(), store / "config/topics.json"):
        os.chown(path, 0, 0)
    paths = {str(path.relative_to(store)) for path in (segment, *queue.iterdir())}
    said = {str(path.relative_to(store)) for path in (segment, queue, store / "config/topics.json")}
    assert dict.fromkeys(said, Severity.DAMAGE) == _found(store)
    assert paths == _refused(store)
    (said_to_root,) = {*_found(store, "root").values()}
    assert Severity.NOTE is said_to_root
    assert set() == _refused(store, "0")


@needs_root
def test_group_may(copy_of: Callable[[str], Path]) -> None:
    """What a group shares is only noted: its broker starts."""
    store = copy_of(NAME)
    _give(store, BROKER)
    path = max((store / "commitlog").iterdir())
    os.chown(path, OTHER, BROKER)
    path.chmod(0o666)
    assert {f"commitlog/{path.name}": Severity.NOTE} == _found(store)
    assert set() == _refused(store)


@needs_root
def test_directory_is_closed(copy_of: Callable[[str], Path]) -> None:
    """A commitlog that cannot be listed would count as empty: that is never called a start."""
    store = copy_of(NAME)
    _give(store, BROKER)
    os.chown(store / "commitlog", 0, 0)
    (store / "commitlog").chmod(0o700)
    assert {"commitlog": Severity.DAMAGE} == _found(store)
    assert {"commitlog"} == _refused(store)


def test_as_user(copy_of: Callable[[str], Path]) -> None:
    """Any user may be asked for, those that this machine does not know by number."""
    store = copy_of(NAME)
    for path in (store, *store.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert {Severity.DAMAGE} == {*_found(store, "54321").values()}
    assert "checkpoint" in _refused(store, "54321")
    with pytest.raises(UsageError, match="no user 'nobody-at-all'"):
        _found(store, "nobody-at-all")
