"""Nothing is changed in place before somebody agreed: a person who is asked, or `--yes`."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests import inflict
from tests.cli.run import CLEAN, COMMAND, rmqtool
from tests.stores import fixture_store

REPAIR = ("repair", "--columns", "code,position", "--format", "table")
REBUILDS = (("rebuild",), ("rebuild-cq", "--topic", "lmq-parent"), ("rebuild-index",))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Give a store with a damaged body, a consume queue that lost a file, and no index."""
    made = fixture_store("rocketmq-5.3.3-lmq", tmp_path)
    inflict.flip_field("body")(made)
    for path in [*(made / "index").iterdir(), made / "consumequeue/lmq-parent/0" / ("0" * 20)]:
        path.unlink()
    return made


def contents(store: Path) -> dict[str, bytes]:
    """Give all files of a store."""
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in sorted(store.rglob("*"))
        if path.is_file()
    }


def answered(answer: str, *arguments: object) -> tuple[int, str]:
    """Run a command on a terminal where somebody types; give the exit code and all that is seen."""
    terminal, side = pty.openpty()
    process = subprocess.Popen(  # noqa: S603 - our own program
        [*COMMAND, *map(str, arguments)],
        stdin=side,
        stdout=side,
        stderr=side,
        env={"TERM": "dumb", **CLEAN, "COLUMNS": "200"},
    )
    os.close(side)
    seen = b""
    try:
        while piece := os.read(terminal, 1 << 16):
            seen += piece
            if seen.endswith(b"[y/N] "):
                os.write(terminal, f"{answer}\n".encode())
    except OSError:  # Linux says so at the end
        pass
    os.close(terminal)
    return process.wait(120), seen.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("command", [REPAIR, *REBUILDS], ids=lambda words: words[0])
def test_script(command: tuple[str, ...], store: Path) -> None:
    """A script without --yes is refused before anything is read, and told what it would do."""
    before = contents(store)
    run = rmqtool(*command, store, "--in-place")
    what, refused, _ = run.err.splitlines()
    assert (2, b"") == (run.code, run.out)
    assert f"rmqtool: this changes {store} itself; replaced files are kept in " in what
    assert "--in-place: changes the store itself; without a terminal to ask on, it needs --yes" in (
        refused
    )
    assert before == contents(store)


@pytest.mark.parametrize("command", [REPAIR, *REBUILDS], ids=lambda words: words[0])
@pytest.mark.parametrize("answer", ["", "n", "no", "Y E S"])
def test_declined(command: tuple[str, ...], answer: str, store: Path) -> None:
    """Whoever does not say yes has a store that is as it was."""
    before = contents(store)
    code, seen = answered(answer, *command, store, "--in-place")
    assert 2 == code
    assert "rmqtool: nothing was written\n" in seen
    assert before == contents(store)


def test_repaired(store: Path) -> None:
    """The edits are shown, then comes the question; who says yes gets just these edits."""
    code, seen = answered("y", *REPAIR, store, "--in-place")
    said, question, done = (seen.index(words) for words in ("this changes", "[y/N]", "done; "))
    assert said < seen.index("CL-CRC") < question < done
    assert 1 == seen.count("[y/N]")
    assert code in {0, 1}
    assert [] != list(store.glob("rmqtool-undo-*"))


@pytest.mark.parametrize("command", REBUILDS, ids=lambda words: words[0])
def test_rebuilt(command: tuple[str, ...], store: Path) -> None:
    """A rebuild asks once, and does what it was asked for."""
    code, seen = answered("yes", *command, store, "--in-place")
    assert code in {0, 1, 3}  # what else the store has is found, too
    assert seen.index("this changes") < seen.index("[y/N]")
    assert [] != list(store.glob("rmqtool-undo-*"))


def test_yes_is_not_asked(store: Path) -> None:
    """With --yes a person is told what happens, and not asked."""
    code, seen = answered("n", *REPAIR, store, "--in-place", "--yes")
    assert code in {0, 1}
    assert "this changes" in seen
    assert "[y/N]" not in seen
