"""What a finding code is; the codes themselves stand in `registry_*.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rmqtool.findings.finding import Severity

DAMAGE: Final = Severity.DAMAGE
WARNING: Final = Severity.WARNING
NOTE: Final = Severity.NOTE

REBUILD_CQ: Final = "rmqtool rebuild-cq STORE --output DIR"
REBUILD_INDEX: Final = "rmqtool rebuild-index STORE --output DIR"
REPAIR: Final = "rmqtool repair STORE --dry-run"
REPAIR_GAP: Final = "rmqtool repair STORE --bridge-missing --dry-run"
REPAIR_OFFSETS: Final = "rmqtool repair STORE --clamp-offsets --dry-run"
STARTUP: Final = "rmqtool startup STORE --broker-version VERSION"
INFO: Final = "rmqtool info STORE"
DUMP: Final = "rmqtool dump STORE/{path}"
DUMP_HEX: Final = "rmqtool dump STORE/{path} --hex"
DUMP_FILLERS: Final = "rmqtool dump STORE/{path} --fillers"
TOPICS: Final = "rmqtool info STORE --section topics"


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of defect; permanent.

    Attributes:
        name: such as `CL-CRC`; never given another meaning.
        severity: how bad it is as a rule.
        meaning: what is the case, one sentence.
        consequence: what a broker, or its clients, will do about it.
        remedy: what helps, one phrase; begins with "none" when nothing does.
        command: the rmqtool command that helps; `{path}` stands for the file.
        also: further severities that a finding of this code may have.
        when: which severity it then has, and why; empty without `also`.
    """

    name: str
    severity: Severity
    meaning: str
    consequence: str
    remedy: str
    command: str
    also: tuple[Severity, ...] = ()
    when: str = ""
