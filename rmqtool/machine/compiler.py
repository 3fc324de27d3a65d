"""Compile a kernel to object code with numba. Nothing else of rmqtool loads numba."""

from __future__ import annotations

import re
import types
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numba
from numba.core.extending import intrinsic

from rmqtool.machine.compiled import Instruction, Kernel, Piece
from rmqtool.machine.machine_code import KNOWN_SYMBOLS, emit

if TYPE_CHECKING:
    from collections.abc import Callable

# Some releases of numba have types and some have none: neither is to be relied on.
NJIT: Any = numba.njit
OPTIONS: Final = {"boundscheck": False, "error_model": "numpy"}
BARE: Final = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
DECLARED: Final = re.compile(r'^declare [^@]*@"?([^"(]+)"?\(', re.MULTILINE)


def compile_kernel(kernel: Kernel) -> tuple[str, bytes]:
    """Give the symbol and the object code of a kernel."""
    made = NJIT(kernel.signature, **OPTIONS, **BARE)(_with_compiled_globals(kernel.function))
    (overload,) = made.overloads.values()
    (assembly,) = made.inspect_llvm().values()
    needed = {name for name in DECLARED.findall(assembly) if not name.startswith("llvm.")}
    if unknown := needed - KNOWN_SYMBOLS:
        # LLVM ends the process when it cannot find one: rather say it here, to who wrote it.
        message = f"{kernel.function.__qualname__} needs {min(unknown)}, which no process has"
        raise TypeError(message)
    return overload.fndesc.llvm_func_name, emit(assembly)


def _with_compiled_globals(function: Callable[..., object]) -> Callable[..., object]:
    """Give a function that finds compiled ones where the source names pieces and instructions."""
    code = function.__code__
    known = function.__globals__
    names = {name: _compiled(known[name]) for name in code.co_names if _is_ours(known.get(name))}
    made = types.FunctionType(code, known | names, function.__name__, function.__defaults__)
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return made


def _is_ours(value: object) -> bool:
    return isinstance(value, Instruction | Piece | Kernel)


@cache
def _compiled(one: Instruction | Piece | Kernel) -> Any:  # noqa: ANN401 - numba's own objects
    if isinstance(one, Instruction):
        return intrinsic(getattr(import_module(one.module), one.name))
    forced = {"forceinline": True} if isinstance(one, Piece) and one.forceinline else {}
    return NJIT(**OPTIONS, **forced)(_with_compiled_globals(one.function))
