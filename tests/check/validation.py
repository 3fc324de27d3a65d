"""A whole validation as tests want it: in this process, all findings as a list."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.check.validate import validate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqtool.check.report import Summary
    from rmqtool.findings.finding import Finding

P = ParamSpec("P")
R = TypeVar("R")


def preceded(act: Callable[[], object], function: Callable[P, R]) -> Callable[P, R]:
    """Give a function before which something happens, as it does beside a running broker."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        act()
        return function(*args, **kwargs)

    return wrapper


def run(
    store: Path, level: str = "full", conf: Path | None = None, version: str | None = None
) -> tuple[list[Finding], int, Summary]:
    """Validate; give the findings, the exit code and the summary."""
    options = ValidateOptions(
        store, level=CheckLevel(level), broker_conf=conf, broker_version=version, jobs=1
    )
    findings = validate(options)
    rows = list(findings)
    return rows, findings.exit_code, findings.summary
