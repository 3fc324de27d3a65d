"""Run one function over many parts of a store, in order, with bounded memory.

This is the engine of one machine: threads, as the kernels release the interpreter lock. Within
`using`, another engine takes its place: the same functions run on Spark executors from `spark/`.
Results come back in the order of the parts on either, so that both give the same bytes.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Part = TypeVar("Part")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs a per-part function somewhere else.

    Attributes:
        results_travel: whether what a part gives comes from another machine.
    """

    @property
    def results_travel(self) -> bool: ...  # noqa: D102

    def run(self, function: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        """Yield `function(part)` for each part, in the order of the parts, some at a time.

        Args:
            function: picklable; it opens and closes its own files.
            parts: small and picklable.
        """
        ...


_chosen: ContextVar[Engine | None] = ContextVar("engine", default=None)


@contextmanager
def using(engine: Engine | None) -> Iterator[None]:
    """Let an engine run the parts of all that is read within the block; None is this process."""
    token = _chosen.set(engine)
    try:
        yield
    finally:
        _chosen.reset(token)


def chosen() -> Engine | None:
    """Give the engine that `run` uses; None is this process."""
    return _chosen.get()


def results_travel() -> bool:
    """Tell whether results come from other machines, so that each byte of them counts."""
    engine = _chosen.get()
    return engine is not None and engine.results_travel


def default_jobs() -> int:
    """Give the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    function: Callable[[Part], Result], parts: Iterable[Part], *, jobs: int | None = None
) -> Iterator[Result]:
    """Yield `function(part)` for each part, in the order of the parts.

    At most `jobs + 2` results exist at a time, however many parts there are: while the caller
    looks at one, each thread works, and one more part waits for the thread that ends first. When
    the caller stops early, parts that have not begun are dropped.

    Args:
        function: a per-part function; it opens and closes its own files.
        parts: small and picklable, as they may travel to another machine.
        jobs: threads of this process; None is one for each processor.
    """
    engine = _chosen.get()
    if engine is not None:
        yield from engine.run(function, parts)
    else:
        yield from on_threads(function, parts, jobs)


def on_threads(
    function: Callable[[Part], Result], parts: Iterable[Part], jobs: int | None = None
) -> Iterator[Result]:
    """Yield `function(part)` for each part, in the order of the parts, on threads.

    Args:
        function: see `run`; it need not be picklable.
        parts: see `run`.
        jobs: threads; None is one for each processor.
    """
    workers = jobs or default_jobs()
    if workers == 1:
        yield from map(function, parts)
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="rmqtool")
    waiting: deque[Future[Result]] = deque()
    try:
        for part in parts:
            waiting.append(pool.submit(function, part))
            if len(waiting) > workers + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class LocalEngine:
    """Runs parts on threads of this process, where an engine is asked for by name.

    Args:
        jobs: threads; None is one for each processor.

    Attributes:
        results_travel: False.
    """

    results_travel = False

    def __init__(self, jobs: int | None = None) -> None:
        self._jobs = jobs

    def run(self, function: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        """Yield `function(part)` for each part, in the order of the parts; see `run` above."""
        return on_threads(function, parts, self._jobs)
