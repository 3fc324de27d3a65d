"""Compile a kernel with numba. Nothing else of rmqtool loads numba.

numba optimises each function and makes machine code of it before the function is compiled into its
callers, where both are done again. Here the functions of a kernel are put together first; then the
whole is optimised and becomes machine code once. That takes half the processor time.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import types as python_types
import warnings
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from rmqtool.machine.machine_code import HOST, emit
from rmqtool.machine.pieces import Instruction, KernelPiece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def _without_configuration() -> Iterator[None]:
    """Keep numba from the file `.numba_config.yaml` of the current directory.

    That may be the directory of a store, of which nothing is ever read as configuration. Without
    a YAML reader numba cannot read it, and warns.
    """
    known = sys.modules.get("yaml")
    sys.modules["yaml"] = None  # type: ignore[assignment]  # Python's own sign for "not there"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        del sys.modules["yaml"]
        if known is not None:
            sys.modules["yaml"] = known


with _without_configuration():
    import numba
    from numba.core import config
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.compiler_machinery import PassManager
    from numba.core.extending import intrinsic
    from numba.core.types import unliteral
    from numba.core.types.functions import BaseFunction

config._config_fname = os.devnull  # noqa: SLF001 - numba looks again before each compilation

# Some releases of numba have types and some have none: neither is to be relied on.
CONFIG: Any = config
NJIT: Any = numba.njit
LIBRARY: Any = JITCodeLibrary
COMPILER: Any = CompilerBase
PASSES: Any = DefaultPassBuilder
MANAGER: Any = PassManager
RESOLVES: Any = BaseFunction
OPTIONS: Final = {
    "boundscheck": False,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
BARE: Final = {"_nrt": False}  # no counts of references: kernels allocate nothing
# numba's passes for what no kernel has: closures, `with`, dynamic exceptions, literals as types,
# expressions over whole arrays, parallel loops. Each looks through every function.
NEEDLESS: Final = frozenset(
    {
        *("with_lifting", "inline_closure_likes", "rewrite_semantic_constants"),
        *("dead_branch_prune", "Rewrite dynamic raises", "make_function_op_code_to_jit_function"),
        *("inline_inlinables", "find_literally", "literal_unroll", "LiteralPropagation"),
        *("inline_overloads", "nopython_rewrites", "annotate_types", "dump_parfor_diagnostics"),
    }
)
_resolved: dict[tuple[Any, ...], Any] = {}
DECLARED: Final = re.compile(r'^declare [^@]*@"?([^"(]+)"?\(', re.MULTILINE)


class _Parts(LIBRARY):  # type: ignore[misc]  # of no type that is known
    """The LLVM code of one function and of those it calls: put together, and left at that."""

    def _optimize_final_module(self) -> None:
        """Leave it to who has the whole."""

    def _finalize_final_module(self) -> None:
        """Make no machine code."""
        self._finalized = True

    def optimised(self) -> str:
        """Give the whole as assembly, optimised as numba would have done it."""
        with global_compiler_lock:
            self._ensure_finalized()
            super()._optimize_final_module()
        return str(self._final_module)


class _PartCompiler(COMPILER):  # type: ignore[misc]  # of no type that is known
    """Takes a function to LLVM code by numba's own passes, and no further."""

    def define_pipelines(self) -> list[Any]:
        """Give numba's passes, but for those that find nothing to do in a kernel."""
        codegen = self.state.targetctx.codegen()
        self.state.library = _Parts(codegen, self.state.func_id.func_qualname)
        self.state.flags.no_compile = True
        passes = MANAGER("kernel")
        for compiler_pass, what in PASSES.define_nopython_pipeline(self.state).passes:
            if compiler_pass.name() not in NEEDLESS:
                passes.add_pass(compiler_pass, what)
        passes.finalize()
        return [passes]

    def compile_extra(self, function: Callable[..., object]) -> Any:  # noqa: ANN401 - numba's own
        """Compile a function, and let others call it."""
        # numba tells functions apart by their entry points, and here there are none: any method
        # of an object of its own serves, as nothing ever calls it.
        entry_point = [function].count
        made = super().compile_extra(function)._replace(entry_point=entry_point)
        self.state.targetctx.insert_user_function(entry_point, made.fndesc, [made.library])
        return made


def compile_kernel(
    function: Callable[..., object], signature: str, level: str = HOST
) -> tuple[str, bytes]:
    """Give the symbol and the object code of a kernel.

    Args:
        function: which.
        signature: of it.
        level: the processors that it is for, the same in all of a process: numba asks once.

    Raises:
        TypeError: it needs something of numba's run-time library.
    """
    if level != HOST:
        CONFIG.CPU_NAME, CONFIG.CPU_FEATURES = level, ""
    with global_compiler_lock, _no_search_for_garbage(), _remembering():
        made = _jit(signature, **BARE, pipeline_class=_PartCompiler)(_prepared(function, _part))
    (overload,) = made.overloads.values()
    assembly = overload.library.optimised()
    needed = {name for name in DECLARED.findall(assembly) if not name.startswith("llvm.")}
    if needed:
        # LLVM ends the process when it cannot find one: rather say it here, to who wrote it.
        message = f"{function.__qualname__} needs {min(needed)}, which no process has"
        raise TypeError(message)
    return overload.fndesc.llvm_func_name, emit(assembly, level)


@contextmanager
def _no_search_for_garbage() -> Iterator[None]:
    """Keep Python from looking for garbage: numba makes many objects, and keeps most of them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def _remembering() -> Iterator[None]:
    """Have numba resolve an operation on types once, and not again at each place that has it."""
    resolve = RESOLVES.get_call_type

    def remembered(self: Any, context: Any, arguments: Any, keywords: Any) -> Any:  # noqa: ANN401
        key = (self, arguments, tuple(dict(keywords or ()).items()))
        if key not in _resolved:
            _resolved[key] = resolve(self, context, arguments, keywords)
        return _resolved[key]

    RESOLVES.get_call_type = remembered
    try:
        yield
    finally:
        RESOLVES.get_call_type = resolve


def plain(function: Callable[..., object], signature: str) -> Callable[..., Any]:
    """Give a kernel as numba alone compiles, links and calls it, for this process only."""
    made: Callable[..., Any] = NJIT(signature, boundscheck=False, error_model="numpy", nogil=True)(
        _prepared(function, _plain)
    )
    return made


def _jit(*signature: str, **options: Any) -> Any:  # noqa: ANN401 - numba's own
    return NJIT(*signature, **OPTIONS, **options)


def _prepared(
    function: Callable[..., object], compiled: Callable[[Instruction | KernelPiece], Any]
) -> Callable[..., object]:
    """Give a function that finds compiled ones where the source names pieces and instructions."""
    code = function.__code__
    known = function.__globals__
    names = {
        name: compiled(known[name])
        for name in code.co_names
        if isinstance(known.get(name), Instruction | KernelPiece)
    }
    made = python_types.FunctionType(code, known | names, function.__name__, function.__defaults__)
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return made


@cache
def _part(piece: Instruction | KernelPiece) -> Any:  # noqa: ANN401 - numba's own
    """Give what kernels call; it is compiled when the first one does."""
    if isinstance(piece, Instruction):
        return _instruction(piece)
    forced = {"forceinline": True} if piece.forceinline else {}
    made = _jit(**BARE, **forced, pipeline_class=_PartCompiler)(_prepared(piece.function, _part))
    template_of = made.get_call_template

    def for_any_number(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:  # noqa: ANN401
        # Else numba compiles a function again for each constant that it is called with.
        return template_of(tuple(map(unliteral, arguments)), keywords)

    made.get_call_template = for_any_number
    return made


@cache
def _plain(piece: Instruction | KernelPiece) -> Any:  # noqa: ANN401 - numba's own
    if isinstance(piece, Instruction):
        return _instruction(piece)
    return NJIT(boundscheck=False, error_model="numpy")(_prepared(piece.function, _plain))


@cache
def _instruction(instruction: Instruction) -> Any:  # noqa: ANN401 - numba's own
    return intrinsic(getattr(import_module(instruction.module), instruction.name))
