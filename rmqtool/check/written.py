"""What a command wrote is validated before it says that it is done."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING

from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.findings.catalogue import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.findings.finding import Finding


def defects_of(
    store: str,
    *,
    broker_version: str | None = None,
    broker_conf: str | None = None,
    jobs: int | None = None,
) -> list[Finding]:
    """Validate a store that was written; give what is worse than a note.

    Args:
        store: its root.
        broker_version: release that is to run on it; None is the one that wrote it.
        broker_conf: the broker's configuration file.
        jobs: threads; None is one for each processor.

    Raises:
        StoreError: it cannot be opened.
    """
    options = ValidateOptions(
        store, broker_version=broker_version, broker_conf=broker_conf, jobs=jobs
    )
    return [finding for finding in validate(options) if finding.severity is not Severity.NOTE]


def checked_again(store: str, findings: list[Finding]) -> Iterator[str]:
    """Say what a validation of a store that was written has found, and what to do next."""
    if not findings:
        yield "checked again: no damage, no warnings"
        return
    yield f"checked again: {counted_codes(findings)}"
    yield f"next: rmqtool validate {shlex.quote(store)}"


def counted_codes(findings: Iterable[Finding]) -> str:
    """Name the codes of findings, each with its count: `4 CQ-ORDER, 1 CQ-RANGE`."""
    counts = Counter(finding.code for finding in findings)
    return ", ".join(f"{count:,} {code}" for code, count in sorted(counts.items()))
