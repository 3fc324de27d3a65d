"""`validate --every`: keep watch over a store, beside its broker, until somebody says stop.

The first round reads all; each later one takes the manifest of the round before, which stays in
memory, and reads what is new. A finding is shown once.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Final

from rmqtool.check.validate import Findings
from rmqtool.cli.signals import Terminated, has_ended, whole_chunks
from rmqtool.cli.validation import ready_row
from rmqtool.clock import length_ms
from rmqtool.errors import UsageError
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import FINDINGS
from rmqtool.plural import counted
from rmqtool.render.look import Format
from rmqtool.render.progress import progress
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from rmqtool.check.manifest.manifest import Manifest
    from rmqtool.check.options import ValidateOptions
    from rmqtool.cli.delivery import Delivery
    from rmqtool.findings.finding import Finding

OPTION: Final = "--every"


class Watch:
    """Validates a store again and again.

    Attributes:
        rounds: that came to their end.
        counts: findings of each severity in all rounds, each finding once.
    """

    def __init__(self, options: ValidateOptions, every: str, unlike: Mapping[str, object]) -> None:
        """Begin; nothing is read yet.

        Args:
            options: of each round.
            every: from the begin of a round to the begin of the next: `10m`, `1h`.
            unlike: what was asked for, by option, and has no place in a watch.

        Raises:
            UsageError: that is no length of time, or one of the others was asked for.
        """
        for option, wanted in unlike.items():
            if wanted:
                raise UsageError(option=OPTION, reason=f"cannot be combined with {option}")
        self._options, self._every = options, (length_ms(every) or 0) / 1000
        if not self._every:
            raise UsageError(option=OPTION, reason=f"{every!r} is not a duration such as 10m")
        self.rounds = 0
        self.counts: Counter[Severity] = Counter()
        self._exit_code = 0
        self._before: Manifest | None = None
        self._seen: set[tuple[object, ...]] = set()
        self._advance: Callable[[int], None]

    def run(self, delivery: Delivery) -> int:
        """Validate until SIGTERM or Ctrl-C; give the exit code of all rounds.

        Raises:
            UsageError: the format of the rows has an end, or one header.
            UnreadablePath, NotAStore, UnsupportedStore: the store cannot be opened any more.
        """
        if delivery.wanted_format not in (Format.TABLE, Format.JSONL):
            reason = "rows of a watch are json lines or tables: --format jsonl"
            raise UsageError(option=OPTION, reason=reason)
        try:
            while True:
                begin = monotonic()
                self._round(delivery)
                sleep(max(begin + self._every - monotonic(), 0))
        except (KeyboardInterrupt, Terminated):
            has_ended()
            counts = ", ".join(
                f"{self.counts[severity]} {severity}" for severity in reversed(Severity)
            )
            delivery.note(f"stopped after {counted(self.rounds, 'whole round')}: {counts}")
        return self._exit_code

    def _round(self, delivery: Delivery) -> None:
        """Validate once; show what is new."""
        run = Findings(self._options, self._done, before=self._before)
        hides = delivery.hides_bar(streams=True)
        with progress("validate", run.total_bytes, quiet=hides) as self._advance:
            shown = sum(self._show(run, delivery))
        self._exit_code = max(self._exit_code, run.exit_code)
        self._before = run.ledger.manifest if run.ledger else None
        self.rounds += 1
        summary = run.summary
        records = counted(summary.account.records, "record")
        news = counted(shown, "new finding") if shown else "nothing new"
        delivery.note(f"{_now()}: {summary.verdict}, {records} read, {news}")
        for path, reason in summary.account.reasons:
            delivery.note(f"could not be read: {path}: {reason}")
        if self.rounds == 1:
            for what, why in summary.account.left_out:
                delivery.note(f"not checked: {what}: {why}")

    def _done(self, count: int) -> None:
        self._advance(count)

    def _show(self, run: Findings, delivery: Delivery) -> Generator[int, None, None]:
        """Show what no round has shown, each as it is found but in a table; say how many."""
        with closing(iter(run)) as findings:
            news = (finding for finding in findings if self._is_new(finding))
            rows = (ready_row(finding, self._options, run) for finding in news)
            if delivery.wanted_format is Format.TABLE:
                chunk = list(rows)
                if chunk:
                    yield delivery.emit(FINDINGS.rows(whole_chunks([chunk])))
                return
            yield delivery.emit(FINDINGS.rows(whole_chunks([row] for row in rows)))

    def _is_new(self, finding: Finding) -> bool:
        """Tell whether no round has shown a finding; count it then."""
        key = (finding.code, finding.path, finding.position, finding.physical_offset)
        if key in self._seen:
            return False
        self._seen.add(key)
        self.counts[finding.severity] += 1
        return True


def _now() -> str:
    return iso_time(int(time() * 1000))
