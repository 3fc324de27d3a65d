"""Values of SQL92 expressions, and how RocketMQ compares them: a text becomes what it meets.

Source: ComparisonExpression#__compare, ConstantExpression, Java's `valueOf`, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

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


def order(one: object, other: object) -> int:
    """Compare as `ComparisonExpression#__compare`: 0 for equal; a text becomes what it meets."""
    if isinstance(one, str) and not isinstance(other, str):
        one = _converted(one, other)
    elif isinstance(other, str) and not isinstance(one, str):
        if isinstance(one, bool):
            raise NotComparableError  # RocketMQ converts the wrong one of them, and fails
        other = _converted(other, one)
    if isinstance(one, bool) != isinstance(other, bool):
        return -1
    if isinstance(one, Whole | float) and isinstance(other, Whole | float):
        return _numbers(one, other)
    if isinstance(one, bool | str) and type(one) is type(other):
        return (one > other) - (one < other)  # type: ignore[operator]  # of one type
    raise NotComparableError


def _numbers(one: Whole | float, other: Whole | float) -> int:
    if isinstance(one, Whole) and isinstance(other, Whole):
        return (one.value > other.value) - (one.value < other.value)
    left, right = (float(n.value) if isinstance(n, Whole) else n for n in (one, other))
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
