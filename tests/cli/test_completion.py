"""Completion: what is offered, in three shells, out of sound, damaged and hostile stores."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from rmqtool.cli.commands import NAMES, load
from rmqtool.cli.declaration import parameters
from rmqtool.findings.registry import CODES
from tests import inflict
from tests.cli.run import rmqtool
from tests.evidence import Evidence
from tests.stores import fixture_store

ROOT: Final = Path(__file__).parents[2]
FIXTURE: Final = "rocketmq-5.3.3-lmq"
HOSTILE: Final = ("$(touch done)", "a b;c", "*", "'quoted", "new\nline", "\x1b[31mred", "tab\there")


def offers(*words: object, asked_by: str = "fish") -> list[str]:
    """Ask as a shell does; give the words that are offered."""
    done = rmqtool(*words, env={"_RMQTOOL_COMPLETE": asked_by})
    assert (0, "") == (done.code, done.err)
    return [line.partition("\t")[0] for line in done.lines]


@pytest.fixture
def store(tmp_path: Path, evidence: Evidence) -> Path:
    """Give a sound store."""
    return evidence.keep(fixture_store(FIXTURE, tmp_path))


def test_commands() -> None:
    """All commands, and of them those that begin with what was typed."""
    assert [*NAMES] == offers("")
    assert ["rebuild", "rebuild-cq", "rebuild-index", "rebuild-log"] == offers("reb")
    assert ["--version"] == offers("--v")
    assert [] == offers("nothing-like-it", "")


def test_options() -> None:
    """The options of each command are those that it takes."""
    for name in NAMES:
        known = {spelt for parameter in parameters(load(name)) for spelt in parameter.spellings}
        short = {spelt for spelt in known if not spelt.startswith("--")}
        assert known - short <= set(offers(name, "--"))


def test_values_of_options() -> None:
    """An option of one name offers the same wherever it is taken, or nothing but files."""
    sources: dict[str, set[object]] = {}
    for name in NAMES:
        for parameter in parameters(load(name)):
            if (
                parameter.name in {"topic", "queue", "broker_version", "time_zone"}
                and not parameter.is_argument
            ):
                sources.setdefault(parameter.name, set()).add(parameter.declaration.completes)
    assert {"topic": 1, "queue": 1, "broker_version": 1, "time_zone": 1} == {
        name: len(found) for name, found in sources.items()
    }


def test_store(store: Path) -> None:
    """Topics and queues come from the store on the line, wherever it stands."""
    topics = sorted(path.name for path in (store / "consumequeue").iterdir())
    assert topics == offers("dump", store, "--topic", "")
    assert ["lmq-parent"] == offers("query", store, "--topic", "lmq-p")
    assert ["0", "1"] == offers("dump", store, "--topic", "lmq-parent", "--queue", "")[:2]
    assert ["--topic=lmq-parent"] == offers("dump", store, "--topic=lmq-p")
    assert [] == offers("dump", store, "")  # files, by the shell


def test_codes() -> None:
    """Finding codes, areas, sections and the words of an option."""
    assert ["CL-CRC"] == offers("validate", "--only", "CL-CR")
    assert ["CL-CRC,CQ-HOLE"] == offers("validate", "--only", "CL-CRC,CQ-HO")
    assert "commitlog" in offers("validate", "--only", "")
    assert list(CODES) == offers("validate", "--ignore", "")
    assert ["CL-MAGIC"] == offers("help", "CL-MA")
    assert ["verdict", "losses", "unread", "steps", "queues"] == offers("startup", "--section", "")
    assert ["quick", "full", "deep"] == offers("validate", "--level", "")
    assert ["json", "jsonl", "json-schema"] == offers("info", "--format", "j")


def test_bash_cuts(store: Path) -> None:
    """Bash hands on `--topic=x` in three words, and keeps what stands in front of the value."""
    words = ("dump", store, "--topic", "=", "lmq-p")
    assert ["lmq-parent"] == offers(*words, asked_by="bash")
    assert ["lmq-parent"] == offers("dump", f"'{store}'", "--topic", "lmq-p", asked_by="bash")


DAMAGES: Final[dict[str, Callable[[Path], None]]] = {
    "garbage": inflict.garbage(),
    "no topics.json": inflict.remove("config/topics.json"),
    "torn topics.json": inflict.edit_text("config/topics.json", lambda text: text[:40]),
    "no log": inflict.remove("commitlog/*"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged(damage: Callable[[Path], None], tmp_path: Path, evidence: Evidence) -> None:
    """A damaged store gives what is left of it, without a word."""
    store = fixture_store(FIXTURE, tmp_path)
    damage(store)
    evidence.keep(store)
    assert ["lmq-parent"] == offers("dump", store, "--topic", "lmq-p")


def test_without_queues(tmp_path: Path, evidence: Evidence) -> None:
    """Where all queues are gone the configuration tells the topics; then nothing does."""
    store = fixture_store(FIXTURE, tmp_path)
    shutil.rmtree(store / "consumequeue")
    assert ["lmq-parent"] == offers("dump", store, "--topic", "lmq-p")
    shutil.rmtree(store / "config")
    (store / "consumequeue").write_bytes(b"no directory")
    evidence.keep(store)
    assert [] == offers("dump", store, "--topic", "")
    assert [] == offers("dump", store, "--queue", "")


def test_no_store(tmp_path: Path) -> None:
    """Where there is no store nothing is offered, and nothing is said."""
    for place in ("/nowhere", tmp_path, sys.executable, "", "~nobody/x"):
        assert [] == offers("dump", place, "--topic", "")


# ---- shells ------------------------------------------------------------------------------------

BASH = """eval "$(rmqtool completion bash)"
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_rmqtool rmqtool; [[ ${{#COMPREPLY[@]}} = 0 ]] || printf '%s\\n' "${{COMPREPLY[@]}}" """
ZSH = """compdef() {{ : }}; compadd() {{ print -rl -- "$offers[@]" }}; _files() {{ : }}
eval "$(rmqtool completion zsh)"; words=({words}); CURRENT=$#words; _rmqtool"""
FISH = """rmqtool completion fish | source; complete -C {line}"""
SHELLS: Final = {
    "bash": ("bash", "--norc", "-c", BASH),
    "zsh": ("zsh", "-f", "-c", ZSH),
    "fish": ("fish", "--no-config", "-c", FISH),
}


def in_shell(shell: str, words: Sequence[str], place: Path) -> list[str]:
    """Complete the last of these words in a real shell."""
    program, *options, script = SHELLS[shell]
    if shutil.which(program) is None and not os.environ.get("CI"):
        pytest.skip(f"needs {program}")
    shim = place / "bin" / "rmqtool"
    shim.parent.mkdir(exist_ok=True)
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m rmqtool "$@"\n')
    shim.chmod(0o755)
    quoted = [shlex.quote(word) for word in ["rmqtool", *words]]
    line = " ".join([*quoted[:-1], words[-1]])
    text = script.format(words=" ".join(quoted), line=shlex.quote(line))
    done = subprocess.run(  # noqa: S603 - our own scripts
        [program, *options, text], capture_output=True, text=True, check=False, cwd=place,
        env={**os.environ, "PATH": f"{shim.parent}:{os.environ['PATH']}", "HOME": str(place),
             "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (0, "") == (done.returncode, done.stderr)
    return [line.partition("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", SHELLS)
def test_shell(shell: str, store: Path, tmp_path: Path) -> None:
    """Each shell gets the topics of the store on the line, and the commands."""
    assert ["lmq-parent"] == in_shell(shell, ["dump", str(store), "--topic", "lmq-p"], tmp_path)
    assert ["validate"] == in_shell(shell, ["va"], tmp_path)


@pytest.mark.parametrize("shell", SHELLS)
def test_hostile(shell: str, tmp_path: Path, evidence: Evidence) -> None:
    """A topic that looks like a command is a word, quoted, and never run."""
    store = fixture_store(FIXTURE, tmp_path)
    for path in (store / "consumequeue").iterdir():
        shutil.rmtree(path)
    for name in HOSTILE:
        (store / "consumequeue" / name / "0").mkdir(parents=True)
    evidence.keep(store)
    found = in_shell(shell, ["dump", str(store), "--topic", ""], tmp_path)
    shown = [name for name in HOSTILE if name.isprintable()]
    if shell == "bash":  # it quotes before it inserts, the others when they do
        assert sorted(shown) == sorted(shlex.split(" ".join(found)))
        assert r"\$\(touch\ done\)" in found
    else:
        files = {f"{path.name}/" for path in tmp_path.iterdir()}  # which fish offers, too
        assert sorted(shown) == sorted(set(found) - files)
    assert not (tmp_path / "done").exists()


def test_light() -> None:
    """A person waits for it: nothing of the bulk work is imported."""
    program = (
        "import sys; from rmqtool.cli.main import main; main(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program, "dump", "nowhere", "--topic", ""],
        capture_output=True, text=True, check=True, env={**os.environ, "_RMQTOOL_COMPLETE": "bash"},
    )  # fmt: skip
    heavy = {"numpy", "numba", "pyarrow", "pandas", "pyspark", "rich"}
    assert set() == heavy & set(done.stderr.split())
