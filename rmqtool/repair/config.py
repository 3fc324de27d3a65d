"""Edits of the configuration: from the `.bak`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqtool.findings import Finding
    from rmqtool.repair.survey import Survey
    from rmqtool.repair.writer import Writer


def edit(writer: Writer, survey: Survey, found: list[Finding], *, clamp: bool) -> None:
    """Restore what cannot be parsed."""
