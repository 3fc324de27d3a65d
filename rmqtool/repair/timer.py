"""Edits of the timer's files: what the broker rebuilds is taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqtool.findings import Finding
    from rmqtool.repair.survey import Survey
    from rmqtool.repair.writer import Writer


def edit(writer: Writer, survey: Survey, found: list[Finding]) -> None:
    """Take out a wheel that is wrong."""
