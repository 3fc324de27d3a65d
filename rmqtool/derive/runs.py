"""What one part of a commitlog dispatches, as one value that may travel between machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rmqtool.derive.queue_runs import QueueRuns
    from rmqtool.findings.catalogue import Code
    from rmqtool.scan.batch import Extent


class Stretch(NamedTuple):
    """What is no record: a filler, a gap or an unused tail."""

    kind: Extent  # which of them
    position: int  # first byte in the segment
    length: int  # bytes
    code: Code | None  # what is wrong with it; None when all is well


@dataclass(frozen=True, slots=True)
class IndexRun:
    """Index entries in the order in which a broker adds them. Picklable.

    All entries of a record follow each other and have the same physical offset. Which file they
    go to, and their time differences, depend on the entries before them: rebuild/index.py.
    """

    # int32, shape (n,): what the index files of `topic#key`; never negative
    hashes: npt.NDArray[np.int32]
    physical_offsets: npt.NDArray[np.int64]  # int64, shape (n,)
    store_timestamps: npt.NDArray[np.int64]  # int64, shape (n,): ms

    def __len__(self) -> int:
        return len(self.hashes)


@dataclass(frozen=True, slots=True)
class Runs:
    """What one part of a commitlog dispatches. Picklable."""

    # position in the segment at which the first extent begins; None when none does
    first: int | None
    end: int  # position after the last extent
    records: int  # how many
    queues: QueueRuns  # units of consume queues
    batch_queues: QueueRuns  # units of batch queues
    index: IndexRun  # entries of the key index
    stretches: tuple[Stretch, ...]  # fillers, gaps, unused tails, in file order
    # physical offsets of records that no broker can dispatch: a numeric property is no number.
    # All later ones of the segment are lost to a broker, too.
    undispatched: tuple[int, ...]
    last_physical_offset: int  # of the last record; -1 without records
    last_store_timestamp: int  # of the last record, ms; -1 without records
