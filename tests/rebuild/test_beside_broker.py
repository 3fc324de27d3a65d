"""A comparison beside a running broker: what its files were for a moment is no difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rmqtool.broker.dispatch import DispatchRules
from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.rebuild.beside_broker import settled
from rmqtool.rebuild.comparing import Difference
from rmqtool.rebuild.options import Mode, RebuildResult

RULES = DispatchRules(Rules(Version.parse("5.3.3")))


def _result(*paths: str, at: int = 0) -> RebuildResult:
    found = RebuildResult(Mode.CHECK, RULES, "told", cut=1)
    found.differences = [Difference(path, at, 1, "00", "01") for path in paths]
    return found


def _check(*results: RebuildResult | UnreadablePath) -> Callable[[], RebuildResult]:
    left: Iterator[RebuildResult | UnreadablePath] = iter(results)

    def check() -> RebuildResult:
        found = next(left)
        if isinstance(found, UnreadablePath):
            raise found
        return found

    return check


GONE = UnreadablePath(path="consumequeue/T/0/0", reason="no such file", trouble=Trouble.MISSING)


@pytest.mark.parametrize(
    ("results", "stay"),
    [
        ([_result()], []),
        ([_result("a"), _result()], []),
        ([_result("a"), _result("a"), _result()], []),
        ([_result("a", "b"), _result("b", "c"), _result("b", "d", at=7)], ["b"]),
        ([GONE, GONE, GONE, _result()], []),
        ([_result("a"), GONE, _result("a"), _result("a")], ["a"]),
    ],
    ids=["same", "once", "twice", "each time", "gone", "gone and damaged"],
)
def test_what_stays(results: list[RebuildResult | UnreadablePath], stay: list[str]) -> None:
    """A difference is one when a file has one each time, wherever in it."""
    found = settled(_check(*results), is_live=True)
    assert stay == [one.path for one in found.differences]


def test_without_a_broker() -> None:
    """What is seen once is so, and a file that is gone is an error."""
    assert ["a"] == [one.path for one in settled(_check(_result("a")), is_live=False).differences]
    with pytest.raises(UnreadablePath):
        settled(_check(GONE, _result()), is_live=False)
