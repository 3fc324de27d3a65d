"""Parts of SQL92 expressions: what each gives for a message's properties, null included.

Each function refuses what RocketMQ's parser refuses.
Source: ComparisonExpression, LogicExpression, UnaryExpression, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from rmqtool.derive.sql92_values import (
    NotComparableError,
    NotUnderstoodError,
    Whole,
    double,
    order,
)

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
        one = first.evaluate(properties)
        if one is decisive:
            return decisive
        other = second.evaluate(properties)
        if other is decisive:
            return decisive
        return None if one is None or other is None else not decisive

    return Node(evaluate, "boolean")


def negation(node: Node) -> Node:
    """Give NOT; of null it is null."""

    def evaluate(properties: Properties) -> object:
        found = node.evaluate(properties)
        return None if found is None else found is not True

    return Node(evaluate, "boolean")


def negated(node: Node) -> Node:
    """Give a number with its sign turned, within its size; of a text it is null."""

    def evaluate(properties: Properties) -> object:
        found = node.evaluate(properties)
        if isinstance(found, Whole):
            half = 1 << found.bits - 1
            return Whole((-found.value + half) % (2 * half) - half, found.bits)
        return -found if isinstance(found, float) else None

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
        one, other = left.evaluate(properties), right.evaluate(properties)
        if one is None or other is None:
            return True if one is other else None if one is None else False
        return order(one, other) == 0

    return Node(evaluate, "boolean")


def ordered(left: Node, right: Node, sign: str) -> Node:
    """Give `<` and the like: of two texts both have to be numbers."""
    for node in (left, right):
        if node.is_boolean or (node.kind == "constant" and isinstance(node.value, str)):
            raise NotUnderstoodError
    fits = ORDERS[sign]

    def evaluate(properties: Properties) -> object:
        one = left.evaluate(properties)
        other = right.evaluate(properties) if one is not None else None
        if one is None or other is None:
            return None
        if isinstance(one, str) and isinstance(other, str):
            return fits(order(double(one), double(other)), 0)
        return fits(order(one, other), 0)

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
        found = node.evaluate(properties)
        return None if found is None else (found in texts) != is_not

    return Node(evaluate, "boolean")


def part(node: Node, word: str, searched: str, *, is_not: bool) -> Node:
    """`CONTAINS` and the like, of 5.x."""
    if node.kind != "property" or not searched:
        raise NotUnderstoodError
    fits = _PARTS[word]

    def evaluate(properties: Properties) -> object:
        found = node.evaluate(properties)
        return isinstance(found, str) and fits(found, searched) != is_not

    return Node(evaluate, "boolean")
