r"""The command line as it is seen: stdout, stderr, exit code; `--update-golden` writes it anew.

A transcript begins with `# FIXTURE` or `# FIXTURE DAMAGE`, the store that STORE stands for. A
command behind `$ ` runs in pipes, or with `TTY=80` before it on a terminal of that width. With
`printf '%s\n' A B |` before it, the lines A and B are its input. With `CLOSED=NAME` nobody may
open NAME in the store while it runs, with `LOCKED=1` somebody holds the broker's lock. Then follow
its output, what it said (`stderr: `) and its exit code.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from rmqtool.cli.commands import NAMES
from rmqtool.machine.announce import COMPILING
from tests import damage, inflict
from tests.archives.packed import as_tar
from tests.cli.run import on_terminal, rmqtool
from tests.evidence import Evidence
from tests.stores import fixture_store, held_by_another

TIMES = re.compile(r"\bin \d+\.\d\d s( \(\d+\.\d\d ([GM]B/s|s of it waiting for the disk)\))?")
PROCESS = re.compile(r"\bprocess \d+(?=\))")
STOPPED = re.compile(r"^exit: (130|143|-\d+)$", re.MULTILINE)  # killed from outside
TRANSCRIPTS = sorted(
    path
    for path in (Path(__file__).parent / "transcripts").glob("*.txt")
    if path.read_text(encoding="utf-8").startswith("# ")
)
HELP = "help-of-commands"  # gets what has none elsewhere


def nothing(_: Path) -> None:
    """Leave a store as it is."""


def archived(store: Path) -> None:
    """Leave a store as it is, and put it into archives beside it, one whole and one cut."""
    as_tar(store, store.parent / "backup.tar")
    whole = (store.parent / "backup.tar").read_bytes()
    (store.parent / "cut.tar").write_bytes(whole[: len(whole) // 2])


DAMAGES: dict[str, Callable[[Path], None]] = {
    "": nothing,
    "archived": archived,
    "no-index": lambda store: shutil.rmtree(store / "index"),
    "no-queues": lambda store: shutil.rmtree(store / "consumequeue"),
    "lost-queues": inflict.together([inflict.remove("consumequeue"), inflict.remove("index")]),
    "flipped-unit": lambda store: inflict.flip_bits(
        store / "consumequeue/lmq-parent/1/00000000000000000000", 5, 1
    ),
    "garbage": inflict.garbage(),
    "zero-sector": inflict.zero_sector(),
    "flipped-body": inflict.flip_field("body"),
    "torn-tail": inflict.tear_tail,
    "dropped-records": inflict.drop_last_records,
    "segment-gone": inflict.remove_segment(1),
    **{name: damage.DAMAGES[name].inflict for name in ("odd-name", "offset-ahead")},
}


@pytest.mark.every_case
@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, tmp_path: Path, evidence: Evidence, *, update_golden: bool) -> None:
    """Each command says what it said."""
    golden = path.read_text(encoding="utf-8")
    head, *rest = golden.splitlines()
    name, _, harm = head.removeprefix("# ").partition(" ")
    store = fixture_store(name, tmp_path)
    DAMAGES[harm](store)
    evidence.keep(store)
    if "ORIGINAL" in golden:  # the same store without the damage
        (tmp_path / "original").mkdir()
        evidence.keep(fixture_store(name, tmp_path / "original"))
    commands = [line.removeprefix("$ ") for line in rest if line.startswith("$ ")]
    if path.stem == HELP:
        commands += [f"TTY=80 rmqtool {name} --help" for name in without_help()]
    found = "".join([f"{head}\n", *(run(command, store) for command in commands)])
    refuse_stopped(found)
    if update_golden:
        path.write_text(found, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == found


def without_help() -> list[str]:
    """Give the commands whose help is in no transcript yet."""
    shown = "".join(path.read_text(encoding="utf-8") for path in TRANSCRIPTS)
    return [name for name in NAMES if f"rmqtool {name} --help" not in shown]


def refuse_stopped(found: str) -> None:
    """Refuse what a command said that somebody stopped: no golden file is made of that."""
    assert not STOPPED.search(found), "a command was stopped while it ran: run the test again"


@pytest.mark.parametrize("code", [130, 143, -15])
def test_stopped(code: int) -> None:
    """A transcript with a command that was stopped is not written."""
    refuse_stopped("$ rmqtool info STORE\nexit: 1\n")
    with pytest.raises(AssertionError, match="was stopped"):
        refuse_stopped(f"$ rmqtool info STORE\nexit: {code}\n$ rmqtool\nexit: 0\n")


def run(command: str, store: Path) -> str:
    """Run one command and write down what happened."""
    words = shlex.split(command)
    lines: list[str] = []
    if "|" in words:
        lines, words = words[2 : words.index("|")], words[words.index("|") + 1 :]
    env: dict[str, str] = {}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        env[name] = value.replace("STORE", str(store))
    width, closed = env.pop("TTY", None), env.pop("CLOSED", None)
    original = store.parent / "original" / "store"
    named = [word.replace("ORIGINAL", str(original)) for word in words[1:]]
    arguments = [word.replace("STORE", str(store)) for word in named]
    given = "".join(f"{line}\n" for line in lines)
    with ExitStack() as stack:
        if env.pop("LOCKED", None):
            stack.enter_context(held_by_another(store))
        if closed is not None:
            stack.enter_context(nobody_may_open(store / closed))
        if width is None:
            done = rmqtool(*arguments, given=given, env=env, is_mighty=closed is None)
        else:
            done = on_terminal(arguments, int(width), env)
    out = done.out.decode().replace("\x1b", "␛")
    return "".join(
        line.replace(f"{original}", "ORIGINAL").replace(f"{store}", "STORE")
        for line in (f"$ {command}\n", out, *said(done.err), f"exit: {done.code}\n")
    )


@contextmanager
def nobody_may_open(path: Path) -> Iterator[None]:
    """Take all rights from a file or a directory for a while."""
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        yield
    finally:
        path.chmod(mode)


def said(err: str) -> Iterator[str]:
    """Give what was said on stderr, without how long it took, and that a first run compiles."""
    for line in err.splitlines():
        if line == f"rmqtool: {COMPILING}":
            continue
        yield f"stderr: {PROCESS.sub('process PID', TIMES.sub('in TIME', line))}\n"
