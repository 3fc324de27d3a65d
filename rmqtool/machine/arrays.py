"""Names for the arrays and tuples that kernels take.

Items are `Any`: in a kernel they are machine integers, which a type checker cannot follow.
All arrays are in C order, native and writable; numba compiles again for any other kind.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy.typing as npt

UInt8s: TypeAlias = npt.NDArray[Any]
UInt32s: TypeAlias = npt.NDArray[Any]
Int64s: TypeAlias = npt.NDArray[Any]

Checksum: TypeAlias = tuple[int, UInt32s]  # what `crc.checksum()` gives
Topics: TypeAlias = tuple[Int64s, Int64s, UInt8s, Int64s]  # what `TopicTable.state` gives
