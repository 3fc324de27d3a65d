"""What a plan asks a person to do first about files of the log, done as a person would."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rmqtool.repair.remedies import renames

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.repair.plans import Plan

_AWAY: Final = re.compile(r"first (?:move|save the messages of) (commitlog/.+?) (?:out of|\()")
_OF_LOG: Final = re.compile(r"first .*?commitlog/")


def follow(root: Path, plan: Plan) -> bool:
    """Do the first of it; say whether anything was asked.

    Advice that this does not know fails: otherwise a store would be judged as it was, damaged.
    """
    for left in plan.left:
        if steps := renames(left.why):
            for old, new in steps:
                assert not (root / new).exists(), "never a name that is there"
                (root / old).rename(root / new)
        elif found := _AWAY.match(left.why):
            (root / found[1]).unlink()
        else:
            assert not _OF_LOG.match(left.why), left.why
            continue
        return True
    return False
