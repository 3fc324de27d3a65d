"""Without Spark: what needs it says which line installs it, and everything else works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run import CLEAN
from tests.stores import fixture_store

NAME = "rocketmq-5.3.3-lmq"
HIDDEN = "import sys; sys.modules['pyspark'] = None; from rmqtool.cli.main import main; "
PROGRAM = "sys.exit(main(sys.argv[1:]))"
NEED_SPARK = [
    ("export", "STORE", "--output", "OUT", "--engine", "spark"),
    ("sql", "STORE", "SELECT 1", "--engine", "spark"),
    ("validate", "STORE", "--engine", "spark"),
]
NEED_NOTHING = [
    ("info", "STORE"),
    ("dump", "STORE", "--limit", "1"),
    ("validate", "STORE"),
    ("rebuild", "STORE", "--check"),
    ("sql", "STORE", "--views"),
    ("export", "--help"),
    ("export", "STORE", "--output", "OUT-local"),
]
JAVA_LINE = "install it with: apt install openjdk-17-jre-headless (or set JAVA_HOME)"
SPARK_LINE = (
    "rmqtool: pyspark is missing; install it with: pip install '.[spark]' in a clone of rmqtool\n"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small store."""
    return fixture_store(NAME, tmp_path_factory.mktemp("missing"))


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment without Java: PATH has nothing but a directory to put one into."""
    (tmp_path / "bin").mkdir()
    environment = {name: value for name, value in CLEAN.items() if name != "JAVA_HOME"}
    return {**environment, "PATH": str(tmp_path / "bin")}


def run(
    arguments: tuple[str, ...], store: Path, env: dict[str, str], program: str = "import sys; "
) -> tuple[int, str]:
    """Run a command; give its exit code and what it said."""
    words = [word.replace("STORE", str(store)).replace("OUT", f"{store}-out") for word in arguments]
    if program != HIDDEN:
        program += "from rmqtool.cli.main import main; "
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program + PROGRAM, *words],
        capture_output=True,
        text=True,
        check=False,
        env=env,
        timeout=600,
    )
    return done.returncode, done.stderr


def install_java(environment: dict[str, str], said: str) -> None:
    """Put a Java into PATH that only tells its version."""
    program = Path(environment["PATH"]) / "java"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n", encoding="utf-8")
    program.chmod(0o755)


@pytest.mark.parametrize("arguments", NEED_SPARK, ids=lambda words: words[0])
def test_no_pyspark(store: Path, arguments: tuple[str, ...]) -> None:
    """Without pyspark: exit 2 and one line; nothing is written."""
    assert (2, SPARK_LINE) == run(arguments, store, dict(os.environ), HIDDEN)
    assert not Path(f"{store}-out").exists()


@pytest.mark.parametrize("arguments", NEED_SPARK, ids=lambda words: words[0])
def test_no_java(store: Path, bare: dict[str, str], arguments: tuple[str, ...]) -> None:
    """Without Java: exit 2 and one line; nothing is written."""
    code, said = run(arguments, store, bare)
    assert (2, [f"rmqtool: Java 17 or newer is missing; {JAVA_LINE}"]) == (code, said.splitlines())
    assert not Path(f"{store}-out").exists()


def test_java_home_leads_nowhere(store: Path, bare: dict[str, str], tmp_path: Path) -> None:
    """A JAVA_HOME without Java is what Spark would use, so it is what counts."""
    install_java(bare, 'openjdk version "21.0.1"')
    code, said = run(NEED_SPARK[1], store, {**bare, "JAVA_HOME": str(tmp_path / "none")})
    assert (2, 1, True) == (code, len(said.splitlines()), "JAVA_HOME" in said)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21"])
def test_old_java(store: Path, bare: dict[str, str], version: str) -> None:
    """A Java that is too old for Spark is named with its version, and with the line."""
    install_java(bare, f'openjdk version "{version}" 2023-10-17')
    code, said = run(NEED_SPARK[1], store, bare)
    number = version.removeprefix("1.").partition(".")[0]
    assert (2, 1) == (code, len(said.splitlines()))
    assert f" is {number}" in said
    assert JAVA_LINE in said
    home = Path(bare["PATH"]).parent
    assert (code, said) == run(NEED_SPARK[1], store, {**bare, "JAVA_HOME": str(home)})


@pytest.mark.parametrize("arguments", NEED_NOTHING, ids=" ".join)
def test_the_rest_works(store: Path, bare: dict[str, str], arguments: tuple[str, ...]) -> None:
    """Everything else works without Java and without pyspark."""
    assert 0 == run(arguments, store, bare, HIDDEN)[0]
