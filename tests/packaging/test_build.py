"""sdist and wheel build clean, hold what they should, and install where nothing else is."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Final

import pytest

from rmqtool import __version__
from rmqtool.machine import announce
from tests.stores import fixture_store

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("rmqtool", "pyspark_rocketmq")
SHARED: Final = re.compile(rf"rmqtool-{re.escape(__version__)}\.data/data/(share/.+)")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both as a release would, the wheel out of the sdist."""
    target = tmp_path_factory.mktemp("dist")
    done = subprocess.run(  # noqa: S603 - our own tree
        [sys.executable, "-m", "build", "--outdir", str(target), str(ROOT)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower()
    return target


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """Give the wheel."""
    (path,) = built.glob("*.whl")
    return path


def sources() -> set[str]:
    """Give the files of the package, as they are in the tree."""
    return {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_wheel(wheel: Path) -> None:
    """The wheel has the package, pages, completion and licence, and no tests or fixtures."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(f"rmqtool-{__version__}.dist-info/METADATA").decode()
    info = f"rmqtool-{__version__}.dist-info"
    assert {f"{info}/licenses/LICENSE", f"{info}/METADATA", f"{info}/entry_points.txt"} <= names
    shared = {match[1] for match in map(SHARED.fullmatch, names) if match}
    assert {f"share/{path.relative_to(ROOT)}" for path in (ROOT / "man").rglob("*.*")} == {
        name for name in shared if name.startswith("share/man/")
    }
    assert {
        "share/bash-completion/completions/rmqtool",
        "share/fish/vendor_completions.d/rmqtool.fish",
        "share/zsh/site-functions/_rmqtool",
    } <= shared
    package = {name for name in names if name.partition("/")[0] in PACKAGES}
    assert sources() == package
    assert names == package | {name for name in names if name.startswith(f"rmqtool-{__version__}.")}
    for line in (
        "License-Expression: Apache-2.0",
        "Requires-Python: >=3.11",
        "Provides-Extra: spark",
    ):
        assert line in metadata


def test_sdist(built: Path) -> None:
    """The sdist has what the wheel is built from, and the pages that people read."""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert sources() <= names
    pages = {"README.md", "CHANGELOG.md", "DEPENDENCIES.md", "LICENSE", "pyproject.toml"}
    pages |= {"SECURITY.md", "requirements.lock", "rmqtool.cdx.json"}
    assert pages <= names
    assert ["packaging/compiled_kernels.py"] == [
        path for path in names if path.startswith("packaging/") and path != "packaging/"
    ]
    assert {path.split("/")[0] for path in names if path} <= pages | {
        *PACKAGES, "man", "completion", "packaging", "PKG-INFO", ".gitignore",
    }  # fmt: skip


@pytest.fixture(scope="module")
def tool(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel as a tool of its own, as `pipx install` or `uv tool install` do."""
    return installed(wheel, tmp_path_factory.mktemp("tool"))


def installed(wheel: Path, place: Path) -> Path:
    """Install a wheel in a directory."""
    environment = {
        **os.environ,
        "UV_TOOL_DIR": str(place / "tools"),
        "UV_TOOL_BIN_DIR": str(place / "bin"),
        "UV_PYTHON_DOWNLOADS": "never",
    }
    done = subprocess.run(  # noqa: S603 - our own wheel
        [sys.executable, "-m", "uv", "tool", "install", "--python", sys.executable, str(wheel)],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    return place


def run(tool: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the installed program, with nothing of this tree in sight."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tool), "LANG": "C"}
    return subprocess.run(  # noqa: S603 - our own program
        [str(tool / "bin" / "rmqtool"), *map(str, arguments)],
        capture_output=True, text=True, check=False, cwd=tool, env=environment,
    )  # fmt: skip


def test_installed(tool: Path, tmp_path: Path) -> None:
    """Installed without extras the program works: looks, proves, draws, rebuilds, explains."""
    version = run(tool, "--version")
    assert f"rmqtool {__version__}" == version.stdout.splitlines()[0]
    assert "pyspark not installed" in version.stdout.splitlines()
    store = fixture_store("rocketmq-5.3.3-lmq", tmp_path)
    for arguments in (
        ("info", store),
        ("dump", store, "--limit", 1),
        ("validate", store),
        ("report", store, "--output", tmp_path / "report.html"),
        ("rebuild", store, "--output", tmp_path / "rebuilt"),
        ("help", "findings"),
    ):
        done = run(tool, *arguments)
        assert 0 == done.returncode, (arguments, done.stderr)
    pages = list((tool / "tools").rglob("share/man/man1/rmqtool.1"))
    assert 1 == len(pages)


def test_compiled_kernels(tmp_path: Path) -> None:
    """A wheel that brings machine code: the first run compiles nothing, and keeps nothing."""
    is_intel = platform.machine() == "x86_64"
    done = subprocess.run(  # noqa: S603 - our own tree
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)],
        capture_output=True, text=True, check=False,
        env={**os.environ, "RMQTOOL_KERNELS": "x86-64" if is_intel else "generic"},
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert wheel.name.endswith(f"-{python}-none-manylinux_2_17_{platform.machine()}.whl")
    tool = installed(wheel, tmp_path / "tool")
    store = fixture_store("rocketmq-5.3.3-lmq", tmp_path)
    done = run(tool, "validate", store)
    assert 0 == done.returncode
    assert announce.COMPILING not in done.stderr
    assert [] == [path for path in tool.rglob("*.kernel") if "machine" not in path.parts]
