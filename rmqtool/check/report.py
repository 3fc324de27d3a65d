"""A validation in words and rows: what commands and reports show of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings.catalogue import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.validate import Summary
    from rmqtool.findings.finding import Finding


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
    rate = (
        f" ({account.bytes / summary.seconds / 1e9:.2f} GB/s)"
        if account.bytes and summary.seconds
        else ""
    )
    yield (
        f"read {account.bytes} bytes in {summary.seconds:.2f} s{rate}: {account.records} records, "
        f"{account.units} queue units, {account.entries} index entries"
    )
    for path, reason in account.reasons:
        yield f"could not be read: {path}: {reason}"
    for what, why in account.left_out:
        yield f"not checked: {what}: {why}"
    if not summary.is_finished:
        yield "not checked: what comes behind the interruption"
