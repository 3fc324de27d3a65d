"""SQL92 subscriptions: whether a message's properties fulfil an expression, as a broker judges.

For the bits of a Bloom filter, one bit too many costs a consumer nothing: the broker looks at the
message itself then; one too few costs it the message. So an expression that is not understood may
be fulfilled (`may_match`). Where messages are chosen, it has to be understood (`matches`).
The parts of expressions are in sql92_nodes.py, their values in sql92_values.py.
Source: SelectorParser, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rmqtool.derive import sql92_nodes as nodes
from rmqtool.derive.sql92_nodes import Node
from rmqtool.derive.sql92_values import NotComparableError, NotUnderstoodError, whole

if TYPE_CHECKING:
    from rmqtool.derive.sql92_nodes import Properties

_TOKEN: Final = re.compile(
    r"[ \t\n\r\f]+|--[^\n\r]*[\n\r]|/\*.*?\*/"
    r"|(?P<double>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?"
    r"|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<whole>0|[1-9][0-9]*[lL]?)"
    r"|(?P<text>'(?:''|[^'])*')"
    r"|(?P<name>[a-zA-Z_$][a-zA-Z0-9_$]*)"
    r"|(?P<sign><>|>=|<=|[=<>(),+-])",
    re.DOTALL,
)
_WORDS: Final = frozenset(
    [
        *("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"),
        *("CONTAINS", "STARTSWITH", "ENDSWITH"),  # of 5.x
    ]
)
_SMALLEST_DOUBLE: Final = 5e-324
_DEEPEST: Final = 50  # levels of brackets
_CONSTANTS: Final = {"TRUE": True, "FALSE": False, "NULL": None}
_FURTHER: Final = ("BETWEEN", "IN", "CONTAINS", "STARTSWITH", "ENDSWITH")


class Subscription:
    """A compiled expression.

    Args:
        text: SQL92, as consumers write it.
    """

    def __init__(self, text: str) -> None:
        self.is_understood = True
        try:
            self._node = _Parser(text).parse()
        except NotUnderstoodError:
            self.is_understood = False

    def may_match(self, properties: Properties) -> bool:
        """Tell whether a message matches, or might."""
        return not self.is_understood or self.matches(properties)

    def matches(self, properties: Properties) -> bool:
        """Tell whether a message matches an expression that is understood.

        What fails, or is neither true nor false, does not match.
        Source: ExpressionMessageFilter#isMatchedByCommitLog, 4.9.3 to 5.5.0.
        """
        try:
            return self._node.evaluate(properties) is True
        except NotComparableError:
            return False


def _tokens(text: str) -> list[tuple[str, str]]:
    """Cut an expression into (kind, text)."""
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NotUnderstoodError
        at = match.end()
        kind = match.lastgroup
        if kind == "name" and match.group().upper() in _WORDS:
            found.append(("word", match.group().upper()))
        elif kind is not None:
            found.append((kind, match.group()))
    return found


class _Parser:
    """Reads an expression as RocketMQ's grammar has it, level by level."""

    def __init__(self, text: str) -> None:
        self._tokens = [*_tokens(text), ("end", "")]
        self._at = self._depth = 0

    def parse(self) -> Node:
        node = nodes.as_boolean(self._either())
        if self._tokens[self._at][0] != "end":
            raise NotUnderstoodError
        return node

    def _takes(self, *words: str) -> bool:
        """Pass over some words or signs if they are next."""
        ahead = self._tokens[self._at : self._at + len(words)]
        if [text for kind, text in ahead if kind in {"word", "sign"}] != [*words]:
            return False
        self._at += len(words)
        return True

    def _expect(self, word: str) -> None:
        if not self._takes(word):
            raise NotUnderstoodError

    def _either(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise NotUnderstoodError
        node = self._both()
        while self._takes("OR"):
            node = nodes.logic(node, self._both(), decisive=True)
        self._depth -= 1
        return node

    def _both(self) -> Node:
        node = self._equality()
        while self._takes("AND"):
            node = nodes.logic(node, self._equality(), decisive=False)
        return node

    def _equality(self) -> Node:
        node = self._comparison()
        while True:
            if self._takes("="):
                node = nodes.equal(node, self._comparison())
            elif self._takes("<>"):
                node = nodes.negation(nodes.equal(node, self._comparison()))
            elif self._takes("IS", "NULL"):
                node = nodes.is_null(node)
            elif self._takes("IS", "NOT", "NULL"):
                node = nodes.negation(nodes.is_null(node))
            else:
                return node

    def _comparison(self) -> Node:
        node = self._unary()
        while True:
            sign = next((one for one in nodes.ORDERS if self._takes(one)), None)
            if sign:
                node = nodes.ordered(node, self._unary(), sign)
                continue
            start = self._at
            is_not = self._takes("NOT")
            word = next((one for one in _FURTHER if self._takes(one)), None)
            if word is None:
                self._at = start
                return node
            node = self._further(node, word, is_not=is_not)

    def _further(self, node: Node, word: str, *, is_not: bool) -> Node:
        if word == "BETWEEN":
            low = self._unary()
            self._expect("AND")
            return nodes.between(node, low, self._unary(), is_not=is_not)
        if word == "IN":
            self._expect("(")
            texts = [self._text()]
            while self._takes(","):
                texts.append(self._text())
            self._expect(")")
            return nodes.one_of(node, frozenset(texts), is_not=is_not)
        return nodes.part(node, word, self._text(), is_not=is_not)

    def _unary(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise NotUnderstoodError
        if self._takes("+"):
            node = self._unary()
        elif self._takes("-"):
            node = nodes.negated(self._unary())
        elif self._takes("NOT"):
            node = nodes.negation(nodes.as_boolean(self._unary()))
        elif self._takes("("):
            node = self._either()
            self._expect(")")
        else:
            node = self._primary()
        self._depth -= 1
        return node

    def _primary(self) -> Node:
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "name":
            return Node(lambda properties: properties.get(text), "property")
        if kind == "text":
            return nodes.constant(text[1:-1].replace("''", "'"))
        if kind == "whole":
            return nodes.constant(whole(int(text.rstrip("lL"))))
        if kind == "double" and _SMALLEST_DOUBLE <= float(text) < float("inf"):
            return nodes.constant(float(text))
        if text in _CONSTANTS:
            return nodes.constant(_CONSTANTS[text])
        raise NotUnderstoodError

    def _text(self) -> str:
        kind, text = self._tokens[self._at]
        if kind != "text":
            raise NotUnderstoodError
        self._at += 1
        return text[1:-1].replace("''", "'")
