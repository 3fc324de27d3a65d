"""Damages that a campaign has found and that are not foretold, or not mended: see docs/limits.md.

Each is as small as it still fails. Who mends one moves it to the tests of what it was.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.jvm import Jvm
from tests.repair.broker.campaign import Judge
from tests.repair.broker.damaged_case import Case
from tests.repair.broker.survivors import Truth
from tests.stores import fixture_store

pytestmark = pytest.mark.broker


def _copied(source: str, target: str) -> Callable[[Path], None]:
    """Copy a queue file to where no broker makes one."""

    def inflict(store: Path) -> None:
        shutil.copyfile(store / "consumequeue" / source, store / "consumequeue" / target)

    return inflict


def _zeroed(path: str, begin: int, end: int) -> Callable[[Path], None]:
    """Fill a stretch of a file with zeros."""

    def inflict(store: Path) -> None:
        with (store / path).open("r+b") as file:
            file.seek(begin)
            file.write(bytes(end - begin))

    return inflict


OPEN: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a file of another queue under an odd number": (
        "rocketmq-5.3.3-expired",
        _copied("expired-orders/2/00000000000000002000", "expired-orders/1/00000000000000002007"),
    ),
    "a batch queue all of whose records are lost": (
        "rocketmq-5.3.3-batch-queue",
        _zeroed("commitlog/00000000000000000000", 1024, 103424),
    ),
}


@pytest.mark.xfail(strict=True, reason="open: docs/limits.md")
@pytest.mark.parametrize("what", OPEN)
def test_open(what: str, tmp_path: Path) -> None:
    """A real store does what is said of it, and delivers after a repair what it held."""
    fixture, inflict = OPEN[what]
    root = fixture_store(fixture, tmp_path)
    truth = Truth.of(root)
    inflict(root)
    release = fixture.split("-")[1]
    home, beside = tmp_path / "home", tmp_path / "beside"
    home.mkdir()
    beside.mkdir()
    one = Case(0, 0, fixture, release, root, truth, (what,))
    with Jvm(release, home) as jvm:
        problems = [*Judge({release: jvm}, patience=300).problems(one, beside)]
    assert not problems
