"""Exports that are killed, or whose disk fails, at each thing that they ask of the system.

The driver and its tasks run in this process: what Spark adds is that tasks run elsewhere. Each call
counts that changes the target: directories, new files, what is written to them, their names.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from rmqtool.errors import WriteFailed
from rmqtool.reads.export import PLAN, SUCCESS
from rmqtool.reads.export_options import ExportFormat
from tests.evidence import snapshot
from tests.spark.test_export import content, exported
from tests.store.faults import PERSISTENT, Faults, bad_disk, killed_at, no_space, operations
from tests.stores import fixture_store

FIXTURE = "rocketmq-5.3.3-lmq"
Failing = Callable[[Callable[..., object], tuple[object, ...]], object]


class Counted(io.RawIOBase):
    """A file each of whose writes is a call that may fail, or be the last one."""

    def __init__(self, handle: int) -> None:
        super().__init__()
        self._handle, self._position = handle, 0

    def fileno(self) -> int:
        """Give the descriptor."""
        return self._handle

    def writable(self) -> bool:
        """Say that it takes bytes."""
        return True

    def write(self, data: object) -> int:
        """Write some, by the call that is counted."""
        assert isinstance(data, memoryview)
        done = os.pwrite(self._handle, data, self._position)
        self._position += done
        return done

    def close(self) -> None:
        """Close it, once."""
        if not self.closed:
            super().close()
            os.close(self._handle)


@contextmanager
def counted_files() -> Iterator[None]:
    """Let what an export writes to its files pass through `os.pwrite`, where faults are."""
    original = os.fdopen

    def opened(handle: int, mode: str = "r", *options: object) -> object:
        if mode != "wb":
            return original(handle, mode, *options)  # type: ignore[call-overload]
        return io.BufferedWriter(Counted(handle), 4096)

    with mock.patch.object(os, "fdopen", opened):
        yield


@pytest.fixture
def store(quick_path: Path) -> Iterator[Path]:
    """A small store, which stays as it is."""
    made = fixture_store(FIXTURE, quick_path)
    before = snapshot(made)
    yield made
    assert before == snapshot(made)


def export(store: Path, target: Path) -> None:
    """Export, in files of a few tasks, in a directory for each queue."""
    columns = ("physical_offset", "position", "topic", "code")
    with counted_files():
        given: dict[str, Any] = {"by": ("queue_id",), "columns": columns, "split": 1 << 15}
        exported(store, target, form=ExportFormat.JSONL, **given)


def parts(target: Path) -> dict[str, bytes]:
    """Give the files that readers see; none where there is no target."""
    return {name: raw for name, raw in content(target).items() if not name.startswith("_")}


def finish(store: Path, target: Path, whole: dict[str, bytes]) -> None:
    """Demand that there are only complete files, and that the same command does the rest."""
    assert parts(target).items() <= whole.items()
    if (target / SUCCESS).exists():
        assert whole == parts(target)
    export(store, target)
    assert whole == parts(target)
    assert {PLAN, SUCCESS} == {path.name for path in target.glob("_*")}


def test_killed(store: Path, quick_path: Path) -> None:
    """Killed before any call that changes something: complete files, and the next run ends it."""
    export(store, quick_path / "whole")
    whole = parts(quick_path / "whole")
    number = 0
    while killed_at(number, lambda: export(store, quick_path / str(number))):  # noqa: B023
        finish(store, quick_path / str(number), whole)
        number += 1
    assert number > 50
    assert whole == parts(quick_path / str(number))


@pytest.mark.parametrize("lasting", [1, PERSISTENT])
@pytest.mark.parametrize("failing", [no_space, bad_disk])
def test_disk_fails(store: Path, quick_path: Path, failing: Failing, lasting: int) -> None:
    """A full or a broken disk at any call is told of, or harmless; the next run ends it."""
    export(store, quick_path / "whole")
    whole = parts(quick_path / "whole")
    told = 0
    count = operations(lambda: export(store, quick_path / "counted"))
    for number in range(count):
        target = quick_path / str(number)
        with Faults(number, failing, lasting=lasting).injected():
            try:
                export(store, target)
            except WriteFailed:
                told += 1
        finish(store, target, whole)
    assert told > count // 2
