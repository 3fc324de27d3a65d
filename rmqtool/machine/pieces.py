"""What kernels are made of: functions that are compiled into them, and single instructions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Instruction:
    """What kernels call and a generator of LLVM code makes.

    Attributes:
        module: where the generator is; loaded by the compiler only.
        name: of the generator.
    """

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class KernelPiece:
    """A function that is compiled into the kernels that call it.

    Attributes:
        function: its source.
        forceinline: into each place of a call.
    """

    function: Callable[..., object]
    forceinline: bool
