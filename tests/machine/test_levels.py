"""Code for a level of processors: right on each that has it, and found where there is no other."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqtool.machine import cache, machine_code
from rmqtool.machine.cache import CacheDirectory
from rmqtool.machine.compiled import PROBE

ROOT = Path(__file__).parents[2]
# Compiles the kernel with known answers for a level, keeps it, and asks what is kept.
PROGRAM = """
import sys
from rmqtool.machine import cache, compiled, machine_code, probe
from rmqtool.machine.cache import CacheDirectory
level, place = sys.argv[1:]
cache.installed = lambda: CacheDirectory(place)
cache.own = lambda: []
kernel = compiled.PROBE
assert kernel.kept() is None
cache.keep(kernel.key_for(level), kernel.compile(level), [cache.installed()])
found = kernel.kept()
assert found is not None
run = machine_code.Routine(kernel.signature, *found)
print(probe.answers(lambda *arguments: run(arguments)) == probe.ANSWERS)
"""


@pytest.fixture
def place() -> Iterator[str]:
    """Give a directory of the user's own."""
    with tempfile.TemporaryDirectory(prefix="rmqtool-levels-") as path:
        yield path


def test_highest_first() -> None:
    """A processor has the lowest level, and each level below one that it has."""
    found = machine_code.levels()
    known = [
        name for name in machine_code.LEVELS if name.startswith("x86") == found[0].startswith("x86")
    ]
    assert found
    assert [*found] == known[len(known) - len(found) :]


def test_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that lacks an instruction of a level has it not."""
    if not machine_code.levels()[0].startswith("x86"):
        pytest.skip("one level only")
    monkeypatch.setattr(machine_code, "has_instructions", lambda names: "avx2" not in names)
    machine_code.levels.cache_clear()
    try:
        assert ("x86-64-v2", "x86-64") == machine_code.levels()
    finally:
        machine_code.levels.cache_clear()


@pytest.mark.parametrize("level", machine_code.levels())
def test_right(level: str, place: str) -> None:
    """Code for a level gives the known answers, and is found though none is for this processor."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM, level, place],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "True\n" == done.stdout


def test_apart(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code for this processor is taken before that for a level, whose stamp is another one."""
    monkeypatch.setattr(cache, "own", list)
    monkeypatch.setattr(cache, "installed", lambda: CacheDirectory(place))
    for level in (*reversed(machine_code.levels()), ""):  # the best one last
        code = cache.KernelCode(level or "host", b"code")
        cache.keep(PROBE.key_for(level), code, [cache.installed()])
        assert code == PROBE.kept()
