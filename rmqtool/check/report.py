"""A validation in words and rows: what commands and reports show of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.findings.catalogue import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.validate import Summary
    from rmqtool.findings.finding import Finding

MEGA: Final = 1_000_000
GIGA: Final = 1_000_000_000
LONG_SECONDS: Final = 1.0  # of a shorter run the start is the most, and a rate says nothing


def row_of(finding: Finding, prefix: str = "") -> dict[str, object]:
    """Give a finding as a row.

    Args:
        finding: what was found.
        prefix: of the path, where several stores are validated.
    """
    return finding.row() | {"path": f"{prefix}{finding.path}"}


def sentences(summary: Summary) -> Iterator[str]:
    """Say what was found, what was read, and what was not."""
    counts = ", ".join(
        f"{summary.counts.get(severity, 0)} {severity}" for severity in reversed(Severity)
    )
    yield f"{summary.verdict}: {counts}"
    account = summary.account
    rate = _rate(account.bytes / summary.seconds) if summary.seconds >= LONG_SECONDS else ""
    yield (
        f"read {account.bytes} bytes in {summary.seconds:.2f} s{rate}: {account.records} records, "
        f"{account.units} queue units, {account.entries} index entries"
    )
    for path, reason in account.reasons:
        yield f"could not be read: {path}: {reason}"
    for what, why in account.left_out:
        yield f"not checked: {what}: {why}"
    if not summary.is_finished:
        yield "not checked: what comes after the interruption"


def _rate(bytes_a_second: float) -> str:
    """Give a rate in the larger unit of which it has at least one."""
    if bytes_a_second >= GIGA:
        return f" ({bytes_a_second / GIGA:.2f} GB/s)"
    return f" ({bytes_a_second / MEGA:.2f} MB/s)"
