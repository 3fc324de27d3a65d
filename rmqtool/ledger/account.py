"""What a store has lost so far: the one number that every command gives.

`startup.account` counts it. A store in which a validation saw no damage and no bridge of a repair
has lost nothing, and is not read again for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.findings.catalogue import Severity
from rmqtool.findings.registry_commitlog import CL_QOFF_GAP, CL_TAIL, CL_TRANTYPE
from rmqtool.findings.registry_consume_queue import CQ_NOREC, CQ_RANGE
from rmqtool.findings.registry_rocksdb import RQ_RANGE
from rmqtool.plural import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.findings.catalogue import Code
    from rmqtool.ledger.numbers import LostNumbers

# Notes that come with a loss: a tail that was never flushed, units past it, a gap, a bridge.
_NOTES: Final = frozenset({CL_TAIL, CL_QOFF_GAP, CL_TRANTYPE, CQ_NOREC, CQ_RANGE, RQ_RANGE})


class LossAccount(NamedTuple):
    """What is lost already, whatever a start does."""

    messages: int = 0
    numbers: tuple[LostNumbers, ...] = ()  # their queue offsets

    def sentence(self) -> str:
        """Say how many messages are lost."""
        verb = "is" if self.messages == 1 else "are"
        return f"{counted(self.messages, 'message')} {verb} already lost"


def may_have_lost(codes: Iterable[tuple[Code, Severity]]) -> bool:
    """Tell by what a validation found whether messages may be lost."""
    return any(severity is not Severity.NOTE or code in _NOTES for code, severity in codes)
