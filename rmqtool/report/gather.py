"""Gather what a report tells: one validation, with somebody looking on, and an overview.

The log is read once. Whatever the size of the store, what is kept is some numbers for each
segment, queue and topic.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from statistics import median_low
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rmqtool.check.log.traffic import TimeGrid, total
from rmqtool.check.validate import Findings, validate
from rmqtool.errors import RmqtoolError, UnreadablePath
from rmqtool.info.overview import SECTIONS
from rmqtool.info.survey import Survey
from rmqtool.ledger.account import LossAccount, may_have_lost
from rmqtool.ledger.walk import NONE_PROVEN
from rmqtool.query.lost import lost_messages
from rmqtool.report.facts import Facts, QueueCoverage, SegmentTiling, TopicTraffic
from rmqtool.startup.account import counted_by
from rmqtool.startup.losses import LogReading
from rmqtool.startup.start import predict
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.tree import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.log.part import PartReport
    from rmqtool.check.options import ValidateOptions
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.derive.queue_runs import QueueRuns
    from rmqtool.findings.finding import Finding
    from rmqtool.info.overview_rows import QueueRow, SegmentRow
    from rmqtool.ledger.numbers import LostNumbers
    from rmqtool.ledger.walk import Proven
    from rmqtool.startup.prediction import Prediction
    from rmqtool.store.segment import SegmentPart
    from rmqtool.store.tree import Store

SHOWN_SECTIONS: Final = ("store", "end", "dispatch", "queues", "checkpoint", "groups", "problems")
MOST_STEPS: Final = 120
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
STEPS_MS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(SECOND * number for number in (1, 2, 5, 10, 15, 30)),
    *(MINUTE * number for number in (1, 2, 5, 10, 15, 30)),
    *(HOUR * number for number in (1, 2, 3, 6, 12)),
    *(DAY * number for number in (1, 2, 7, 14, 30, 90, 365)),
)
# A store does not span more; what lies farther from the middle is a damaged time.
LONGEST_MS: Final = MOST_STEPS * STEPS_MS[-1] // 4


def gather(options: ValidateOptions, watch: Callable[[int], None] = lambda _: None) -> Facts:
    """Read a store and tell what a report shows.

    Args:
        options: what to validate, and how.
        watch: takes the bytes of the commitlog done since it was last called.

    Raises:
        UnreadablePath: the store cannot be opened at all.
        NotAStore: nothing of a store was recognised.
        UnsupportedStore: it is a RocksDB database.
    """
    with Survey(open_store(options.store, options.broker_conf)) as survey:
        looker = Looker(grid_of(_times(SECTIONS["segments"](survey))))
        run = validate(options, watch, looker)
        findings = list(run)
        prediction = _predicted(survey.store, run, options.broker_version)
        account = (counted_by(prediction) if prediction else None) or LossAccount()
        lost = lost_messages(survey.store, findings, account.numbers)
        sections = {name: SECTIONS[name](survey) for name in SHOWN_SECTIONS}
    facts = _facts(run, findings, looker, sections, account.numbers)
    return replace(facts, lost=lost, messages_lost=account.messages, prediction=prediction)


def _predicted(store: Store, run: Findings, version: str | None) -> Prediction | None:
    """Predict a start of a store with findings, which takes long; None where it is not needed."""
    if store.asked.kind is not ArtefactKind.STORE or not may_have_lost(run.summary.codes):
        return None
    try:
        return predict(store, version, reads=LogReading.ALL)
    except RmqtoolError:
        return None


class Looker:
    """Looks on while a log is validated, and counts.

    Attributes:
        grid: stretches of time.
        segments: by path.
        traffic: int64, shape (2, steps + 2), for each topic.
        in_log: first and next queue offset of each queue.
        compares_queues: whether the log is read for its queues.
    """

    def __init__(self, grid: TimeGrid | None) -> None:
        self.grid = grid
        self.segments: dict[str, SegmentTiling] = {}
        self.traffic: dict[bytes | None, npt.NDArray[np.int64]] = {}
        self.in_log: dict[tuple[bytes, int], tuple[int, int]] = {}
        self.compares_queues = False

    def begin(self, inspection: Inspection, _facts: LogFacts, _queues: QueueFacts) -> None:
        """Take note of what is compared."""
        self.compares_queues = inspection.scope.compares_queues
        with suppress(UnreadablePath):  # which is a finding
            for segment in (*inspection.store.old_commitlog, *inspection.store.commitlog):
                for begin, length in segment.missing:
                    path = f"no file for {begin}"
                    gap = [("gap", 0, length)]
                    self.segments[path] = SegmentTiling(path, begin, length, 0, gap)

    def take(self, part: SegmentPart, report: PartReport) -> Proven:
        """Count what a part has."""
        segment = part.segment
        facts = self.segments.setdefault(
            segment.path, SegmentTiling(segment.path, segment.start, segment.size)
        )
        facts.records += report.records
        facts.stretches += [
            (str(stretch.kind), stretch.position, stretch.length) for stretch in report.stretches
        ]
        if report.unread:
            end = report.last_end - segment.start if report.records else part.begin
            begin = max([part.begin, end, *(at + n for _, at, n in facts.stretches)])
            facts.stretches.append(("unread", begin, max(part.end - begin, 0)))
        if report.traffic is not None:
            total(self.traffic, report.traffic)
        if report.runs is not None:
            self._add_ranges(report.runs.queues)
        return NONE_PROVEN

    def _add_ranges(self, runs: QueueRuns) -> None:
        """Widen the range of each queue by what a part holds of it."""
        count = len(runs.queues)
        first = np.full(count, np.iinfo(np.int64).max)
        end = np.full(count, -1)
        np.minimum.at(first, runs.queue, runs.queue_offset)
        np.maximum.at(end, runs.queue, runs.queue_offset + runs.count)
        for name, low, high in zip(runs.queues, first.tolist(), end.tolist(), strict=True):
            before = self.in_log.get(name, (low, high))
            self.in_log[name] = min(low, before[0]), max(high, before[1])


def _times(segments: Iterable[SegmentRow]) -> list[int]:
    """Give the store times at the ends of the segments, as far as there are any."""
    ends = ((row.first_store_timestamp, row.last_store_timestamp) for row in segments)
    return [time for pair in ends for time in pair if time is not None and time > 0]


def grid_of(times: Sequence[int]) -> TimeGrid | None:
    """Give a time axis that holds these times, as far as they belong together."""
    if not times:
        return None
    middle = median_low(times)
    near = [time for time in times if abs(time - middle) <= LONGEST_MS]
    low, high = min(near), max(near)
    step = next(
        (step for step in STEPS_MS if high // step - low // step < MOST_STEPS), STEPS_MS[-1]
    )
    return TimeGrid(low // step * step, step, high // step - low // step + 1)


def _facts(
    run: Findings,
    findings: list[Finding],
    looker: Looker,
    sections: dict[str, Sequence[Any]],
    numbers: Iterable[LostNumbers],
) -> Facts:
    traffic = [TopicTraffic(_text(topic), counts) for topic, counts in looker.traffic.items()]
    return Facts(
        location=run.location,
        summary=run.summary,
        exit_code=run.exit_code,
        findings=findings,
        segments=sorted(looker.segments.values(), key=lambda tiling: tiling.start),
        grid=looker.grid,
        traffic=sorted(traffic, key=lambda traffic: (-traffic.records, traffic.topic or "")),
        coverage=list(_coverage(looker, sections["queues"], numbers)),
        compares_queues=looker.compares_queues,
        sections=sections,
    )


def _coverage(
    looker: Looker, rows: Iterable[QueueRow], numbers: Iterable[LostNumbers]
) -> Iterator[QueueCoverage]:
    """Put side by side what log and files say of each queue, by topic and queue id."""
    lost: Counter[tuple[str, int]] = Counter()
    for number in numbers:
        lost[number.topic, number.queue_id] += number.messages
    in_files = {
        (row.topic, row.queue_id): (row.min_queue_offset, row.max_queue_offset)
        for row in rows
        if row.queue_kind == ArtefactKind.CONSUME_QUEUE
    }
    in_log = {(_text(topic) or "", number): ends for (topic, number), ends in looker.in_log.items()}
    for name in sorted(in_files.keys() | in_log.keys()):
        files = in_files.get(name)
        has_units = files is not None and files[1] > files[0]
        yield QueueCoverage(*name, in_log.get(name), files if has_units else None, lost[name])


def _text(topic: bytes | None) -> str | None:
    return None if topic is None else topic.decode("utf-8", "surrogateescape")
