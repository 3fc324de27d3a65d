"""Progress of long work, for a person at a terminal: bytes, rate, time left. On stderr only."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        refresh_per_second=5,
        transient=True,
    )
    with bar:
        task = bar.add_task(label, total=total_bytes)
        yield lambda done: bar.update(task, advance=done)


@contextmanager
def counted(label: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a bar while the block runs; yield the function that takes how many are done, of all.

    Nothing is shown, and rich is not imported, when stderr is no terminal or `quiet` is set.

    Args:
        label: what is being done, one word or two.
        quiet: show nothing.
    """
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield lambda _done, _all: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        refresh_per_second=5,
        transient=True,
    )
    with bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
