"""Progress of long work, for a person at a terminal: bytes, rate, time left. On stderr only."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress, ProgressColumn

PATIENCE_SECONDS: Final = 1.0  # before a person wonders


@contextmanager
def progress(
    label: str, total_bytes: int | None, *, quiet: bool = False
) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs; yield the function that takes the bytes done since last.

    Nothing is shown, and rich is not imported, when stderr is no terminal or `quiet` is set.

    Args:
        label: what is being done, one word or two.
        total_bytes: all there is to do; None when nobody knows.
        quiet: show nothing.
    """
    if not _is_shown(quiet=quiet):
        yield lambda _: None
        return
    from rich.progress import DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    with _bar(*columns) as bar:
        task = bar.add_task(label, total=total_bytes)
        yield lambda done: bar.update(task, advance=done)


@contextmanager
def late_progress(label: str, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Show a bar as `progress` does, but only once the block takes longer than a second.

    It comes whether or not bytes are done: a block may work for long on what it has read.

    Args:
        label: what is being done, one word or two.
        quiet: show nothing.
    """
    if not _is_shown(quiet=quiet):
        yield lambda _: None
        return
    from contextlib import ExitStack
    from threading import Lock, Timer

    lock = Lock()
    shown: list[Callable[[int], None]] = []
    waiting, is_over = 0, False

    def advance(done: int) -> None:
        nonlocal waiting
        with lock:
            waiting += done
            if shown:
                shown[0](waiting)
                waiting = 0

    def show() -> None:
        with lock:
            if not is_over:
                shown.append(stack.enter_context(progress(label, None)))

    with ExitStack() as stack:
        timer = Timer(PATIENCE_SECONDS, show)
        timer.daemon = True
        timer.start()
        try:
            yield advance
        finally:
            timer.cancel()
            with lock:
                is_over = True


@contextmanager
def counted(label: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a bar while the block runs; yield the function that takes how many are done, of all.

    Nothing is shown, and rich is not imported, when stderr is no terminal or `quiet` is set.

    Args:
        label: what is being done, one word or two.
        quiet: show nothing.
    """
    if not _is_shown(quiet=quiet):
        yield lambda _done, _all: None
        return
    from rich.progress import MofNCompleteColumn

    with _bar(MofNCompleteColumn()) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _is_shown(*, quiet: bool) -> bool:
    return not quiet and sys.stderr is not None and sys.stderr.isatty()


def _bar(*columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *columns,
        console=Console(stderr=True),
        refresh_per_second=5,
        transient=True,
    )
