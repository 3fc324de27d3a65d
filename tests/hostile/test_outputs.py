"""Commands that write something new, killed or on a disk that fails: all of it, or nothing."""

from __future__ import annotations

import pytest

from tests.hostile.kills import HOW
from tests.hostile.outputs import OUTPUTS, output_of, wrong_of

STEP = 97  # every so many calls, others each way; all of them: `kills`


@pytest.mark.parametrize("command", OUTPUTS)
def test_whole_or_nothing(command: str) -> None:
    """What is there is whole, nothing else has changed, and the same command does the rest."""
    wrong = []
    with output_of(command) as output:
        for begin, how in enumerate(HOW):
            tries, found = wrong_of(output, how, begin, STEP)
            assert tries
            wrong += found
    assert [] == wrong
