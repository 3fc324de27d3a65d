"""Machine instructions that numba does not offer: unaligned big-endian loads, byte masks, calls.

None checks bounds: a caller proves that `position` lies in the array. Loads of 8 bytes and masks
of 32 may read past the end of a record, so windows are allocated with SLACK bytes after them.
What they are made of is in `instructions`, which only the compiler loads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from rmqtool.machine.pieces import Instruction

if TYPE_CHECKING:
    from collections.abc import Callable

SLACK: Final = 64  # bytes that a window has after its last one
MASK_BYTES: Final = 32  # bytes that one mask looks at


def _instruction(name: str) -> Callable[..., int]:
    """Give an instruction that kernels can use; it takes its arguments from its generator."""
    return cast("Callable[..., int]", Instruction("rmqtool.machine.instructions", name))


load_u1: Final = _instruction("load_u1")
load_i1: Final = _instruction("load_i1")
load_i2: Final = _instruction("load_i2")
load_i4: Final = _instruction("load_i4")
load_i8: Final = _instruction("load_i8")
store_i4: Final = _instruction("store_i4")
store_i8: Final = _instruction("store_i8")
mask_of: Final = _instruction("mask_of")
differences: Final = _instruction("differences")
trailing_zeros: Final = _instruction("trailing_zeros")
call_crc32: Final = _instruction("call_crc32")
address_of: Final = _instruction("address_of")
call_c: Final = _instruction("call_c")
number_at: Final = _instruction("number_at")
