"""All that a user reads is in plain words: no inverted clauses, one word for one direction.

Collected are the texts in the source that are more than a word or two (what findings, errors,
hints, columns, options and the manual are made of), the help of the commands, the examples, and
the pages for users. What only developers read, docstrings and comments, is not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from tests.imports import PACKAGE, modules

ROOT: Final = PACKAGE.parent
# What readers whose first language is another one stumble over; `words.md` of the design.
HARD: Final = re.compile(
    r"\b(behind|in front of|foretell|foretold|whereof|whoever"
    r"|(of|at|over|in|by|for|to|from|with|through|after) which|what of it"
    r"|is none|not nothing|why: none|where nothing tells|nobody (knows|can)|to nobody"
    r"|stands? alone|pass(es)? over|no room for|further queues?|the same kind of nothing"
    r"|(is|are) to be|surroundings)\b",
    re.IGNORECASE,
)
# Habits of one who writes English as another language.
HABITS: Final = re.compile(
    r"(?<!there )(?<!There )\b(is|are|was|were) no (?!longer|more|less|earlier|later|worse)\w+"
    r"|\b(those that|that of)\b|\b(a person|somebody|nobody|someone)\b"
    r"|\b(row|line|file|value|task) an? (store|record|message|queue|file|row|segment|unit|key)\b"
    r"|\banew\b|\bthe begin\b|\bElse\b|, else\b|\ball the same\b|\bvouch"
    r"|\b(unit|record|message|entry|queue|row)s? (stands?|lies?|asks?|tells?)\b"
    r"|(^|[.:;,] |\b(of|to|from|for|with|by|is|and|or|than) )what (comes?|lies|stands|can|was|is)\b"
    r"(?! (wrong|lost|to do|tried))",
)
MOST_WORDS: Final = 23  # of a sentence
SENTENCE: Final = re.compile(r"(?<=[.;:?])\s+|\n\s*\n")
WORD: Final = re.compile(r"[^\s\"'(),=]*[A-Za-z]{2}[^\s]*")
LEAST_WORDS: Final = 3  # of what is not a name or a key; a piece of a line may be hard, too
CODE: Final = re.compile(r"\bSELECT\b|^from rmqtool|\(\?P<|[0-9]{2}  +[0-9]", re.MULTILINE)
NUMBER: Final = re.compile(r"(len|sum)\(|count$|count [-+]|[^(]* [-+] (len|sum)\(")  # an expression
THINGS: Final = re.compile(
    r" (\w+ )?(records|messages|units|entries|queues|segments|bytes|rows|topics|groups|timers|files"
    r"|stores|slots|blocks|lines|characters|numbers|values|keys|copies|places|others|more)\b"
)
SAMPLES: Final = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
PAGES: Final = (
    *("README.md", "CHANGELOG.md", "DEPENDENCIES.md", "SECURITY.md", "fixtures/README.md"),
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
)
PAST: Final = re.compile(r"\n## Before")  # of a changelog: what was noted is as it was


def text_of(node: ast.AST) -> str | None:
    """Give a literal text; `{}` stands for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "{}" for part in node.values)
    return None


def texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the literal texts below a node with their lines, without docstrings."""
    left = [(node, "")]
    while left:
        above, whole = left.pop()
        for child in ast.iter_child_nodes(above):
            if isinstance(child, ast.Expr) and text_of(child.value) is not None:
                continue
            text = text_of(child)
            if text and text not in whole:
                yield getattr(child, "lineno", 0), text
            if text is None or isinstance(child, ast.JoinedStr):
                left.append((child, whole + (text or "")))


def is_command(node: ast.AST) -> bool:
    """Tell whether a class is a command: its docstring is its help."""
    return isinstance(node, ast.ClassDef) and any(
        isinstance(base, ast.Name) and base.id == "Command" for base in node.bases
    )


def sentences_of_source() -> Iterator[tuple[str, str]]:
    """Yield the texts of the source that have several words, each with its place."""
    for name, tree in modules():
        found = list(texts(tree))
        found += [
            (node.lineno, ast.get_docstring(node) or "")
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef) and is_command(node)
        ]
        for line, text in found:
            is_reported = len(WORD.findall(text)) >= LEAST_WORDS or (
                " " in text and HARD.search(text)
            )
            if is_reported and not CODE.search(text):
                yield f"{name}:{line}", text
    for path in sorted((PACKAGE / "cli" / "manual" / "texts").glob("*.txt")):
        for part in path.read_text(encoding="utf-8").split("\n\n"):
            if not part.startswith((" ", "#", "@", "=")) and not CODE.search(part):
                yield path.name, " ".join(part.split())
    for path in sorted((PACKAGE / "cli" / "examples").glob("*.txt")):
        for number, typed in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if typed.startswith("#"):
                yield f"{path.name}:{number}", typed


@pytest.fixture(scope="module")
def source() -> list[tuple[str, str]]:
    """Give the texts of the source: read when a test asks, not by each worker that collects."""
    return [*sentences_of_source()]


def test_collected(source: list[tuple[str, str]]) -> None:
    """The collection has what users read: a finding, an error, an option, help and an example."""
    all_of_it = "\n".join(text for _, text in source)
    for part in (
        "the body does not have the CRC that the broker stored",
        "without a terminal to ask on, it needs --yes",
        "Write rows to a new file instead of standard output.",
        "The one command to know.",
        "# Transactions that are still open.",
        "What Spark has to put somewhere",
        "bytes past the last entry are not zero",
    ):
        assert part in all_of_it


def test_source(source: list[tuple[str, str]]) -> None:
    """No text of the source has a hard word, or a habit that readers stumble over."""
    hard = [
        (place, match[0], text)
        for place, text in source
        for words in (HARD, HABITS)
        for match in words.finditer(text)
    ]
    assert [] == hard


def counts_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of each number of things that stands before their name without a format.

    A number is what plainly is one: a length, a sum, a `count`, and these plus or minus something.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for one, after in pairwise(node.values):
                if (
                    isinstance(one, ast.FormattedValue)
                    and one.format_spec is None
                    and NUMBER.match(ast.unparse(one.value))
                    and THINGS.match(text_of(after) or "")
                ):
                    yield node.lineno, ast.unparse(one.value) + (text_of(after) or "")


def plurals_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of each number that may be 1 before the plural of what it counts.

    Not meant: bytes, constants, what a condition chose, and the second number of `3 of 20 rows`.
    """
    chosen = {
        id(branch)
        for node in ast.walk(tree)
        if isinstance(node, ast.IfExp)
        for branch in (node.body, node.orelse)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr) or id(node) in chosen:
            continue
        texts = ["", *(text_of(value) or "" for value in node.values), ""]
        for place, number in enumerate(node.values, 1):
            things = THINGS.match(texts[place + 1])
            if (
                things is not None
                and things[2] not in {"bytes", "others", "more"}
                and isinstance(number, ast.FormattedValue)
                and number.format_spec is not None
                and not ast.unparse(number.value).isupper()
                and not texts[place - 1].endswith(" of ")
            ):
                yield node.lineno, ast.unparse(number.value) + texts[place + 1]


def test_separators() -> None:
    """Numbers of things in sentences have separators: `1,591 index entries`."""
    found = [(name, *one) for name, tree in modules() for one in counts_of(tree)]
    assert [] == found
    assert [(1, "len(rows) rows")] == [*counts_of(ast.parse('f"{len(rows)} rows"'))]


def test_plurals() -> None:
    """Nothing says `1 units`: numbers that may be 1 go through `counted`."""
    found = [(name, *one) for name, tree in modules() for one in plurals_of(tree)]
    assert [] == found
    assert [(1, "count rows")] == [*plurals_of(ast.parse('f"{count:,} rows"'))]
    assert not [*plurals_of(ast.parse('f"{count:,} of {whole:,} rows" if a else f"{b:,} rows"'))]


def test_length(source: list[tuple[str, str]]) -> None:
    """No sentence is longer than a reader keeps in mind."""
    long = [
        (place, sentence)
        for place, text in source
        for sentence in SENTENCE.split(text)
        if len(WORD.findall(sentence)) > MOST_WORDS
    ]
    assert [] == long


@pytest.mark.parametrize("name", PAGES)
def test_pages(name: str) -> None:
    """Nor has a page for users."""
    text = PAST.split((ROOT / name).read_text(encoding="utf-8"))[0]
    plain = SAMPLES.sub("", text)
    assert [] == [match[0] for words in (HARD, HABITS) for match in words.finditer(plain)]


@pytest.mark.parametrize("path", sorted((ROOT / "man").rglob("*.[157]")), ids=lambda one: one.name)
def test_manual(path: Path) -> None:
    """Nor has the manual, whose sentences are put together of many."""
    text = " ".join(path.read_text(encoding="utf-8").replace("\\-", "-").split())
    text = re.sub(r"[A-Z]{2}-BEHIND\b", "", text)  # permanent names
    assert [] == HARD.findall(text)
