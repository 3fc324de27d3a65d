"""A disk that fails at any single read, or gives fewer bytes than it was asked for."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from rmqtool.cli.main import main
from tests.evidence import snapshot
from tests.stores import fixture_store

COMMANDS = (
    ("validate",), ("info",), ("dump",), ("query", "--key", "none"), ("rebuild", "--check"),
    ("startup", "--broker-version", "5.3.3"), ("repair",),
)  # fmt: skip
ONE_THREAD = {"info", "startup"}
ERROR = "input/output error"
FEW = 4  # reads of each command that fail, unless all variants are asked for


@contextmanager
def reads(*, failing: int = -1, longest: int | None = None) -> Iterator[list[int]]:
    """Let the n-th read fail with EIO, or give each read some bytes only; count reads.

    EINTR is none of these: Python itself asks again (PEP 475), and never shows it.
    """
    count, pread, preadv = [0], os.pread, os.preadv

    def asked() -> None:
        count[0] += 1
        if count[0] - 1 == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def one(handle: int, length: int, position: int) -> bytes:
        asked()
        return pread(handle, min(length, longest or length), position)

    def many(handle: int, buffers: Sequence[memoryview], position: int) -> int:
        asked()
        return preadv(handle, [memoryview(part)[:longest] for part in buffers[:1]], position)

    with mock.patch.object(os, "pread", one), mock.patch.object(os, "preadv", many):
        yield count


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_fails_once(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    pytestconfig: pytest.Config,
    command: tuple[str, ...],
) -> None:
    """A bad sector at any read is told of, or was asked for twice; no command fails in surprise."""
    store = fixture_store("rocketmq-5.3.3-crash", tmp_path)
    before = snapshot(store)
    jobs = () if command[0] in ONE_THREAD else ("--jobs", "1")
    words = [command[0], str(store), *command[1:], *jobs, "--format", "jsonl"]
    sound = main(words)
    expected = capfd.readouterr().out
    with reads() as count:
        assert sound == main(words)
    capfd.readouterr()
    assert count[0] > 0, command
    step = 1 if pytestconfig.getoption("--all-variants") else max(count[0] // FEW, 1)
    for number in range(0, count[0], step):
        with reads(failing=number):
            code = main(words)
        told = capfd.readouterr()
        assert code in {0, 1, 2, 3}, (number, told.err)
        is_told = code or ERROR in told.out or ERROR in told.err
        assert is_told or essence(command[0], expected) == essence(command[0], told.out), number
        assert before == snapshot(store)


def essence(command: str, out: str) -> object:
    """Give what must be the same: damage. Notes and the release lean on files that many tell."""
    if command == "info":
        return None  # at a glance: what cannot be read is left out
    if command != "validate":
        return out
    rows = map(json.loads, out.splitlines())
    is_worse = (row for row in rows if row["severity"] != "note")
    return [(row["code"], row["path"], row["position"]) for row in is_worse]


@pytest.mark.parametrize("longest", [1000, 4097])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_short(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: tuple[str, ...], longest: int
) -> None:
    """Reads that give fewer bytes than they were asked for change no answer."""
    store = fixture_store("rocketmq-5.3.3-crash", tmp_path)
    words = [command[0], str(store), *command[1:], "--format", "jsonl"]
    sound = main(words), capfd.readouterr().out
    with reads(longest=longest):
        assert sound == (main(words), capfd.readouterr().out)
