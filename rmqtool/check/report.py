"""A validation in words and rows: what commands and reports show of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rmqtool.findings.catalogue import Severity
from rmqtool.plural import counted
from rmqtool.store.tail import WALKED_RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.errors import UnreadablePath
    from rmqtool.findings.catalogue import Code
    from rmqtool.findings.finding import Finding

MEGA: Final = 1_000_000
GIGA: Final = 1_000_000_000
LONG_SECONDS: Final = 1.0  # of a shorter run the start is the most, and a rate says nothing


@dataclass(slots=True)
class Account:
    """What was read, and what was not."""

    bytes: int = 0  # of all artefacts, as far as they were read or proven to be unused
    records: int = 0  # commitlog records
    units: int = 0  # consume queue and batch queue units
    entries: int = 0  # key index entries
    files: int = 0  # files looked into
    # path and reason of everything that could not be read: the result is incomplete
    unread: dict[str, UnreadablePath] = field(default_factory=dict)
    # what was not looked at, and why; a choice or a limit that the user must know
    left_out: list[tuple[str, str]] = field(default_factory=list)
    # paths of files that a running broker deleted while all this was read
    expired: set[str] = field(default_factory=set)
    # records that a running broker stored while all this was read: not judged; None where no broker
    # runs, or nobody looked
    since: int | None = None

    @property
    def reasons(self) -> list[tuple[str, str]]:
        """What could not be read, with the reason."""
        return [(path, error.reason) for path, error in self.unread.items()]


@dataclass(slots=True)
class Summary:
    """What a validation was about, once all findings have been read."""

    account: Account  # what was read, and what was not
    # how many findings of each code and severity, those that were only counted included
    codes: Counter[tuple[Code, Severity]] = field(default_factory=Counter)
    seconds: float = 0.0  # how long it took, but for compiling native code at the first run
    is_finished: bool = False  # whether it came to its end; an interrupted one proves nothing

    @property
    def counts(self) -> dict[Severity, int]:
        """How many findings of each severity."""
        counts: Counter[Severity] = Counter()
        for (_, severity), count in self.codes.items():
            counts[severity] += count
        return counts

    @property
    def verdict(self) -> str:
        """A few words; "sound" only when all there is was looked at, and nothing is odd."""
        if not self.is_finished:
            return "interrupted"
        if self.account.unread:
            return "incomplete"
        if self.counts.get(Severity.DAMAGE):
            return "damaged"
        if self.account.left_out:
            return "no damage found in the checked part"
        return "no damage found" if self.counts.get(Severity.WARNING) else "sound"


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
        f"read {account.bytes:,} bytes in {summary.seconds:.2f} s{rate}: "
        f"{counted(account.records, 'record')}, {counted(account.units, 'queue unit')}, "
        f"{counted(account.entries, 'index entry', 'index entries')}"
    )
    if account.since is not None:
        more = "at least " if account.since >= WALKED_RECORDS - 1 else ""
        gone = f", {counted(len(account.expired), 'file')} expired" if account.expired else ""
        yield f"a broker runs on this store: {more}{counted(account.since, 'record')} since{gone}"
    for path, reason in account.reasons:
        yield f"could not be read: {path}: {reason}"
    for what, why in account.left_out:
        yield f"not checked: {what}: {why}"
    if not summary.is_finished:
        yield "not checked: everything after the interruption"


def _rate(bytes_a_second: float) -> str:
    """Give a rate in the larger unit of which it has at least one."""
    if bytes_a_second >= GIGA:
        return f" ({bytes_a_second / GIGA:.2f} GB/s)"
    return f" ({bytes_a_second / MEGA:.2f} MB/s)"
