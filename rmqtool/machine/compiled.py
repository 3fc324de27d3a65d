"""Declare kernels, and run them as machine code.

A kernel is compiled by numba to machine code, which is kept on disk (`cache`): only the first call
on a machine waits for the compiler. Later processes link the machine code (`machine_code`) and do
not load numba, which takes longer than a small store. What is kept is found under a digest of all
that it was made from (`stamp`). A kernel drops the interpreter lock and has one explicit signature.
"""

from __future__ import annotations

import functools
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from rmqtool.machine import announce, probe
from rmqtool.machine.pieces import KernelPiece

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.machine.cache import KernelCode, KernelKey
    from rmqtool.machine.machine_code import Routine

Function = TypeVar("Function", bound="Callable[..., object]")

PLAIN: Final = (
    "machine code gives wrong answers with this release of numba or on this processor: "
    "numba runs it by itself, which takes longer; please report it"
)
NOT_KEPT: Final = (
    "compiled code cannot be kept, so each run compiles again: {}. "
    "Set XDG_CACHE_HOME to a directory of your own, or run `rmqtool warm-up` as root"
)
_lock = threading.RLock()


class Kernel:
    """A function that runs as machine code; made by `kernel`, called like any function."""

    def __init__(self, function: Callable[..., object], signature: str) -> None:
        functools.update_wrapper(self, function)
        self.function, self.signature = function, signature
        self._run: Callable[[tuple[Any, ...]], Any] | None = None

    def __call__(self, *arguments: Any) -> Any:  # noqa: ANN401 - what the signature says
        """Run the kernel, without the interpreter lock."""
        return (self._run or self._load())(arguments)

    def _load(self) -> Callable[[tuple[Any, ...]], Any]:
        with _lock:  # other threads that want the same kernel wait for it
            if self._run is None:
                self._run = self.linked() if _links() else self.plain()
            return self._run

    def linked(self) -> Routine:
        """Give the machine code, kept or new, ready to be called."""
        from rmqtool.machine.machine_code import Routine

        return Routine(self.signature, *self._machine_code())

    def plain(self) -> Callable[[tuple[Any, ...]], Any]:
        """Give the kernel as numba runs it by itself."""
        from rmqtool.machine.compiler import plain

        announce.say(PLAIN)
        with announce.compiling():
            made = plain(self.function, self.signature)
        return lambda arguments: made(*arguments)

    def _machine_code(self) -> KernelCode:
        from rmqtool.machine import cache
        from rmqtool.machine.cache import own

        if (code := self.kept()) is not None:
            return code
        made = self.compile()
        try:
            cache.keep(self.key, made, own())
        except cache.NotKept as error:
            announce.say(NOT_KEPT.format(error))
        return made

    def kept(self) -> KernelCode | None:
        """Give what is kept: for this very processor, or for a level that it has."""
        from rmqtool.machine import cache
        from rmqtool.machine.machine_code import levels

        if (code := cache.find(self.key, cache.places())) is not None:
            return code
        keys = map(self.key_for, levels())
        return next(filter(None, (cache.find(key, [cache.installed()]) for key in keys)), None)

    @property
    def key(self) -> KernelKey:
        """What its machine code for this very processor is found by."""
        return self.key_for()

    def key_for(self, level: str = "") -> KernelKey:
        """What its machine code is found by.

        Args:
            level: the processors that it is for, a name of LEVELS; of none this very one.
        """
        from rmqtool.machine.cache import KernelKey
        from rmqtool.machine.stamp import stamp

        name = f"{self.function.__module__}.{self.function.__qualname__}".rpartition("<locals>.")
        return KernelKey(name[2], stamp(self.function, self.signature, level))

    def compile(self, level: str = "") -> KernelCode:
        """Have it compiled, for a level of processors or for this very one."""
        from rmqtool.machine.cache import KernelCode

        with announce.compiling():
            from rmqtool.machine.compiler import compile_kernel  # takes a while to load, too

            return KernelCode(*compile_kernel(self.function, self.signature, level))


PROBE: Final = Kernel(probe.probe, probe.SIGNATURE)


@cache
def _links() -> bool:
    """Say whether machine code gives right answers here: ask the kernel whose answers are known."""
    linked = PROBE.linked()
    return probe.answers(lambda *arguments: linked(arguments)) == probe.ANSWERS


def kernel(signature: str) -> Callable[[Function], Function]:
    """Declare a kernel: a function that runs as machine code, without the interpreter lock.

    Args:
        signature: numba's notation; arrays must be C-contiguous, native and writable.
    """

    def declared(function: Function) -> Function:
        return cast("Function", Kernel(function, signature))

    return declared


def inlined(function: Function) -> Function:
    """Compile a function into each place where a kernel calls it.

    A call hands over each array as seven values, which takes longer than most helpers run.
    """
    return cast("Function", KernelPiece(function, forceinline=True))


def called(function: Function) -> Function:
    """Compile a function that kernels call: for what is long or seldom needed."""
    return cast("Function", KernelPiece(function, forceinline=False))
