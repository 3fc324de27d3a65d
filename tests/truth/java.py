"""Methods of Java sources by class and name, without comments and white space: enough to compare.

No parser: braces are counted, and strings, characters and comments are known. Methods of one name
in one class count together, and so does what is in a class beside its methods. Annotations are
left out.
"""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

TOKEN: Final = re.compile(
    r"""(?sx)
    (?://[^\n]*|/\*.*?\*/|\s+)                          # nothing
    |(\"\"\".*?\"\"\"|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\w+|.)"""
)
TYPES: Final = {"class", "interface", "enum"}
CLOSES: Final = {"{": "}", "(": ")"}
REST: Final = ""  # the "method" that is all of a class but its methods: fields, initialisers

Methods = dict[str, list[str]]  # by name: the tokens of all of that name
Classes = dict[str, Methods]


def tokens_of(text: str) -> list[str]:
    """Give the tokens of a source, without comments, white space and annotations."""
    tokens = [token for token in TOKEN.findall(text) if token]
    return [*_without_annotations(tokens)]


def _without_annotations(tokens: Sequence[str]) -> Iterator[str]:
    at = 0
    while at < len(tokens):
        if tokens[at] != "@" or tokens[at + 1 : at + 2] == ["interface"]:
            yield tokens[at]
            at += 1
            continue
        at += 2  # the sign and its name
        while tokens[at : at + 1] == ["."]:
            at += 2
        if tokens[at : at + 1] == ["("]:
            at = _end(tokens, at)


def _end(tokens: Sequence[str], at: int) -> int:
    """Give where what opens at a place is closed; the end where it never is."""
    opens, closes, depth = tokens[at], CLOSES[tokens[at]], 0
    for place in range(at, len(tokens)):
        depth += (tokens[place] == opens) - (tokens[place] == closes)
        if not depth:
            return place + 1
    return len(tokens)


def _members(tokens: Sequence[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield head and block of what is in a file or the body of a class; a block may be empty."""
    head: list[str] = []
    at = 0
    while at < len(tokens):
        word = tokens[at]
        if word in CLOSES:
            end = _end(tokens, at)
            block = [*tokens[at:end]]
            at = end
            if word == "(" or "=" in head:  # parameters, or an initial value
                head += block
                continue
            yield head, block
            head = []
            continue
        at += 1
        head.append(word)
        if word == ";":
            yield head, []
            head = []
    if head:
        yield head, []


def classes_of(text: str) -> Classes:
    """Give the classes of a source, those in classes, too, with their methods."""
    found: Classes = {}
    _collect(tokens_of(text), found, {})
    return found


def _collect(tokens: Sequence[str], found: Classes, owner: Methods) -> None:
    for head, block in _members(tokens):
        kind = next((at for at, token in enumerate(head) if token in TYPES), None)
        if kind is not None and block and "(" not in head[:kind]:
            methods: Methods = {REST: [*head]}
            found.setdefault(head[kind + 1], methods)
            _collect(block[1:-1], found, methods)
            continue
        name = _method(head)
        owner.setdefault(name, []).extend([*head, *block])


def _method(head: Sequence[str]) -> str:
    """Give the name of a method by what is before its block; REST for what is no method."""
    if "(" not in head or "=" in head[: head.index("(")]:
        return REST
    return head[head.index("(") - 1]


class Sources:
    """The sources of one release."""

    def __init__(self, jars: Iterable[Path]) -> None:
        """Read jars; a class that several have is taken from the first."""
        self._texts: dict[str, str] = {}
        self._classes: Classes = {}
        for jar in jars:
            with zipfile.ZipFile(jar) as opened:
                for name in opened.namelist():
                    if name.endswith(".java"):
                        text = opened.read(name).decode("utf-8")
                        for found, methods in classes_of(text).items():
                            self._classes.setdefault(found, methods)

    def __contains__(self, name: object) -> bool:
        """Tell whether there is such a class."""
        return name in self._classes

    def methods(self, name: str) -> Methods:
        """Give the methods of a class, by name; none where it is not there."""
        return self._classes.get(name, {})
