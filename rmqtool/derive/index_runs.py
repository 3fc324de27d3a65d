"""Index runs: the entries of the key index that a part of a commitlog makes, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


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
