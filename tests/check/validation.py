"""A whole validation as tests want it: in this process, all findings as a list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.check.validate import validate

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.check.report import Summary
    from rmqtool.findings.finding import Finding


def run(
    store: Path, level: str = "full", conf: Path | None = None, version: str | None = None
) -> tuple[list[Finding], int, Summary]:
    """Validate; give the findings, the exit code and the summary."""
    options = ValidateOptions(
        store, level=CheckLevel(level), broker_conf=conf, broker_version=version, jobs=1
    )
    found = validate(options)
    rows = list(found)
    return rows, found.exit_code, found.summary
