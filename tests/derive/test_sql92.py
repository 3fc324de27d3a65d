"""SQL92 subscriptions: what is understood is judged as RocketMQ does, what is not may match.

That real brokers judge alike is proven in tests/broker/test_sql92.py.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.derive.sql92 import Subscription

PROPERTIES = {"a": "5", "b": "x'y", "big": "3000000000", "d": " 2.50d", "t": "True", "TAGS": "TagA"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("a = 5", True),
        ("a <> 5", False),
        ("a > 4 AND a < 6", True),
        ("NOT (a > 4) or a between 5 and 7", True),
        ("a NOT BETWEEN 5 AND 7", False),
        ("b = 'x''y'", True),
        ("b > 4", False),  # no number: the evaluation fails
        ("big > 5", False),  # too large for Integer, which 5 is
        ("big > 5000000000", False),
        ("big > 2999999999", True),
        ("d = 2.5", True),
        ("d > a", False),
        ("a >= d", True),
        ("t = TRUE", True),
        ("TAGS IN ('TagA', 'TagB')", True),
        ("TAGS NOT IN ('TagA')", False),
        ("c IS NULL", True),
        ("c IS NOT NULL", False),
        ("c = 5 OR a = 5", True),
        ("c <> 5", False),
        ("NOT c = 5", False),
        ("a", False),
        ("-5 = a", False),
        ("- 5 < a", True),
        ("TRUE", True),
        ("b CONTAINS '''' /* of 5.x */", True),
    ],
)
def test_matches(text: str, matches: bool) -> None:
    """Each expression says of these properties what RocketMQ says."""
    subscription = Subscription(text)
    assert subscription.is_understood
    assert matches == subscription.may_match(PROPERTIES)


@pytest.mark.parametrize(
    "text",
    [
        *("", "a LIKE 'x%'", "a = NULL", "a > 'x'", "5 IN ('x')", "a = 5 b", "a + 1 = 2", "'open"),
        *("a BETWEEN 7 AND 5", "a = 99999999999999999999", "a = 0.0", "(" * 500 + "a", "a."),
        "NOT " * 5000 + "a",
    ],
)
def test_not_understood(text: str) -> None:
    """Whatever is refused may match: a bit too many costs a consumer nothing."""
    subscription = Subscription(text)
    assert not subscription.is_understood
    assert subscription.may_match(PROPERTIES)


@given(st.text(), st.dictionaries(st.text(), st.text()))
def test_never_raises(text: str, properties: dict[str, str]) -> None:
    """No text and no properties raise."""
    assert Subscription(text).may_match(properties) in {True, False}
