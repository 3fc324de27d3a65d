"""Which findings a plan answers, and what helps with the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.check.registry import CODES

if TYPE_CHECKING:
    from rmqtool.findings import Finding
    from rmqtool.repair.writer import Writer

# Codes whose findings are consequences of what other edits put right: nothing of their own is
# left once the log is bridged and the queues are as it dispatches.
ANSWERED: Final = frozenset(
    {
        "CL-MAGIC", "CL-SIZE", "CL-CRC", "CL-PROPCRC", "CL-PHYOFF", "CL-CHAIN", "CL-BLANKLEN",
        "CL-STALE", "CL-TAIL", "CQ-RANGE", "CQ-MISMATCH", "CQ-NOREC", "CQ-SHIFT", "CQ-ORDER",
        "CQ-GAP", "CQ-HOLE", "CQ-PREBLANK", "CQ-TAG", "CQ-EXTADDR", "CQ-LAG", "BQ-UNIT",
    }
)  # fmt: skip
DLEDGER: Final = (
    "a DLedger node gets its log from its group: move its data away and let it copy the leader's"
)


def is_repaired(one: Finding, writer: Writer, can_bridge: bool) -> bool:
    """Tell whether the edits of a plan answer a finding."""
    if one.code in ANSWERED:
        return can_bridge or not one.code.startswith("CL-")
    codes = {edit.code for edit in writer.edits} | {left.code for left in writer.left}
    return one.code in codes


def remedy(one: Finding, can_bridge: bool) -> str:
    """Say why a finding stays, or what helps."""
    if not can_bridge and one.code.startswith(("CL-", "DL-")):
        return DLEDGER
    return CODES[one.code].remedy or "none"
