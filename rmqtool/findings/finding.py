"""Findings: what is wrong with a store, as data.

A finding is one row, the same on every engine and in every output format. What a code means,
how bad it is and what helps stands once, in `findings/registry.py`; the kernels and scans only
name codes.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Severity(enum.StrEnum):
    """How bad a finding is, worst last; a word, as colour alone never carries meaning."""

    NOTE = "note"
    WARNING = "warning"
    DAMAGE = "damage"

    @property
    def rank(self) -> int:
        """0 for a note, 1 for a warning, 2 for damage."""
        return list(Severity).index(self)


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

    code: str
    severity: Severity
    path: str
    position: int | None
    length: int | None
    physical_offset: int | None
    expected: str
    actual: str
    message: str
    repair: str
