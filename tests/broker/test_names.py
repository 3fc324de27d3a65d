"""Topics that brokers make for themselves."""

from __future__ import annotations

import ast
import pickle

import pytest

from rmqtool.broker import names
from tests.imports import modules

NAMES = [one for one in vars(names).values() if isinstance(one, names.Name)]


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("rmq_sys_wheel_timer", True),
        ("%RETRY%group", True),
        ("TBW102", True),
        ("RMQ_SYS_TRACE_TOPIC", True),
        ("orders", False),
        ("orders%RETRY%", False),
    ],
)
def test_made_by_brokers(topic: str, expected: bool) -> None:
    """Some names are whole, some are prefixes."""
    assert expected is names.is_made_by_brokers(topic)


def test_as_bytes() -> None:
    """A name is text, and has the bytes of records; both survive the way to an executor."""
    again: names.Name = pickle.loads(pickle.dumps(names.LMQ_PREFIX))  # noqa: S301 - our own bytes
    assert (b"%LMQ%", names.LMQ_PREFIX) == (again.raw, again)
    assert b"%LMQ%a".startswith(names.LMQ_PREFIX.raw)


def test_said_once() -> None:
    """No other module spells such a name."""
    spellings = {*NAMES, *(name.raw for name in NAMES)}
    assert [] == [
        (name, node.lineno)
        for name, tree in modules()
        if name != "rmqtool.broker.names"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in spellings
    ]
