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
    """What is no record: a filler, a gap or an unused tail.

    Attributes:
        kind: which of them.
        position: first byte in the segment.
        length: bytes.
        code: what is wrong with it; None when all is well.
    """

    kind: Extent
    position: int
    length: int
    code: Code | None


@dataclass(frozen=True, slots=True)
class IndexRun:
    """Index entries in the order in which a broker adds them. Picklable.

    All entries of a record follow each other and have the same physical offset. Which file they
    go to, and their time differences, depend on the entries before them: rebuild/index.py.

    Attributes:
        hashes: int32, shape (n,): what the index files of `topic#key`; never negative.
        physical_offsets: int64, shape (n,).
        store_timestamps: int64, shape (n,): ms.
    """

    hashes: npt.NDArray[np.int32]
    physical_offsets: npt.NDArray[np.int64]
    store_timestamps: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.hashes)


@dataclass(frozen=True, slots=True)
class Runs:
    """What one part of a commitlog dispatches. Picklable.

    Attributes:
        first: position in the segment at which the first extent begins; None when none does.
        end: position behind the last extent.
        records: how many.
        queues: units of consume queues.
        batch_queues: units of batch queues.
        index: entries of the key index.
        stretches: fillers, gaps, unused tails, in file order.
        undispatched: physical offsets of records that no broker can dispatch: a number in their
            properties is none. All later ones of the segment are lost to a broker, too.
        last_physical_offset: of the last record; -1 without records.
        last_store_timestamp: of the last record, ms; -1 without records.
    """

    first: int | None
    end: int
    records: int
    queues: QueueRuns
    batch_queues: QueueRuns
    index: IndexRun
    stretches: tuple[Stretch, ...]
    undispatched: tuple[int, ...]
    last_physical_offset: int
    last_store_timestamp: int
