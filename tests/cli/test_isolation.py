"""Nothing of the current directory, which may be that of a store, is imported or configures us."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.stores import fixture_store

ROOT = Path(__file__).parents[2]
# What Python itself takes for `-m` before anything of ours is there: only its -P or -I help.
OF_PYTHON = {
    "importlib", "warnings", "contextlib", "collections", "keyword", "operator", "reprlib",
    "functools", "types",
}  # fmt: skip
OTHERS = {
    "numpy", "numba", "llvmlite", "yaml", "scipy", "construct", "orjson", "isal", "typer", "rich",
    "pyarrow", "mmh3", "lz4", "zstandard", "drawsvg", "jinja2", "typing_extensions", "pydantic",
    "click", "shellingham", "pandas", "py4j", "pyspark", "rocksdict", "sitecustomize",
}  # fmt: skip
HOSTILE = "raise SystemExit('this was imported: ' + __name__)\n"
CONFIGURATION = "disable_jit: 1\ndump_assembly: 1\n"
SCRIPT = "import sys\nfrom rmqtool.cli.main import main\nsys.exit(main())\n"
COMMANDS = (
    ("--version",), ("--help",), ("info", "."), ("dump", "commitlog"), ("validate", "."),
    ("query", ".", "--queue-offset", "0", "--topic", "Plain", "--queue", "0"),
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Give a store with a module for each that Python or we might import."""
    root = fixture_store("rocketmq-5.5.0-traffic", tmp_path)
    for name in {*sys.stdlib_module_names, *OTHERS} - OF_PYTHON:
        (root / f"{name}.py").write_text(HOSTILE)
    (root / ".numba_config.yaml").write_text(CONFIGURATION)
    return root


def run(program: Sequence[object], store: Path, variables: Mapping[str, object]) -> tuple[int, str]:
    """Run a command in a store; give its exit code and all it said."""
    done = subprocess.run(  # noqa: S603 - our own program
        [str(word) for word in program],
        cwd=store,
        env={"PYTHONPATH": str(ROOT), **{name: str(value) for name, value in variables.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=600,
    )
    return done.returncode, done.stdout.decode(errors="replace")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_module(store: Path, command: tuple[str, ...], tmp_path: Path) -> None:
    """`python -m rmqtool` imports nothing from where it is started, once it is there."""
    code, said = run([sys.executable, "-m", "rmqtool", *command], store, {"HOME": Path.home()})
    assert (True, False) == (code in {0, 1}, "this was imported" in said), said
    assert tmp_path in store.parents


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_script(store: Path, command: tuple[str, ...], tmp_path: Path) -> None:
    """The console script imports nothing from where it is started, not even what `-m` would."""
    for name in OF_PYTHON:
        (store / f"{name}.py").write_text(HOSTILE)
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "rmqtool"
    script.write_text(SCRIPT)
    code, said = run([sys.executable, script, *command], store, {"HOME": Path.home()})
    assert (True, False) == (code in {0, 1}, "this was imported" in said), said


def test_hostile_modules_are_imported(store: Path) -> None:
    """Python imports them where nobody takes the current directory away."""
    # Debian has fcntl inside of the interpreter.
    for module in {"numpy", "typing", "fcntl"}.difference(sys.builtin_module_names):
        code, said = run([sys.executable, "-c", f"import {module}"], store, {})
        assert (1, True) == (code, "this was imported: " in said)  # 3.13: linecache, for `-c`


COMPILES = """
import os, sys
opened = []
sys.addaudithook(lambda event, what: event == "open" and opened.append(str(what[0])))
from rmqtool.machine.compiled import PROBE
from rmqtool.machine.probe import ANSWERS, answers
PROBE.compile()
from numba.core import config
run = PROBE.plain()  # numba asks again before each compilation
print(config.DISABLE_JIT, config.DUMP_ASSEMBLY, answers(lambda *given: run(given)) == ANSWERS)
print([path for path in opened if path.endswith(".yaml")])
"""


def test_compiler(store: Path) -> None:
    """The compiler is not told how to compile by a file of the store."""
    program = [sys.executable, "-W", "error", "-P", "-c", COMPILES]
    assert (0, "0 0 True\n[]\n") == run(program, store, {"HOME": Path.home()})
