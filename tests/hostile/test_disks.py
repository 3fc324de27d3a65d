"""Disks that refuse: full, read-only, without locks, or that cannot bring a name to the disk."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest import mock

import pytest

from rmqtool.cli.exits import NOT_DONE
from rmqtool.cli.main import main
from rmqtool.writing import system_calls
from rmqtool.writing.lock import StoreLock
from tests import inflict
from tests.hostile.power_cuts import REBUILD, REPAIR, UNDO
from tests.store.edited_store import leftovers, traces_below
from tests.store.faults import CHANGING
from tests.stores import fixture_store

NAME: Final = "rocketmq-4.9.3-lmq"


class Refusal(NamedTuple):
    """How a disk refuses."""

    number: int  # of the error
    calls: tuple[str, ...]  # of `os`, and of `fcntl`
    words: str  # on stderr
    of_directories: bool = False  # only where a directory is asked about


REFUSALS: Final[dict[str, Refusal]] = {
    "full": Refusal(errno.ENOSPC, ("pwrite", "ftruncate", "mkdir"), "No space left on device"),
    "read-only": Refusal(errno.EROFS, (*CHANGING, "open"), "Read-only file system"),
    "other-device": Refusal(errno.EXDEV, ("rename", "_rename"), "Invalid cross-device link"),
    "no-locks": Refusal(errno.ENOLCK, ("fcntl",), "No locks available"),
    "no-directories": Refusal(
        errno.EINVAL, ("fsync",), "cannot bring the names in a directory to the disk", True
    ),
}


@contextmanager
def refusing(refusal: Refusal) -> Iterator[None]:
    """Let a disk refuse what changes something."""

    def refused(call: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*arguments: Any, **others: Any) -> Any:  # noqa: ANN401 - whatever is asked
            if call is os_open and not arguments[1] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
                return call(*arguments, **others)
            if refusal.of_directories and not stat.S_ISDIR(os.fstat(arguments[0]).st_mode):
                return call(*arguments, **others)
            raise OSError(refusal.number, os.strerror(refusal.number))

        return asked

    os_open = os.open
    owners = {"fcntl": fcntl, "_rename": system_calls}
    with ExitStack() as stack:
        for name in refusal.calls:
            owner = owners.get(name, os)
            patch = mock.patch.object(owner, name, refused(getattr(owner, name)))
            stack.enter_context(patch)
        yield


@pytest.mark.parametrize("command", [REPAIR, REBUILD, UNDO], ids=["repair", "rebuild", "undo"])
@pytest.mark.parametrize("name", REFUSALS)
def test_refused(
    quick_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    name: str,
    command: tuple[str, ...],
) -> None:
    """A line says what the disk refused, the exit code is 2, and the store is as it was."""
    monkeypatch.setattr(StoreLock, "_others", lambda _: [])
    store = fixture_store(NAME, quick_path)
    inflict.flip_field("body")(store)
    shutil.rmtree(store / "consumequeue")
    if command is UNDO:
        assert main([REPAIR[0], str(store), *REPAIR[1:], "--quiet"]) in {0, 1}
    before, kept = traces_below(store), leftovers(store)
    capfd.readouterr()
    with refusing(REFUSALS[name]):
        code = main([command[0], str(store), *command[1:], "--quiet"])
    words = capfd.readouterr().err
    assert NOT_DONE == code
    assert REFUSALS[name].words in words
    assert "Traceback" not in words
    assert before == traces_below(store)
    assert main([command[0], str(store), *command[1:], "--quiet"]) in {0, 1}
    assert len(kept) == len(leftovers(store)) + (1 if command is UNDO else -1)
