"""Derive the dispatch runs of one part of a commitlog."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.broker.dispatch import DispatchRules
from rmqtool.broker.release import COMMONEST
from rmqtool.broker.rules import Rules
from rmqtool.derive.collector import RunCollector
from rmqtool.scan.batch import ScanOptions
from rmqtool.scan.message import scan

if TYPE_CHECKING:
    from rmqtool.derive.runs import Runs
    from rmqtool.store.segment import SegmentPart


def _without_crc() -> ScanOptions:
    """Read bodies not at all: brokers do not check them when they dispatch."""
    return ScanOptions(body_crc=False)


def _commonest() -> DispatchRules:
    return DispatchRules(Rules(COMMONEST))


@dataclass(frozen=True, slots=True)
class DeriveOptions:
    """What to derive. Picklable."""

    rules: DispatchRules = field(default_factory=_commonest)  # of the broker
    queues: bool = True  # derive queue runs
    index: bool = True  # derive index runs
    # runs are cut where a consume queue file of so many units ends; 0 for nowhere
    run_units: int = 0
    times: bool = False  # give the store time of each unit of a consume queue
    # how to read; what derivation needs is added
    scan: ScanOptions = field(default_factory=_without_crc)

    @property
    def scan_options(self) -> ScanOptions:
        """What the scan has to read."""
        return self.scan._replace(
            texts=True,
            keys=self.index,
            tag_keys=self.rules.release.indexes_tags,
        )

    def collector(self) -> RunCollector:
        """Give what collects it."""
        return RunCollector(
            self.rules,
            queues=self.queues,
            index=self.index,
            run_units=self.run_units,
            times=self.times,
        )


def derive(part: SegmentPart, options: DeriveOptions, *, start: int | None = None) -> Runs:
    """Give all that a part of a commitlog dispatches.

    A part of 64 MiB gives some 10 MB, so a part is what is worked on at a time.

    Args:
        part: which bytes.
        options: what to derive.
        start: where an extent is known to begin; None to find out, see `scan.join`.

    Raises:
        UnreadablePath: the file cannot be read. Content never raises.
    """
    collector = options.collector()
    for batch in scan(part, options.scan_options, start=start):
        collector.add(batch)
    return collector.finish(part.end)
