"""Neighbours with the same defect become one finding.

A torn sector takes 25 queue units or index entries at once; a person needs the stretch, not its
units one by one.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.findings.finding import Finding

P = ParamSpec("P")


def in_stretches(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Join findings of one code that lie next to each other in one file, in the order given."""
    held: Finding | None = None
    count = 0
    for finding in findings:
        if held is not None and _continues(held, finding):
            held = held._replace(length=(held.length or 0) + (finding.length or 0))
            count += 1
            continue
        if held is not None:
            yield _worded(held, count)
        held, count = finding, 1
    if held is not None:
        yield _worded(held, count)


def grouped(check: Callable[P, Iterator[Finding]]) -> Callable[P, Iterator[Finding]]:
    """Let a generator of findings join neighbours."""

    @wraps(check)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Iterator[Finding]:
        return in_stretches(check(*args, **kwargs))

    return wrapper


def _continues(held: Finding, finding: Finding) -> bool:
    is_alike = (held.code, held.severity, held.path) == (
        finding.code,
        finding.severity,
        finding.path,
    )
    if not is_alike or held.position is None or not held.length or not finding.length:
        return False
    return finding.position == held.position + held.length


def _worded(held: Finding, count: int) -> Finding:
    if count == 1:
        return held
    return held._replace(message=f"{held.message}; {count:,} in a row, this is the first")
