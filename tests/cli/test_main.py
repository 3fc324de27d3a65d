"""One main decides: exit codes, signals, bugs; never a traceback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from rmqtool.cli.commands import CONTENTS, NAMES, PROGRAM, described
from rmqtool.cli.main import main
from rmqtool.cli.manual.brief import brief
from rmqtool.errors import NotAStore, UsageError
from tests.cli.run import CLEAN, COMMAND, PATIENCE, on_terminal, rmqtool
from tests.stores import fixture_names, fixture_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store of ordinary traffic."""
    return fixture_store(fixture_names(scenario="traffic")[-1], tmp_path_factory.mktemp("traffic"))


def test_version_names_what_touches_bytes() -> None:
    """`--version` gives rmqtool first, then each library with its version, and exits 0."""
    run = rmqtool("--version")
    names = [line.split()[0] for line in run.lines]
    assert (0, "", ["rmqtool", "python", "construct"]) == (run.code, run.err, names[:3])
    assert {"numpy", "numba", "pyarrow", "orjson", "isal", "lz4", "zstandard"} <= set(names)


def test_help_is_grouped_by_task() -> None:
    """`--help` lists every command under what a person wants to do."""
    run = rmqtool("--help")
    text = run.out.decode()
    assert (0, "") == (run.code, run.err)
    assert all(f"\n{task}:\n" in text for task in CONTENTS)
    for name in NAMES:
        assert 1 == sum(name in names for names in CONTENTS.values())
        assert re.search(rf"^  {name} ", text, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_contents_say_what_the_command_says(name: str) -> None:
    """A command begins with a line that stands in the table of contents, too."""
    summary = described(name)[0]
    assert len(summary) < 80
    assert f"  {name} " in brief(PROGRAM)
    assert " ".join(summary.split()) in " ".join(brief(PROGRAM).split())


def test_alone_shows_the_contents() -> None:
    """`rmqtool` alone says what it can do; as nothing was asked for, that is no success."""
    run = rmqtool()
    assert (2, b"") == (run.code, run.out)
    assert "Inspect:" in run.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-command"], "there is no command 'no-such-command'"),
        (["fsck", "/x y"], "nearest: validate\nrmqtool: try: rmqtool validate '/x y'\n"),
        (["Validat", "x"], "nearest: validate\n"),
        (["ls"], "try: rmqtool info\n"),
        (["dump", "x", "--as", "comitlog"], "nearest: commitlog"),
        (["validate", "x", "--only", "cl-crcc"], "nearest: CL-CRC"),
        (["validate", "x", "--ignore", "CL-MAGC"], "nearest: CL-MAGIC"),
        (["info", "x", "--section", "topcis"], "nearest: topics"),
        (["--no-such-option"], "No such option: --no-such-option"),
        (["dump"], "Missing argument 'PATH'"),
        (["dump", "x", "--limit", "many"], "--limit: 'many'"),
        (["dump", "x", "--format", "xml"], "--format: 'xml'"),
        (["dump", "x", "--color", "pink"], "--color"),
        (["dump", "x", "--limit", "1", "--tail", "1"], "--tail"),
        (["dump", "x", "--from", "yesterdy"], "yesterdy"),
        (["dump", "x", "--offsets", "5"], "--offsets"),
        (["dump", "x", "--offsets", "9:5"], "--offsets"),
        (["dump", "x", "--as", "nonsense"], "no kind 'nonsense'"),
        (["dump", "x", "--where-property", "novalue"], "NAME=VALUE"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage(arguments: list[str], words: str) -> None:
    """What cannot be meant is said on stderr, with exit 2, before any file is opened."""
    run = rmqtool(*arguments)
    assert (2, b"") == (run.code, run.out)
    assert words in run.err
    assert all(line.startswith("rmqtool: ") for line in run.err.splitlines())


def test_bug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A bug is exit 70 with one line what, one line what to do, and the traceback in a file."""

    def broken(*_: object) -> int:
        message = "\x1b[31mboom"
        raise KeyError(message)

    monkeypatch.setattr("rmqtool.cli.main._run", broken)
    code = main(["--help"])
    out, err = capsys.readouterr()
    what, report = err.splitlines()
    path = Path(report.rpartition(" ")[2])
    assert (70, "") == (code, out)
    assert "this is a bug in rmqtool" in what
    assert "\x1b" not in err
    assert "Traceback" not in err
    assert "Traceback" in path.read_text(encoding="utf-8")
    path.unlink()


def test_failed_import_at_start_is_a_bug() -> None:
    """A broken installation is exit 70, not a traceback."""
    program = (
        "import sys; sys.modules['typer'] = None;"
        "from rmqtool.cli.main import main; sys.exit(main(['--nothing']))"
    )
    run = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (70, "") == (run.returncode, run.stdout)
    assert "Traceback" not in run.stderr
    Path(run.stderr.split()[-1]).unlink()


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (KeyboardInterrupt(), 130),
        (UsageError(option="--x", reason="y"), 2),
        (NotAStore(path="p", reason="empty"), 2),
    ],
    ids=["interrupt", "usage", "store"],
)
def test_errors_own_their_exit_code(
    raised: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each error has its exit code, whoever raises it."""

    def broken(*_: object) -> int:
        raise raised

    monkeypatch.setattr("rmqtool.cli.main._run", broken)
    assert code == main([])


@pytest.mark.parametrize("format_", ["jsonl", "json", "csv", "table"])
def test_closed_pipe(store: Path, format_: str) -> None:
    """A reader that goes away ends the run with 141, without a word."""
    process = subprocess.Popen(  # noqa: S603 - our own program
        [*COMMAND, "dump", str(store), "--format", format_],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=CLEAN,
    )
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    assert (141, b"") == (process.wait(60), err)


def test_help_into_a_closed_pipe() -> None:
    """That holds for what Typer prints, too."""
    reading, writing = os.pipe()
    os.close(reading)
    run = subprocess.run(  # noqa: S603 - our own program
        [*COMMAND, "--help"], stdout=writing, stderr=subprocess.PIPE, check=False, env=CLEAN
    )
    os.close(writing)
    assert (141, b"") == (run.returncode, run.stderr)


def test_full_disk(store: Path) -> None:
    """An output that takes nothing is exit 2 with the system's reason."""
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run(  # noqa: S603 - our own program
            [*COMMAND, "dump", str(store)], stdout=full, stderr=subprocess.PIPE, check=False
        )
    what, step = run.stderr.splitlines()
    assert (2, b"rmqtool: standard output: No space left on device") == (run.returncode, what)
    assert step.startswith(b"rmqtool: try: ")


def test_closed_output(store: Path) -> None:
    """`>&-` is an output that nobody reads."""
    run = subprocess.run(  # noqa: S602 - a shell closes the descriptor
        f'"{sys.executable}" -m rmqtool dump "{store}" >&-',
        shell=True,
        capture_output=True,
        check=False,
    )
    assert 141 == run.returncode


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"]
)
def test_signals(tmp_path: Path, store: Path, number: signal.Signals, code: int) -> None:
    """A signal ends the run with its code, one line, and no half-written file."""
    target = tmp_path / "out.jsonl"
    paths = [str(store)] * 2000  # long enough to be caught at work
    process = subprocess.Popen(  # noqa: S603 - our own program
        [*COMMAND, "dump", *paths, "--output", str(target)], stderr=subprocess.PIPE, env=CLEAN
    )
    while not list(tmp_path.iterdir()):
        assert process.poll() is None
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    assert (code, []) == (process.returncode, list(tmp_path.iterdir()))
    assert err in {b"rmqtool: interrupted\n", b"rmqtool: terminated\n"}


def test_output_is_never_overwritten(tmp_path: Path, store: Path) -> None:
    """`--output` makes a new file, whole, and refuses one that is there."""
    target = tmp_path / "out.csv"
    first = rmqtool("dump", store, "--limit", 2, "--output", target)
    before = target.read_bytes()
    again = rmqtool("dump", store, "--limit", 3, "--output", target)
    assert (0, b"", 3) == (first.code, first.out, len(before.splitlines()))
    assert (2, before) == (again.code, target.read_bytes())
    assert str(target) in again.err


def test_color(store: Path) -> None:
    """Colour is for terminals; NO_COLOR, TERM=dumb and --color decide."""
    dump = ["dump", store, "--limit", 1]
    assert b"\x1b[" in on_terminal(dump, 80).out
    assert b"\x1b[" not in on_terminal(dump, 80, {"NO_COLOR": "1"}).out
    assert b"\x1b[" not in on_terminal(dump, 80, {"TERM": "dumb"}).out
    assert b"\x1b[" not in on_terminal([*dump, "--color", "never"], 80).out
    assert b"\x1b[" in rmqtool(*dump, "--format", "table", "--color", "always").out
    assert b"\x1b[" not in rmqtool(*dump, "--format", "table").out


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_table_fits_the_terminal(store: Path, columns: int) -> None:
    """No line is wider than the terminal, and what has no room is named; keys are never cut."""
    names = "physical_offset,topic,queue_id,queue_offset,store_time,tags,properties,message_id"
    run = on_terminal(["dump", store, "--color", "never", "--columns", names], columns)
    assert max(map(cell_len, run.lines)) <= columns
    assert 0 == run.code
    assert ("hidden:" in run.err) == (columns < 200)


def test_table_in_a_pipe_is_never_cut(store: Path) -> None:
    """A table in a pipe is plain and whole, whatever COLUMNS says."""
    narrow = rmqtool("dump", store, "--format", "table", env={"COLUMNS": "40"})
    wide = rmqtool("dump", store, "--format", "table", env={"COLUMNS": "400"})
    assert wide.out == narrow.out
    assert "…" not in wide.out.decode()


@pytest.mark.parametrize("locale", ["C", "en_US.ISO-8859-1", "C.UTF-8"])
def test_output_does_not_depend_on_the_locale(store: Path, locale: str) -> None:
    """The same bytes come out everywhere."""
    expected = rmqtool("dump", store, "--tail", 50).out
    assert expected == rmqtool("dump", store, "--tail", 50, env={"LC_ALL": locale}).out
