"""Findings: what is wrong with a store, as data, and the one way to make one.

A finding is one row, the same on every engine and in every output format. What a code means,
how bad it is and what helps stands once, with the code.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from rmqtool.findings.catalogue import DUMP, DUMP_FILLERS, DUMP_HEX, VALIDATE, Code, Severity
from rmqtool.table import Says, Table, Type, columns_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DLEDGER: Final = "dledger-"
DLEDGER_HEADER: Final = 48  # bytes of an entry before its record; `formats`, higher up, declares it
LOGS: Final = ("commitlog", DLEDGER)  # a file there is shown from one offset to another
DUMPS: Final = frozenset({DUMP, DUMP_FILLERS, DUMP_HEX})


class Finding(NamedTuple):
    """One defect, with its place and its remedy."""

    code: Annotated[
        Code, Says("permanent name of the defect, such as CL-CRC", type=Type.TEXT, has_few=True)
    ]
    severity: Annotated[Severity, Says("note, warning or damage", has_few=True)]
    path: Annotated[
        str, Says("file that it was found in, relative to the store root", has_few=True)
    ]
    position: Annotated[
        int | None,
        Says("first byte of the defect in that file; null where it is the whole file", "bytes"),
    ]
    length: Annotated[int | None, Says("affected bytes from position on; null likewise", "bytes")]
    physical_offset: Annotated[
        int | None, Says("place in the commitlog that is concerned; null where none is", "bytes")
    ]
    topic: Annotated[
        str | None, Says("topic of the queue or record that is concerned; null where none is")
    ]
    queue_id: Annotated[int | None, Says("queue of that topic; null where it is not one alone")]
    queue_offset: Annotated[
        int | None, Says("offset of the unit or record in that queue, the first of several")
    ]
    expected: Annotated[str, Says("the expected value; empty where it is not known")]
    actual: Annotated[str, Says("the actual value")]
    message: Annotated[str, Says("the defect, in one sentence", has_few=True)]
    repair: Annotated[str, Says("the remedy, with the command", has_few=True)]

    def row(self) -> dict[str, object]:
        """Give the row that it is in every format: its fields, in order, enums as text."""
        return self._asdict() | {"code": str(self.code), "severity": str(self.severity)}


FINDINGS: Final = Table(
    "findings",
    "a defect of a store, with its place and its remedy",
    columns_of(Finding),
    shown=("severity", "code", "path", "position", "message", "repair"),
    below=("message", "repair"),  # never cut: the last one is the command that helps
)


class At(NamedTuple):
    """Where a defect is."""

    path: str  # file or directory, relative to the store root, `/` separated
    position: int | None = None  # first byte in that file; None when it is about the whole file
    length: int | None = None  # bytes from `position` on; None as above
    # commitlog offset that is concerned; None without one
    physical_offset: int | None = None
    # of the queue or record that is concerned, printable; None without one
    topic: str | None = None
    queue_id: int | None = None  # of that queue; None when it is not one alone
    queue_offset: int | None = None  # of the unit or record in it, the first of several


def finding(  # noqa: PLR0913 - the one way to make a finding
    code: Code,
    at: At,
    message: str = "",
    *,
    expected: object = "",
    actual: object = "",
    severity: Severity | None = None,
    remedy: str = "",
) -> Finding:
    """Make a finding.

    Args:
        code: what is wrong.
        at: where it is.
        message: what happened here, one sentence; the code's meaning when empty.
        expected: what should be there.
        actual: what is there.
        severity: one of those that the code allows; None is its ordinary one.
        remedy: what helps here, where that is not what helps as a rule.
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
        topic=at.topic,
        queue_id=at.queue_id,
        queue_offset=at.queue_offset,
        expected=str(expected),
        actual=str(actual),
        message=message or code.meaning,
        repair="; ".join(part for part in (remedy or code.remedy, _command(code, at)) if part),
    )


def in_passing(finding: Finding) -> Finding:
    """Give a finding about what a running broker is at: it needs no repair, but another look."""
    return finding._replace(repair=f"none: look again when the broker has written it; {VALIDATE}")


def of_deleted(finding: Finding) -> Finding:
    """Give a finding about a queue that brokers have deleted: a rebuild would bring it back."""
    return finding._replace(repair="none needed: brokers delete the queues of a topic with it")


def rebuild_hides(finding: Finding, messages: int) -> Finding:
    """Give a finding about units that a rebuild from queue offsets would write over each other."""
    count = "a message" if messages == 1 else f"{messages:,} messages"
    return finding._replace(
        repair=f"by hand: consumers can read all messages now; do not rebuild this queue, because "
        f"{count} would be out of reach"
    )


def of_queue(findings: Iterable[Finding], topic: str, queue_id: int) -> Iterator[Finding]:
    """Name the queue in findings about its files."""
    for finding in findings:
        yield finding._replace(topic=topic, queue_id=queue_id)


def _command(code: Code, at: At) -> str:
    """Give the command that helps, made for the place, ready to be pasted."""
    command = code.command.format(path=shlex.quote(at.path))  # topics may have a | in them
    start, length = at.physical_offset, at.length or 1
    if start is None or code.command not in DUMPS or not at.path.startswith(LOGS):
        return command
    if at.path.startswith(DLEDGER):  # an entry is shown by its record, past its header
        length = max(length, DLEDGER_HEADER + 1)
    return f"{command} --offsets {start}:{start + length}"
