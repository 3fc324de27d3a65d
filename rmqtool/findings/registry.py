"""Every finding code, and the one way to make a finding.

Source: the table of defects in the description of the store's formats, section 12. Codes are
permanent: a code may be added, none may change its meaning.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmqtool.findings.catalogue import DUMP, DUMP_FILLERS, DUMP_HEX
from rmqtool.findings.finding import Finding, Severity
from rmqtool.findings.registry_commitlog import COMMITLOG_CODES
from rmqtool.findings.registry_consume_queue import CONSUME_QUEUE_CODES
from rmqtool.findings.registry_index import INDEX_CODES
from rmqtool.findings.registry_layout import LAYOUT_CODES
from rmqtool.findings.registry_state import STATE_CODES
from rmqtool.formats.dledger import DLEDGER_BODY_OFFSET

if TYPE_CHECKING:
    from rmqtool.findings.catalogue import Code

CODES: Final[dict[str, Code]] = {
    code.name: code
    for code in (
        *LAYOUT_CODES,
        *COMMITLOG_CODES,
        *CONSUME_QUEUE_CODES,
        *INDEX_CODES,
        *STATE_CODES,
    )
}


DLEDGER: Final = "dledger-"
LOGS: Final = ("commitlog", DLEDGER)  # a file there is shown from one offset to another
DUMPS: Final = frozenset({DUMP, DUMP_FILLERS, DUMP_HEX})


@dataclass(frozen=True, slots=True)
class At:
    """Where a defect is.

    Attributes:
        path: file or directory, relative to the store root, `/` separated.
        position: first byte in that file; None when it is about the whole file.
        length: bytes from `position` on; None as above.
        physical_offset: commitlog offset that is concerned; None when there is none.
    """

    path: str
    position: int | None = None
    length: int | None = None
    physical_offset: int | None = None


def finding(
    code: str,
    at: At,
    message: str = "",
    *,
    expected: object = "",
    actual: object = "",
    severity: Severity | None = None,
) -> Finding:
    """Make a finding of a registered code.

    Args:
        code: name in `CODES`.
        at: where it is.
        message: what happened here, one sentence; the code's meaning when empty.
        expected: what should be there.
        actual: what is there.
        severity: one of those that the code allows; None is its ordinary one.
    """
    entry = CODES[code]
    if severity is None:
        severity = entry.severity
    elif severity not in (entry.severity, *entry.also):
        reason = f"{code} has no severity {severity}"
        raise ValueError(reason)
    return Finding(
        code=code,
        severity=severity,
        path=at.path,
        position=at.position,
        length=at.length,
        physical_offset=at.physical_offset,
        expected=str(expected),
        actual=str(actual),
        message=message or entry.meaning,
        repair="; ".join(part for part in (entry.remedy, _command(entry, at)) if part),
    )


def _command(entry: Code, at: At) -> str:
    """Give the command that helps, made for the place, ready to be pasted."""
    command = entry.command.format(path=shlex.quote(at.path))  # topics may have a | in them
    start, length = at.physical_offset, at.length or 1
    if start is None or entry.command not in DUMPS or not at.path.startswith(LOGS):
        return command
    if at.path.startswith(DLEDGER):  # an entry is shown by its record, which lies behind its header
        length = max(length, DLEDGER_BODY_OFFSET + 1)
    return f"{command} --offsets {start}:{start + length}"
