"""What kernels are made of: functions that are compiled into them, and single instructions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Instruction:
    """What kernels call and a generator of LLVM code makes."""

    module: str  # where the generator is; loaded by the compiler only
    name: str  # of the generator


@dataclass(frozen=True, slots=True)
class KernelPiece:
    """A function that is compiled into the kernels that call it."""

    function: Callable[..., object]  # its source
    forceinline: bool  # into each place of a call
