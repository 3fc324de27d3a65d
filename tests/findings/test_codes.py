"""Codes are values that say all about themselves, and nobody goes by the words of a finding."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from typing import Final

from rmqtool.findings import registry
from rmqtool.findings.catalogue import FAMILIES, Code, Cure, Owner
from rmqtool.findings.finding import DLEDGER_HEADER, At, Finding, finding
from rmqtool.findings.registry import CODES
from rmqtool.formats.dledger import DLEDGER_BODY_OFFSET
from tests.imports import modules

CODE: Final = re.compile(rf"\b(?:{'|'.join(FAMILIES)})-[A-Z]+(?:-[A-Z]+)*\b(?!-)")
BY_START: Final = frozenset({"CQ-LAG", "IX-CRASH", "RQ-BEHIND"})  # the next start mends these, too
WORDS: Final = frozenset({"message", "actual", "reason", "repair"})
ASKING: Final = frozenset(
    {"startswith", "endswith", "split", "partition", "find", "index", "count"}
)
# What other programs say is all that is known of it.
FOREIGN: Final = frozenset({"rmqtool.spark.jobs", "rmqtool.spark.session"})


def test_named_like_their_constants() -> None:
    """A code is found under the constant that has its name, and under no other."""
    named = {
        name: code
        for module in vars(registry).values()
        if getattr(module, "__name__", "").startswith("rmqtool.findings.registry_")
        for name, code in vars(module).items()
        if isinstance(code, Code)
    }
    assert {code.name.replace("-", "_"): code for code in CODES.values()} == named


def test_complete() -> None:
    """Each code names its area, its owner, what it means, what follows, and what helps."""
    assert [] == [name for name, code in CODES.items() if not all(claims(code))]


def claims(code: Code) -> Iterator[bool]:
    """Yield what must be true of a code."""
    yield code.area in code.family
    yield all([code.meaning, code.consequence, code.remedy, code.command.startswith("rmqtool ")])
    yield bool(code.also) == bool(code.when)
    yield code.severity not in code.also
    yield isinstance(code.owner, Owner)
    # One field decides who ends it, and remedy and command agree with it.
    yield code.remedy.startswith("none") == (code.cure in {Cure.NONE, Cure.NOT_NEEDED})
    by_repair = code.command.startswith("rmqtool repair") or code in BY_START
    yield by_repair == (code.cure is Cure.REPAIR)


def test_owners() -> None:
    """Each part of `repair` that owns codes owns one at least."""
    assert {*Owner} == {code.owner for code in CODES.values()}


def test_travels() -> None:
    """A finding comes back from another process as it went."""
    there = finding(CODES["CQ-GAP"], At("consumequeue/T/0", topic="T", queue_id=0))
    back: Finding = pickle.loads(pickle.dumps(there))  # noqa: S301 - our own
    assert there == back
    assert back.code.owner is Owner.QUEUES
    assert there.row() == back.row()
    assert [str] == list({type(back.row()[name]) for name in ("code", "severity")})


def test_no_raw_codes() -> None:
    """Outside of findings/ a code is never written as text of its own."""
    raw = [
        f"{name}:{line} {text}"
        for name, tree in modules()
        if not name.startswith("rmqtool.findings.")
        for line, text in _texts(tree)
        if CODE.fullmatch(text)
    ]
    assert [] == raw


def test_known_codes() -> None:
    """What looks like a code in a sentence of the manual or the help is one."""
    texts = (text for _, tree in modules() for _, text in _texts(tree))
    assert CODES.keys() >= {word for text in texts for word in CODE.findall(text)}


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_words_decide_nothing() -> None:
    """No module compares, searches or takes apart what a finding or an error says to people."""
    asked = [
        f"{name}: {ast.unparse(node)}"
        for name, tree in modules()
        if name not in FOREIGN
        for node in ast.walk(tree)
        if _asks(node)
    ]
    assert [] == asked


def _asks(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return any(map(_is_reported, (node.left, *node.comparators)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ASKING and _is_reported(node.func.value)
    return False


def _is_reported(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in WORDS


def test_dledger_header() -> None:
    """The length that findings/, the lowest floor, states is the one that formats/ declares."""
    assert DLEDGER_BODY_OFFSET == DLEDGER_HEADER
