"""A bounded list of findings: the first ones of each code whole, the others as a number."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rmqtool.findings.catalogue import Code, Severity
from rmqtool.findings.finding import At, finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.findings.finding import Finding

WHOLE: Final = 100  # findings of one code and severity that are listed one by one
NOTES: Final = 10  # likewise of notes


class Bounded:
    """Passes on the first findings of each code, and says at the end how many more there were.

    A lost disk gives millions of findings of one kind; the first hundred tell all that a person
    or a repair needs, and memory stays flat.

    Attributes:
        counts: findings by code and severity, those that were not passed on included.
    """

    def __init__(self) -> None:
        self._paths: dict[tuple[Code, Severity], set[str]] = {}
        self.counts: Counter[tuple[Code, Severity]] = Counter()

    def take(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Pass on what is within the limit."""
        for defect in findings:
            key = (defect.code, defect.severity)
            self.counts[key] += 1
            if self.counts[key] <= _limit(defect.severity):
                yield defect
            elif len(paths := self._paths.setdefault(key, set())) < WHOLE:
                paths.add(defect.path)

    def add(self, more: Iterable[tuple[tuple[Code, Severity], int]]) -> None:
        """Count findings that somebody else has not passed on."""
        for key, count in more:
            self.counts[key] += count

    def rest(self) -> Iterator[Finding]:
        """Give one finding for each code of which there were more."""
        for (code, severity), count in sorted(self.counts.items()):
            left = count - _limit(severity)
            if left > 0:
                paths = self._paths.get((code, severity), set())
                where = f"; the first of them in {min(paths)}" if paths else ""
                message = f"{left:,} more of this kind{where}: {code.meaning}"
                yield finding(code, At(min(paths, default="")), message, severity=severity)


def _limit(severity: Severity) -> int:
    return NOTES if severity is Severity.NOTE else WHOLE
