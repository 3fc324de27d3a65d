"""`packaging/set-up`, the two commands of README.md: what they install, and as whom."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.packaging import bare

SET_UP: Final = bare.ROOT / "packaging" / "set-up"
ZSTD: Final = "" if Path("/usr/include/zstd.h").exists() else " gcc libc6-dev libzstd-dev"
PACKAGES: Final = (
    "openjdk-17-jre-headless maven chromium fonts-liberation git groff zsh fish xfsprogs strace"
    + ZSTD
)
INSTALL: Final = "apt-get install -y -qq --no-install-recommends"


class System:
    """A clone, and beside it the programs of a system that has next to nothing.

    Args:
        place: a directory for it.
    """

    def __init__(self, place: Path) -> None:
        self._log = place / "log"
        self._clone, self._programs = place / "clone", place / "programs"
        made = self._clone / ".venv" / "bin"
        for directory in (self._clone / "packaging", self._programs, made):
            directory.mkdir(parents=True)
        shutil.copy(SET_UP, self._clone / "packaging")
        for name in ("dirname", "env"):
            (self._programs / name).symlink_to(str(shutil.which(name)))
        # One that is good as soon as apt-get has installed something.
        self.has("python3", f'[ "$1" != -c ] || [ -e {self._log} ]')
        for name in ("pip", "python", "rmqtool"):
            self._write(made / name, f'echo "{name} $*" >> {self._log}')

    def has(self, name: str, text: str) -> None:
        """Add a program."""
        self._write(self._programs / name, text)

    def has_apt(self, user: int) -> None:
        """Add apt-get, for a user of this number."""
        self.has("id", f"echo {user}")
        self.has("apt-get", f'[ "$1" = update ] || echo "apt-get $*" >> {self._log}')

    def _write(self, program: Path, text: str) -> None:
        program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        program.chmod(0o755)

    def set_up(self, *words: str) -> tuple[int, str, list[str]]:
        """Give exit code, what is said to people, and what was run."""
        done = subprocess.run(  # noqa: S603 - our own script
            ["/bin/sh", self._clone / "packaging" / "set-up", *words],
            env={"PATH": str(self._programs)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        log = self._log.read_text(encoding="utf-8").splitlines() if self._log.exists() else []
        return done.returncode, done.stderr, log


@pytest.fixture
def system(tmp_path: Path) -> System:
    """Give a bare system."""
    return System(tmp_path)


def test_nothing_more_than_needed(system: System) -> None:
    """The first command installs Python, and no Spark; then native code is compiled."""
    system.has_apt(0)
    quiet = "--quiet --disable-pip-version-check"
    ran = [f"{INSTALL} python3-venv", f"pip install {quiet} .", "rmqtool warm-up"]
    assert (0, "packaging/set-up: installing python3-venv\n", ran) == system.set_up()
    assert (0, "", [*ran, *ran[1:]]) == system.set_up()


def test_tests(system: System) -> None:
    """The second installs what the tests need; what is there is not asked for."""
    system.has_apt(0)
    code, said, log = system.set_up("tests")
    assert (0, f"packaging/set-up: installing python3-venv {PACKAGES}\n") == (code, said)
    assert log[0] == f"{INSTALL} python3-venv {PACKAGES}"
    assert log[1].endswith(" --editable .[dev,spark]")
    assert ["python -m tests.spark.class_archive"] == log[2:]
    for tool in ("java", "mvn", "chromium", "git", "groff", "zsh", "fish", "mkfs.xfs", "strace"):
        system.has(tool, "true")
    assert (0, ZSTD, [*log, *log[1:]]) == system.set_up("tests") or ZSTD


def test_sudo(system: System) -> None:
    """A user installs packages by sudo, and all else as that user."""
    system.has_apt(1000)
    system.has("sudo", 'echo sudo >&2; exec "$@"')
    _, said, log = system.set_up()
    assert ["packaging/set-up: installing python3-venv", "sudo", "sudo"] == said.splitlines()
    assert f"{INSTALL} python3-venv" == log[0]


@pytest.mark.parametrize("user", [0, 1000])
def test_no_means(system: System, user: int) -> None:
    """Without apt-get, or without the right to use it, packages are named."""
    if user:
        system.has_apt(user)
    else:
        system.has("id", "echo 0")
    code, said, ran = system.set_up()
    assert (1, []) == (code, ran)
    assert said.splitlines() == [
        "packaging/set-up: installing python3-venv",
        "packaging/set-up: not installed; please install: python3-venv",
        "packaging/set-up: python3 must be Python 3.11 or newer, with venv",
    ]


@pytest.mark.all_variants
@pytest.mark.skipif(not bare.is_possible(), reason="needs root and the package debootstrap")
@pytest.mark.parametrize("user", ["root", bare.OPERATOR])
def test_bare_debian(user: str, tmp_path: Path) -> None:
    """The first command of README.md does all in a bare Debian 12, with its Python 3.11.2."""
    root = tmp_path / "root"
    try:
        bare.make(root, "bookworm")
        if user != "root":
            bare.run(root, "root", bare.BECOME).check_returncode()
        done = bare.run(root, user, bare.commands()[0])
    finally:
        bare.remove(root)
    assert 0 == done.returncode, done.stdout
    assert b"rmqtool: sound: 0 damage" in done.stdout
