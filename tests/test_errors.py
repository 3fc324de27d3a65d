"""What cannot be done is told with its place and with what to do next."""

from __future__ import annotations

import ast
import errno
import inspect
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from rmqtool import errors
from rmqtool.errors import Trouble
from rmqtool.store.place import Place
from tests.imports import modules

OF_PATHS: Final = {
    name: kind
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.StoreError | errors.RepairError) and kind is not errors.StoreError
}


@pytest.fixture(scope="module")
def raised() -> list[tuple[str, str, str, Trouble]]:
    """Give where an error of a path is raised, its class, the fixed part of its reason, and why."""
    return [
        one
        for name, tree in modules()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for one in _raised(name, function)
    ]


def _raised(module: str, function: ast.FunctionDef) -> Iterator[tuple[str, str, str, Trouble]]:
    named: dict[str, str] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named[node.targets[0].id] = _text(node.value, {})
    for node in ast.walk(function):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            call = node.exc
            kind = call.func.id if isinstance(call.func, ast.Name) else ""
            words = {word.arg: word.value for word in call.keywords}
            if kind in OF_PATHS and "reason" in words:
                trouble = getattr(words.get("trouble"), "attr", "OTHER").upper()
                known = Trouble.__members__.get(trouble, Trouble.OTHER)
                yield f"{module}:{node.lineno}", kind, _text(words["reason"], named), known


def _text(node: ast.expr, named: dict[str, str]) -> str:
    """Give what is known of a text before the program runs."""
    if isinstance(node, ast.Name):
        return named.get(node.id, "")
    parts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
    return "".join(str(part) for part in parts)


def test_next_step(raised: list[tuple[str, str, str, Trouble]]) -> None:
    """Each error about a path says what to try next: by its trouble, or in its own words."""
    for place, kind, reason, trouble in raised:
        error = OF_PATHS[kind](path="a/path", reason=reason, trouble=trouble)
        assert "a/path" in str(error), place
        is_given = (
            trouble is Trouble.EXPLAINED
        )  # the reason says it, in words that may be put together
        is_enough = is_given or "--" in reason or "choose" in reason
        assert (error.next_step == "") == is_enough, place
        assert error.next_step == "" or error.next_step not in reason, place


def test_all_are_seen(raised: list[tuple[str, str, str, Trouble]]) -> None:
    """The walk through the sources finds what it is meant to find."""
    assert {"NotAStore", "UnreadablePath", "UnsupportedStore", "RepairError"} <= {
        kind for _, kind, _, _ in raised
    }
    assert 30 < len(raised)


@pytest.mark.parametrize(
    ("number", "step"),
    [
        (errno.EACCES, "as the user that the broker runs as"),
        (errno.ENOENT, "storePathRootDir"),
        (errno.EIO, "bad sectors"),
        (errno.ELOOP, "ls -l"),
        (errno.EISDIR, "a file in it"),
    ],
)
def test_reading(number: int, step: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the system says when it refuses to read has an answer that fits."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(errors.UnreadablePath) as refused:
        Place.of(tmp_path).names()
    assert step in refused.value.next_step


@pytest.mark.parametrize(
    ("number", "step"),
    [
        (errno.ENOSPC, "more room"),
        (errno.EDQUOT, "more room"),
        (errno.EACCES, "may write"),
        (errno.EROFS, "may write"),
        (errno.ENOENT, "a directory that exists"),
        (errno.ENAMETOOLONG, "another name"),
    ],
)
def test_writing(number: int, step: str) -> None:
    """What the system says when it refuses to write has an answer that fits."""
    refused = errors.WriteFailed.of("x", OSError(number, os.strerror(number)))
    assert step in refused.next_step


def test_trouble_travels() -> None:
    """What a task on an executor could not read has its next step here, too."""
    error = errors.UnreadablePath(path="x", reason="denied", trouble=Trouble.DENIED)
    assert error.next_step == pickle.loads(pickle.dumps(error)).next_step  # noqa: S301 - our own
