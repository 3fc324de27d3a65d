"""Mutants: one line of a module, changed in one way."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
BOOLEANS: Final[dict[type[ast.boolop], type[ast.boolop]]] = {ast.And: ast.Or, ast.Or: ast.And}
DELETED: Final = (ast.Raise, ast.AugAssign, ast.Expr, ast.Continue, ast.Break)
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class Mutant(NamedTuple):
    """One change.

    Attributes:
        path: of the module, from the root of the tree.
        line: number of the line, from 1.
        begin: offset in the module, characters.
        before: what stands there.
        after: what it becomes.
    """

    path: str
    line: int
    begin: int
    before: str
    after: str

    def applied(self, source: str) -> str:
        """Give the changed module."""
        assert source.startswith(self.before, self.begin)
        return source[: self.begin] + self.after + source[self.begin + len(self.before) :]


def mutants_of(package: Path, dice: np.random.Generator, count: int) -> list[Mutant]:
    """Choose lines that can be changed, each as likely as any other, and one change of each."""
    lines: dict[tuple[str, int], list[Mutant]] = {}
    for path in sorted(package.rglob("*.py")):
        for mutant in changes(str(path), path.read_text(encoding="utf-8")):
            lines.setdefault((mutant.path, mutant.line), []).append(mutant)
    keys = list(lines)
    chosen = dice.choice(len(keys), size=min(count, len(keys)), replace=False)
    return [lines[keys[at]][int(dice.integers(len(lines[keys[at]])))] for at in chosen]


def changes(path: str, source: str) -> Iterator[Mutant]:
    """Yield all changes of a module that the table above knows."""
    offsets = [0]
    for text in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(text))
    for node in _behaviour(ast.parse(source)):
        if not (variants := [*_variants(node)]):
            continue
        before = ast.get_source_segment(source, node)
        line = source[offsets[node.lineno - 1] : offsets[node.lineno]].encode()
        column = len(line[: node.col_offset].decode())
        for after in variants:
            if before and "\n" not in before:
                yield Mutant(path, node.lineno, offsets[node.lineno - 1] + column, before, after)


def function_line(mutant: Mutant) -> int:
    """Give the first line of the function that a mutant lies in, or 0; decorators are of it."""
    tree = ast.parse(Path(mutant.path).read_text(encoding="utf-8"))
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS) and node.lineno <= mutant.line <= (node.end_lineno or 0):
            found = max(found, min(one.lineno for one in (node, *node.decorator_list)))
    return found


def _behaviour(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield what does something: no annotation, no docstring, nothing for type checkers only."""
    for name, value in ast.iter_fields(tree):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr | ast.Import):
                continue
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                continue
            if isinstance(node, ast.expr | ast.stmt):
                yield node
            yield from _behaviour(node)


def _variants(node: ast.expr | ast.stmt) -> Iterator[str]:
    made = copy.deepcopy(node)
    if isinstance(made, ast.Compare) and type(made.ops[0]) in COMPARISONS:
        made.ops[0] = COMPARISONS[type(made.ops[0])]()
        yield f"({ast.unparse(made)})"
    elif isinstance(made, ast.BinOp) and type(made.op) in OPERATORS:
        made.op = OPERATORS[type(made.op)]()
        yield f"({ast.unparse(made)})"
    elif isinstance(made, ast.BoolOp):
        made.op = BOOLEANS[type(made.op)]()
        yield f"({ast.unparse(made)})"
    elif isinstance(made, ast.UnaryOp) and isinstance(made.op, ast.Not):
        yield f"bool({ast.unparse(made.operand)})"
    elif isinstance(made, ast.Constant) and isinstance(made.value, bool):
        yield str(not made.value)
    elif isinstance(made, ast.Constant) and isinstance(made.value, int):
        yield str(made.value + 1)
    elif isinstance(made, ast.Return) and ast.unparse(made) not in {"return", "return None"}:
        yield "return None"
    elif isinstance(made, DELETED) and not _is_text(made):
        yield "pass"


def _is_text(node: ast.stmt) -> bool:
    """A docstring, or `...`."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
