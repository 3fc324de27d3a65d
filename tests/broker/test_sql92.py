"""RocketMQ's own SQL92 filter agrees with ours, over random expressions and properties."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from py4j.protocol import Py4JJavaError

from rmqtool.derive.sql92 import Subscription
from tests.broker.jars import VERSIONS
from tests.broker.jvm import Jvm

pytestmark = pytest.mark.broker

EXPRESSIONS = 300
MOST_PARTS = 3
NAMES = ("a", "b", "TAGS", "_x$1")
VALUES = ("5", "-5", "05", "+7", "5.0", "1e1", "NaN", "-0", "x", "", " 6 ", "true", "TagA",
          "2147483648", "9223372036854775808", "5d", "Infinity", "\u0665", "it's")  # fmt: skip
LITERALS = ("5", "-5", "0", "7L", "2147483648", "5.0", "1.5E1", ".5", "'x'", "'TagA'", "'it''s'",
            "TRUE", "false", "NULL", "99999999999999999999", "0.0")  # fmt: skip
TEXTS = ("'x'", "'TagA'", "'it''s'", "'5'")
PATTERNS = (
    *("{v} = {v}", "{v} <> {v}", "{n} = {l}", "{n} <> {l}", "{n} > {l}", "{n} >= {l}"),
    *("{n} < {l}", "{l} <= {n}", "{n} > {n}", "{n} BETWEEN {l} AND {l}", "{n} is null"),
    *("{n} NOT BETWEEN {l} and {l}", "{n} IS NOT NULL", "{n} IN ({t}, {t})", "{n} NOT IN ({t})"),
    *("{n}", "NOT {n}", "- {n} < {l}", "{n} CONTAINS {t}", "{n} NOT CONTAINS {t}"),
    *("{n} STARTSWITH {t}", "{n} NOT ENDSWITH {t}", "NOT {n} = {l}", "({n} = {l}) = TRUE"),
)


def expression(chance: np.random.Generator) -> str:
    """Make an expression."""
    parts = []
    for _ in range(chance.integers(1, MOST_PARTS, endpoint=True)):
        text = str(chance.choice(PATTERNS))
        for mark, known in (("{v}", NAMES + LITERALS), ("{n}", NAMES), ("{l}", LITERALS),
                            ("{t}", TEXTS)):  # fmt: skip
            while mark in text:
                text = text.replace(mark, str(chance.choice(known)), 1)
        parts += [f"({text})" if chance.integers(2) else text, str(chance.choice(["AND", "or"]))]
    return " ".join(parts[:-1])


@pytest.mark.parametrize("version", VERSIONS)
def test_agreement(version: str, tmp_path: Path) -> None:
    """What a broker matches is never missed; what we understand it matches, too, or refuses."""
    chance = np.random.default_rng(92)
    understood = matched = 0
    with Jvm(version, tmp_path) as jvm:
        sql = jvm.rocketmq("filter.FilterFactory").INSTANCE.get("SQL92")
        context = jvm.rocketmq("broker.filter.MessageEvaluationContext")
        known = [
            {name: str(chance.choice(VALUES)) for name in NAMES if chance.integers(4)}
            for _ in range(12)
        ]
        contexts = [context(properties) for properties in known]
        for text in {expression(chance) for _ in range(EXPRESSIONS)}:
            ours = Subscription(text)
            try:
                theirs = sql.compile(text)
            except Py4JJavaError:
                continue
            understood += ours.is_understood
            for number in chance.choice(len(known), 4, replace=False).tolist():
                expected = evaluated(theirs, contexts[number])
                found = ours.may_match(known[number])
                assert found or not expected, (text, known[number])
                assert expected or not found or not ours.is_understood or version == "4.9.3", (
                    text,
                    known[number],
                )
                matched += expected
    assert understood > EXPRESSIONS // 4
    assert matched > EXPRESSIONS // 4


def evaluated(compiled: object, context: object) -> bool:
    """Evaluate as a broker does: what fails does not match."""
    try:
        return compiled.evaluate(context) is True  # type: ignore[attr-defined]
    except Py4JJavaError:
        return False
