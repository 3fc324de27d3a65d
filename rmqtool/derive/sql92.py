"""SQL92 subscriptions: whether a message's properties fulfil an expression, as a broker judges.

For the bits of a Bloom filter, one bit too many costs a consumer nothing: the broker looks at the
message itself then; one too few costs it the message. So an expression that is not understood may
be fulfilled (`may_match`). Where messages are chosen, it has to be understood (`matches`).
The parts of expressions are in sql92_nodes.py, their values in sql92_values.py.
Source: SelectorParser, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

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
_COMPARISONS: Final = ("BETWEEN", "IN", "CONTAINS", "STARTSWITH", "ENDSWITH")


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
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NotUnderstoodError
        at = match.end()
        kind = match.lastgroup
        if kind == "name" and match.group().upper() in _WORDS:
            tokens.append(("word", match.group().upper()))
        elif kind is not None:
            tokens.append((kind, match.group()))
    return tokens


class _Parser:
    """Reads an expression as RocketMQ's grammar has it, level by level."""

    def __init__(self, text: str) -> None:
        self._tokens = [*_tokens(text), ("end", "")]
        self._at = self._depth = 0

    def parse(self) -> Node:
        node = as_boolean(self._either())
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
            node = logic(node, self._both(), decisive=True)
        self._depth -= 1
        return node

    def _both(self) -> Node:
        node = self._equality()
        while self._takes("AND"):
            node = logic(node, self._equality(), decisive=False)
        return node

    def _equality(self) -> Node:
        node = self._comparison()
        while True:
            if self._takes("="):
                node = equal(node, self._comparison())
            elif self._takes("<>"):
                node = negation(equal(node, self._comparison()))
            elif self._takes("IS", "NULL"):
                node = is_null(node)
            elif self._takes("IS", "NOT", "NULL"):
                node = negation(is_null(node))
            else:
                return node

    def _comparison(self) -> Node:
        node = self._unary()
        while True:
            sign = next((sign for sign in ORDERS if self._takes(sign)), None)
            if sign:
                node = ordered(node, self._unary(), sign)
                continue
            start = self._at
            is_not = self._takes("NOT")
            word = next((word for word in _COMPARISONS if self._takes(word)), None)
            if word is None:
                self._at = start
                return node
            node = self._condition_by_word(node, word, is_not=is_not)

    def _condition_by_word(self, node: Node, word: str, *, is_not: bool) -> Node:
        if word == "BETWEEN":
            low = self._unary()
            self._expect("AND")
            return between(node, low, self._unary(), is_not=is_not)
        if word == "IN":
            self._expect("(")
            texts = [self._text()]
            while self._takes(","):
                texts.append(self._text())
            self._expect(")")
            return one_of(node, frozenset(texts), is_not=is_not)
        return part(node, word, self._text(), is_not=is_not)

    def _unary(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise NotUnderstoodError
        if self._takes("+"):
            node = self._unary()
        elif self._takes("-"):
            node = negated(self._unary())
        elif self._takes("NOT"):
            node = negation(as_boolean(self._unary()))
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
            return constant(text[1:-1].replace("''", "'"))
        if kind == "whole":
            return constant(whole(int(text.rstrip("lL"))))
        if kind == "double" and _SMALLEST_DOUBLE <= float(text) < float("inf"):
            return constant(float(text))
        if text in _CONSTANTS:
            return constant(_CONSTANTS[text])
        raise NotUnderstoodError

    def _text(self) -> str:
        kind, text = self._tokens[self._at]
        if kind != "text":
            raise NotUnderstoodError
        self._at += 1
        return text[1:-1].replace("''", "'")


# Parts of SQL92 expressions: what each gives for a message's properties, null included.
#
# Each function refuses what RocketMQ's parser refuses.
# See ComparisonExpression, LogicExpression, UnaryExpression, 4.9.3 to 5.5.0.


Properties: TypeAlias = Mapping[str, str]
ORDERS: Final[dict[str, Callable[[int, int], bool]]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le
}  # fmt: skip
_PARTS: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": operator.contains, "STARTSWITH": str.startswith, "ENDSWITH": str.endswith
}  # fmt: skip


class Node(NamedTuple):
    """A part of an expression."""

    evaluate: Callable[[Properties], object]  # gives text, `Whole`, float, truth, or None for null
    kind: str  # `constant`, `property`, `boolean` or `number` (a negated property)
    value: object = None  # of a constant

    @property
    def is_boolean(self) -> bool:
        """Whether it is an expression of truth to RocketMQ's parser."""
        return self.kind == "boolean" or (
            self.kind == "constant" and (self.value is None or isinstance(self.value, bool))
        )


def constant(value: object) -> Node:
    """Give a literal."""
    return Node(lambda _: value, "constant", value)


def as_boolean(node: Node) -> Node:
    """Take a property for its truth: none is, as all of them are texts."""
    if node.is_boolean:
        return node
    if node.kind != "property":
        raise NotUnderstoodError
    return Node(lambda values: None if node.evaluate(values) is None else False, "boolean")


def logic(left: Node, right: Node, *, decisive: bool) -> Node:
    """Give OR, which truth decides, or AND, which falsehood does; null is neither."""
    first, second = as_boolean(left), as_boolean(right)

    def evaluate(properties: Properties) -> object:
        value = first.evaluate(properties)
        if value is decisive:
            return decisive
        other = second.evaluate(properties)
        if other is decisive:
            return decisive
        return None if value is None or other is None else not decisive

    return Node(evaluate, "boolean")


def negation(node: Node) -> Node:
    """Give NOT; of null it is null."""

    def evaluate(properties: Properties) -> object:
        value = node.evaluate(properties)
        return None if value is None else value is not True

    return Node(evaluate, "boolean")


def negated(node: Node) -> Node:
    """Give a number with its sign turned, within its size; of a text it is null."""

    def evaluate(properties: Properties) -> object:
        value = node.evaluate(properties)
        if isinstance(value, Whole):
            half = 1 << value.bits - 1
            return Whole((-value.value + half) % (2 * half) - half, value.bits)
        return -value if isinstance(value, float) else None

    return Node(evaluate, "number")


def is_null(node: Node) -> Node:
    """Tell whether a property is missing."""
    return Node(lambda properties: node.evaluate(properties) is None, "boolean")


def equal(left: Node, right: Node) -> Node:
    """Give `=`: null where the left side is, false where only the right one is."""
    for node in (left, right):
        if node.kind == "constant" and node.value is None:
            raise NotUnderstoodError
    both = left.kind == right.kind == "constant"
    if both and isinstance(left.value, bool) and not isinstance(right.value, bool):
        raise NotUnderstoodError

    def evaluate(properties: Properties) -> object:
        left_value, other = left.evaluate(properties), right.evaluate(properties)
        if left_value is None or other is None:
            return True if left_value is other else None if left_value is None else False
        return order(left_value, other) == 0

    return Node(evaluate, "boolean")


def ordered(left: Node, right: Node, sign: str) -> Node:
    """Give `<` and the like: of two texts both have to be numbers."""
    for node in (left, right):
        if node.is_boolean or (node.kind == "constant" and isinstance(node.value, str)):
            raise NotUnderstoodError
    fits = ORDERS[sign]

    def evaluate(properties: Properties) -> object:
        left_value = left.evaluate(properties)
        other = right.evaluate(properties) if left_value is not None else None
        if left_value is None or other is None:
            return None
        if isinstance(left_value, str) and isinstance(other, str):
            return fits(order(double(left_value), double(other)), 0)
        return fits(order(left_value, other), 0)

    return Node(evaluate, "boolean")


def between(node: Node, low: Node, high: Node, *, is_not: bool) -> Node:
    """Give BETWEEN; its bounds must be in order."""
    if low.kind == high.kind == "constant":
        if low.value is None or high.value is None:
            raise NotUnderstoodError
        try:
            if order(high.value, low.value) < 0:
                raise NotUnderstoodError
        except NotComparableError as error:
            raise NotUnderstoodError from error
    if is_not:
        return logic(ordered(node, low, "<"), ordered(node, high, ">"), decisive=True)
    return logic(ordered(node, low, ">="), ordered(node, high, "<="), decisive=False)


def one_of(node: Node, texts: frozenset[str], *, is_not: bool) -> Node:
    """Give IN, of a property."""
    if node.kind != "property":
        raise NotUnderstoodError

    def evaluate(properties: Properties) -> object:
        value = node.evaluate(properties)
        return None if value is None else (value in texts) != is_not

    return Node(evaluate, "boolean")


def part(node: Node, word: str, searched: str, *, is_not: bool) -> Node:
    """`CONTAINS` and the like, of 5.x."""
    if node.kind != "property" or not searched:
        raise NotUnderstoodError
    fits = _PARTS[word]

    def evaluate(properties: Properties) -> object:
        value = node.evaluate(properties)
        return isinstance(value, str) and fits(value, searched) != is_not

    return Node(evaluate, "boolean")


# Values of SQL92 expressions, and how RocketMQ compares them: a text becomes what it meets.
#
# See ComparisonExpression#__compare, ConstantExpression, Java's `valueOf`, 4.9.3 to 5.5.0.


_JAVA_INTEGER: Final = re.compile(r"[+-]?\d+")
_JAVA_DOUBLE: Final = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
)


class NotUnderstoodError(Exception):
    """An expression that no broker accepts, or one that only a later one does."""


class NotComparableError(Exception):
    """A broker's evaluation fails here, and the message does not match."""


class Whole(NamedTuple):
    """A number of Java's `Integer` or `Long`: a text is compared with it only if it fits."""

    value: int
    bits: int


def whole(value: int) -> Whole:
    """Give a literal as Integer if it fits, else as Long."""
    for bits in (32, 64):
        if -(1 << bits - 1) <= value < 1 << bits - 1:
            return Whole(value, bits)
    raise NotUnderstoodError


def order(value: object, other: object) -> int:
    """Compare as `ComparisonExpression#__compare`: 0 for equal; a text becomes what it meets."""
    if isinstance(value, str) and not isinstance(other, str):
        value = _converted(value, other)
    elif isinstance(other, str) and not isinstance(value, str):
        if isinstance(value, bool):
            raise NotComparableError  # RocketMQ converts the wrong one of them, and fails
        other = _converted(other, value)
    if isinstance(value, bool) != isinstance(other, bool):
        return -1
    if isinstance(value, Whole | float) and isinstance(other, Whole | float):
        return _numbers(value, other)
    if isinstance(value, bool | str) and type(value) is type(other):
        return (value > other) - (value < other)  # type: ignore[operator]  # of one type
    raise NotComparableError


def _numbers(value: Whole | float, other: Whole | float) -> int:
    if isinstance(value, Whole) and isinstance(other, Whole):
        return (value.value > other.value) - (value.value < other.value)
    left, right = (float(n.value) if isinstance(n, Whole) else n for n in (value, other))
    if math.isnan(left) or math.isnan(right):  # the largest to Java, and equal to itself
        return math.isnan(left) - math.isnan(right)
    if left == right == 0:
        left, right = math.copysign(1, left), math.copysign(1, right)
    return (left > right) - (left < right)


def _converted(text: str, like: object) -> object:
    """Read a text as what it is compared with."""
    if isinstance(like, bool):
        return text.lower() == "true"
    if isinstance(like, float):
        return double(text)
    if isinstance(like, Whole) and _JAVA_INTEGER.fullmatch(text):
        value = int(text)
        if -(1 << like.bits - 1) <= value < 1 << like.bits - 1:
            return Whole(value, like.bits)
    raise NotComparableError


def double(text: str) -> float:
    """Read a text as `Double.valueOf` does."""
    bare = text.strip("".join(map(chr, range(33))))
    if not _JAVA_DOUBLE.fullmatch(bare):
        raise NotComparableError
    return float(bare.rstrip("fFdD") if bare[-1] in "fFdD" and "N" not in bare else bare)
