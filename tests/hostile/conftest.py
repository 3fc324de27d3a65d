"""Who runs a command on a stranger's store: root, or the stranger."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.hostile.stranger import NOBODY, Scene, scene, warm_up

IS_ROOT = os.geteuid() == 0
Command = tuple[str, ...]
InTurn = Callable[[Sequence[Command]], Sequence[Command]]


@pytest.fixture(scope="session")
def _warm() -> None:
    """Load what commands need, as an ordinary user may not even read it; and link kernels once."""
    with scene(os.geteuid()) as made:
        warm_up(made)


@pytest.fixture(params=["root", "ordinary"])
def stage(request: pytest.FixtureRequest, _warm: None) -> Iterator[Scene]:
    """A scene; commands are run by root, whose store it is not, or by an ordinary user."""
    if request.param == "root" and not IS_ROOT:
        pytest.skip("only root can show what root does")
    ordinary = NOBODY if IS_ROOT else os.geteuid()
    with scene(0 if request.param == "root" else ordinary) as made:
        yield made


@pytest.fixture
def in_turn(request: pytest.FixtureRequest, stage: Scene, *, is_whole: bool) -> InTurn:
    """Give root each command; an ordinary user, who can do less, one in each test, in turn."""
    turn = zlib.crc32(request.node.name.encode())

    def chosen(commands: Sequence[Command]) -> Sequence[Command]:
        if is_whole or not IS_ROOT or stage.user == 0:
            return commands
        return [commands[turn % len(commands)]]

    return chosen
