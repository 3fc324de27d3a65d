"""Findings: what is wrong with a store, as data, and the one way to make one.

A finding is one row, the same on every engine and in every output format. What a code means,
how bad it is and what helps stands once, with the code.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final

from rmqtool.findings.catalogue import DUMP, DUMP_FILLERS, DUMP_HEX, Code, Severity

DLEDGER: Final = "dledger-"
DLEDGER_HEADER: Final = 48  # bytes of an entry before its record; `formats`, higher up, declares it
LOGS: Final = ("commitlog", DLEDGER)  # a file there is shown from one offset to another
DUMPS: Final = frozenset({DUMP, DUMP_FILLERS, DUMP_HEX})


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect, with its place and its remedy.

    Attributes:
        code: permanent name such as `CL-CRC`.
        severity: how bad it is.
        path: file it was found in, relative to the store root, `/` separated.
        position: first byte of the defect in that file; None when it is about the whole file.
        length: bytes that are affected, from `position` on; None as above.
        physical_offset: commitlog offset that is concerned; None when there is none.
        expected: what should be there, as text; empty when unknown.
        actual: what is there, as text.
        message: what happened, one sentence.
        repair: what helps, with the command.
    """

    code: Code
    severity: Severity
    path: str
    position: int | None
    length: int | None
    physical_offset: int | None
    expected: str
    actual: str
    message: str
    repair: str

    def row(self) -> dict[str, object]:
        """Give the row that it is in every format: its fields, in order, enums as text."""
        row: dict[str, object] = {name: getattr(self, name) for name in self.__slots__}
        return row | {"code": str(self.code), "severity": str(self.severity)}


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
    code: Code,
    at: At,
    message: str = "",
    *,
    expected: object = "",
    actual: object = "",
    severity: Severity | None = None,
) -> Finding:
    """Make a finding.

    Args:
        code: what is wrong.
        at: where it is.
        message: what happened here, one sentence; the code's meaning when empty.
        expected: what should be there.
        actual: what is there.
        severity: one of those that the code allows; None is its ordinary one.
    """
    if severity is None:
        severity = code.severity
    elif severity not in (code.severity, *code.also):
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
        message=message or code.meaning,
        repair="; ".join(part for part in (code.remedy, _command(code, at)) if part),
    )


def _command(code: Code, at: At) -> str:
    """Give the command that helps, made for the place, ready to be pasted."""
    command = code.command.format(path=shlex.quote(at.path))  # topics may have a | in them
    start, length = at.physical_offset, at.length or 1
    if start is None or code.command not in DUMPS or not at.path.startswith(LOGS):
        return command
    if at.path.startswith(DLEDGER):  # an entry is shown by its record, past its header
        length = max(length, DLEDGER_HEADER + 1)
    return f"{command} --offsets {start}:{start + length}"
