"""What kernels name, as their bytecode tells."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

from rmqtool.machine.compiled import Kernel
from rmqtool.machine.pieces import KernelPiece


class Constant(NamedTuple):
    """A value that a function of a kernel names.

    Attributes:
        names: the names of a module, in which it can be changed.
        name: by which it is known there.
        value: what it is.
    """

    names: dict[str, Any]
    name: str
    value: Any


def functions(kernel: Kernel) -> Iterator[Any]:
    """Yield the function of a kernel and those of all its pieces, each once."""
    seen, waiting = set(), [kernel.function]
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        yield function
        waiting += [
            one.value.function for one in constants(function) if isinstance(one.value, KernelPiece)
        ]


def constants(function: Any) -> Iterator[Constant]:  # noqa: ANN401 - has a code and globals
    """Yield what a function names, as its bytecode tells: globals, and attributes of modules."""
    module: ModuleType | None = None
    for instruction in dis.get_instructions(function.__code__):
        name = str(instruction.argval)
        if instruction.opname == "LOAD_ATTR" and module is not None:
            yield Constant(vars(module), name, getattr(module, name))
        module = None
        if instruction.opname == "LOAD_GLOBAL" and name in function.__globals__:
            value = function.__globals__[name]
            if isinstance(value, ModuleType):
                module = value
            else:
                yield Constant(function.__globals__, name, value)
