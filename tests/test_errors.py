"""What cannot be done is told with its place and with what to do next."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Final

import pytest

from rmqtool import errors
from tests.imports import modules

OF_PATHS: Final = {
    name: kind
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.StoreError | errors.RepairError) and kind is not errors.StoreError
}


def reasons() -> Iterator[tuple[str, str, str]]:
    """Give where an error of a path is raised, its class and the fixed part of its reason."""
    for name, tree in modules():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                yield from _raised(name, function)


def _raised(module: str, function: ast.FunctionDef) -> Iterator[tuple[str, str, str]]:
    named: dict[str, str] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named[node.targets[0].id] = _text(node.value, {})
    for node in ast.walk(function):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            call = node.exc
            kind = call.func.id if isinstance(call.func, ast.Name) else ""
            for word in call.keywords:
                if kind in OF_PATHS and word.arg == "reason":
                    yield f"{module}:{node.lineno}", kind, _text(word.value, named)


def _text(node: ast.expr, named: dict[str, str]) -> str:
    """Give what is known of a text before the program runs."""
    if isinstance(node, ast.Name):
        return named.get(node.id, "")
    parts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
    return "".join(str(part) for part in parts)


RAISED: Final = list(reasons())


@pytest.mark.parametrize(
    ("kind", "reason"), [one[1:] for one in RAISED], ids=[o[0] for o in RAISED]
)
def test_next_step(kind: str, reason: str) -> None:
    """Each error about a path says what to try next: by its class, or in its own words."""
    error = OF_PATHS[kind](path="a/path", reason=reason)
    assert "a/path" in str(error)
    assert error.next_step or "--" in reason or "choose" in reason
    assert error.next_step == "" or error.next_step not in reason


def test_all_are_seen() -> None:
    """The walk through the sources finds what it is meant to find."""
    assert {"NotAStore", "UnreadablePath", "UnsupportedStore", "RepairError"} <= {
        kind for _, kind, _ in RAISED
    }
    assert 30 < len(RAISED)


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        ("permission denied", "as the user that the broker runs as"),
        ("no such file or directory", "storePathRootDir"),
        ("Input/output error", "bad sectors"),
        ("is a link; links inside a store are not followed", "ls -l"),
    ],
)
def test_reading(reason: str, step: str) -> None:
    """What the system says when it refuses to read has an answer that fits."""
    assert step in errors.UnreadablePath(path="x", reason=reason).next_step


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        ("No space left on device", "more room"),
        ("Permission denied", "may write"),
        ("Read-only file system", "may write"),
        ("No such file or directory", "a directory that exists"),
    ],
)
def test_writing(reason: str, step: str) -> None:
    """What the system says when it refuses to write has an answer that fits."""
    assert step in errors.WriteFailed(path="x", reason=reason).next_step
