"""Where compiled kernels are kept: somewhere writable, and never under a stale name."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from rmqtool.machine import compiled

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _forgetful() -> None:
    """Let each test ask anew."""
    compiled.cache_directory.cache_clear()
    compiled._stamp.cache_clear()  # noqa: SLF001 - nobody but this test changes sources at run time


def sources(directory: Path, text: str = "one") -> Path:
    """Make a directory of modules."""
    (directory / "package").mkdir(exist_ok=True)
    (directory / "package" / "kernels.py").write_text(text)
    return directory / "package"


def test_beside_the_sources(tmp_path: Path) -> None:
    """Compiled kernels lie beside their sources if they may."""
    found = compiled.cache_directory(sources(tmp_path))
    assert found is not None
    assert found.startswith(str(tmp_path / "package" / "__pycache__" / "kernels-"))


def test_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the package cannot be written they lie in the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "platform", "linux")
    package = sources(tmp_path)
    (package / "__pycache__").write_text("a file, so no directory can be made here")
    found = compiled.cache_directory(package)
    assert found is not None
    assert found.startswith(str(tmp_path / "cache" / "rmqtool" / "kernels-"))


def test_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be written there is no cache, and no error."""
    obstacle = tmp_path / "obstacle"
    obstacle.write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(obstacle))
    monkeypatch.setattr(sys, "platform", "linux")
    package = sources(tmp_path)
    (package / "__pycache__").write_text("a file")
    assert compiled.cache_directory(package) is None
    assert compiled.cache_directory(package, str(obstacle / "wanted")) is None


def test_where_the_user_wants(tmp_path: Path) -> None:
    """NUMBA_CACHE_DIR is obeyed."""
    found = compiled.cache_directory(sources(tmp_path), str(tmp_path / "wanted"))
    assert found is not None
    assert found.startswith(str(tmp_path / "wanted" / "kernels-"))


def test_changed_source_changes_the_name(tmp_path: Path) -> None:
    """A changed helper is never run in its old compiled form, whatever the time of its file."""
    before = compiled.cache_directory(sources(tmp_path, "one"))
    compiled.cache_directory.cache_clear()
    compiled._stamp.cache_clear()  # noqa: SLF001
    assert before != compiled.cache_directory(sources(tmp_path, "two"))


def test_what_nobody_uses_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of other versions go when they were not used for a month; nothing else ever does."""
    own = tmp_path / "kernels-00000000000000ff"
    names = {
        own: 99,
        tmp_path / "kernels-0000000000000001": 31,
        tmp_path / "kernels-0000000000000002": 29,
        tmp_path / "kernels-of-somebody-else": 99,
        tmp_path / "photographs": 99,
    }
    for directory, days in names.items():
        directory.mkdir()
        (directory / "code.o").touch()
        for path in (directory / "code.o", directory):
            os.utime(path, (time.time() - days * 24 * 3600,) * 2)
    compiled._forget_unused(own)  # noqa: SLF001 - else called only after a compilation
    assert names.keys() - {tmp_path / "kernels-0000000000000001"} == set(tmp_path.iterdir())
    read = tmp_path / "kernels-0000000000000001"
    read.mkdir()
    (read / "code.o").touch()
    os.utime(read / "code.o", (time.time(), 0))
    monkeypatch.setattr(compiled, "_forget_unused", compiled._forget_unused.__wrapped__)  # noqa: SLF001
    compiled._forget_unused(own)  # noqa: SLF001
    assert read.is_dir()


def test_kernel_without_a_cache(tmp_path: Path) -> None:
    """A kernel works in a process that can keep nothing."""
    module = tmp_path / "twice.py"
    module.write_text(
        "from rmqtool.scan import compiled\n"
        "compiled.cache_directory = lambda *_: None\n"
        "@compiled.kernel('int64(int64)')\n"
        "def twice(number):\n"
        "    return 2 * number\n"
        "print(twice(21))\n"
    )
    made = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, str(module)], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert made.stdout == "42\n"


def test_kept_by_another_user(tmp_path: Path) -> None:
    """What was compiled where only another user may write serves: an image, a shared machine."""
    module = tmp_path / "twice.py"
    module.write_text(
        "import sys\n"
        "from rmqtool.scan import compiled\n"
        "if sys.argv[1:]:  # who may write nowhere, and has no compiler\n"
        "    compiled.cache_directory = lambda *_: None\n"
        "    sys.modules['rmqtool.machine.compiler'] = None\n"
        "@compiled.kernel('int64(int64)')\n"
        "def twice(number):\n"
        "    return 2 * number\n"
        "print(twice(21))\n"
    )
    for arguments in ([], ["again"]):
        made = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, str(module), *arguments], capture_output=True, text=True, check=True
        )
        assert made.stdout == "42\n"
