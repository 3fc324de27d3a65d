"""All kernels are compiled at once, for whom they are wanted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqtool.cli.commands.warm_up import WarmUp
from rmqtool.cli.delivery import Delivery
from rmqtool.errors import WriteFailed
from rmqtool.machine import cache, warm_up
from rmqtool.machine.cache import CacheDirectory
from rmqtool.machine.compiled import Kernel
from tests.imports import PACKAGE, imports
from tests.machine.test_cache import NOBODY, READS

NAMES = {kernel.key.name for kernel in warm_up.kernels()}
PROGRAM = """
import sys
sys.modules["rmqtool.machine.compiler"] = None  # nothing is to be compiled
from rmqtool.machine import announce
from rmqtool.machine.cache import installed
from rmqtool.scan.kernels_walk import total_size
import numpy as np
print(installed().path)
print(total_size(np.array([0, 0, 1, 2] * 30, np.uint8), 0))
"""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> dict[str, Kernel]:
    """Have few kernels: to compile all takes ten seconds."""
    wanted = ("zero_run", "total_size", "probe")
    found = {name: kernel for name, kernel in warm_up._named().items() if name.endswith(wanted)}  # noqa: SLF001
    monkeypatch.setattr(warm_up, "_named", lambda: found)
    return found


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a cache of one's own."""
    path = Path(tempfile.mkdtemp(prefix="rmqtool-home-"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(path / "cache"))
    yield path
    shutil.rmtree(path)


def test_every_kernel() -> None:
    """Whoever declares kernels is found: each module that imports `kernel`."""
    declaring = {
        one.importer
        for one in imports()
        if one.imported == "rmqtool.machine.compiled" and not one.is_lazy
    }
    source = {name: PACKAGE.parent.joinpath(*name.split(".")) for name in declaring}
    wanted = {
        name for name, path in source.items() if "\n@kernel(" in path.with_suffix(".py").read_text()
    }
    assert wanted | {"rmqtool.machine.probe"} == {name.rpartition(".")[0] for name in NAMES}


def test_own(home: Path, few: dict[str, Kernel], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is compiled, by several processes, and kept; then there is nothing to do."""
    monkeypatch.setattr(warm_up, "installed", lambda: CacheDirectory(f"{home}/file/kernels"))
    monkeypatch.setattr(warm_up, "default_jobs", lambda: 2)
    (home / "file").touch()  # there is nothing beside the modules
    seen: list[tuple[int, int]] = []
    ready = warm_up.warm_up(lambda done, of: seen.append((done, of)))
    assert [(1, 3), (2, 3), (3, 3)] == seen
    assert (3, 3, f"{home}/cache") == (ready.kernels, ready.compiled, ready.place)
    for kernel in few.values():
        assert cache.find(kernel.key, [CacheDirectory(ready.place)]) is not None
    assert 0 == warm_up.warm_up().compiled


@pytest.mark.skipif(os.geteuid() != 0, reason="takes the part of several users")
def test_of_root(home: Path, few: dict[str, Kernel]) -> None:
    """What root compiles beside an installation of root's every user runs."""
    home.chmod(0o755)
    shutil.copytree(PACKAGE, home / "rmqtool", ignore=shutil.ignore_patterns("__pycache__"))
    kernels = home / "rmqtool" / "machine" / "__pycache__" / "kernels"
    place = CacheDirectory(str(kernels), 0o755, 0o644)
    for kernel in few.values():
        cache.keep(kernel.key, cache.find(kernel.key, cache.places()) or kernel.compile(), [place])
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", *READS]
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [*user, sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=home,
        env={"PYTHONPATH": str(home), "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert f"{kernels}\n{0x0102}\n" == done.stdout


def test_command(
    home: Path,
    few: dict[str, Kernel],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The command says what it did, and where it is kept."""
    monkeypatch.setattr(warm_up, "installed", lambda: CacheDirectory(f"{home}/cache"))
    assert 0 == WarmUp().run()
    said = capfd.readouterr().err
    assert f"rmqtool: native code is ready: {len(few)} functions, " in said
    assert said.endswith(f"kept in {home}/cache\n")
    assert 0 == WarmUp(Delivery(quiet=True)).run()
    assert ("", "") == tuple(capfd.readouterr())


def test_nowhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be kept the command fails, and says why."""
    (home / "file").touch()
    nowhere = [CacheDirectory(f"{home}/file/cache")]
    monkeypatch.setattr(warm_up, "installed", lambda: nowhere[0])
    monkeypatch.setattr(warm_up, "own", lambda: nowhere)
    with pytest.raises(WriteFailed, match="file/cache: Not a directory"):
        WarmUp().run()


def test_no_processes(few: dict[str, Kernel], home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no semaphores, all is compiled in one process."""

    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError

    place = CacheDirectory(str(home / "kernels"))
    monkeypatch.setattr(warm_up, "installed", lambda: place)
    monkeypatch.setattr(warm_up, "own", lambda: [place])
    monkeypatch.setattr(warm_up, "ProcessPoolExecutor", refuse)
    assert (3, 3) == (len(few), warm_up.warm_up().compiled)
    assert all(cache.find(kernel.key, [place]) for kernel in few.values())
