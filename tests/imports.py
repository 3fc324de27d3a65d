"""The imports of rmqtool, read from the source: who knows whom."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parent.parent / "rmqtool"


class Import(NamedTuple):
    """One import.

    Attributes:
        importer: dotted name of the module that imports.
        imported: dotted name of what it imports.
        is_lazy: it stands in a function, or serves only the type checker.
    """

    importer: str
    imported: str
    is_lazy: bool


@cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    """Give dotted name and syntax tree of each module; parsed once, so nobody changes a tree.

    Looking for garbage among all that is made would take longer than making it.
    """
    gc.disable()
    try:
        return tuple(_parsed())
    finally:
        gc.freeze()
        gc.enable()


def _parsed() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        yield name.removesuffix(".__init__"), ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports() -> tuple[Import, ...]:
    """Give each import of each module."""
    return tuple(one for name, tree in modules() for one in _imports(name, tree, is_lazy=False))


def _imports(module: str, node: ast.AST, *, is_lazy: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(module, alias.name, is_lazy)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            target = f"{node.module}.{alias.name}"
            yield Import(module, target if _is_module(target) else node.module, is_lazy)
    is_lazy = is_lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    is_lazy = is_lazy or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _imports(module, child, is_lazy=is_lazy)


@cache
def _is_module(dotted: str) -> bool:
    path = PACKAGE.parent.joinpath(*dotted.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()
