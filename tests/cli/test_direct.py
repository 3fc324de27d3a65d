"""The short way to a command gives what Typer gives, and leaves to Typer what is not plain."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rmqtool.cli import answer_query, app, cmd_query, direct
from tests.stores import fixture_names, fixture_store

BULK = {"jobs", "engine", "master", "verbose", "help"}
HEAVY = {"numpy", "numba", "pyarrow", "pandas", "pyspark", "pydantic"}


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[answer_query.Asked]:
    """Note what is asked instead of answering it."""
    calls: list[answer_query.Asked] = []

    def note(asked: answer_query.Asked) -> int:
        calls.append(asked)
        return 7

    monkeypatch.setattr(answer_query, "run", note)
    monkeypatch.setattr(cmd_query, "run", note)
    return calls


def test_every_option() -> None:
    """All options that the command declares are known here by the same names, but of bulk work."""
    declared = set()
    for parameter in app.command("query").params:
        if not parameter.name or parameter.name in BULK:
            continue
        for spelt in (*parameter.opts, *parameter.secondary_opts):
            declared.add((spelt, parameter.name))
    known = {(name, name) for name in direct.ARGUMENTS}
    for table in (direct.TEXTS, direct.LISTS, direct.CHOICES):
        known |= set(table.items())
    known |= {(spelt, name) for spelt, (name, _) in direct.FLAGS.items()}
    assert declared == known


PLAIN = (
    "store --id ABC",
    "store --key a --key b --topic T",
    "--at 0x10 store --format jsonl -q",
    "store --explain --hex --trace --time 2026-01-01 --boundary upper",
    "store - --no-scan --quiet",
    "store --scan --body text --body-limit=1KiB --key=-",
    "store --columns topic,size --color never --output x.csv --broker-conf b --time-zone UTC",
)


@pytest.mark.parametrize("line", PLAIN)
def test_same_as_typer(line: str, called: list[answer_query.Asked]) -> None:
    """Each parameter has the value that Typer gives it."""
    words = ["query", *line.split()]
    assert 7 == direct.call(words)
    assert 7 == app.application().main(words, prog_name="rmqtool", standalone_mode=False)
    short, typer = called
    assert typer == short


@pytest.mark.parametrize(
    "line",
    [
        *("", "store --id", "store --nothing x", "store --id a --id b", "--id x", "--help"),
        *("store a b", "store --boundary middle", "store --jobs 0", "store --explain=yes"),
    ],
)
def test_left_to_typer(line: str, called: list[answer_query.Asked]) -> None:
    """What is not plain is not answered here."""
    assert None is direct.call(["query", *line.split()])
    assert [] == called


def test_light(tmp_path: Path) -> None:
    """Lookups by ID, key, offset, place and time load none of the large libraries."""
    store = fixture_store(fixture_names("5.5.0", "traffic")[0], tmp_path)
    program = (
        "import sys; from rmqtool.cli.main import main; code = main(sys.argv[1:]);"
        "print(code, *sys.modules, file=sys.stderr)"
    )
    for case in ("--at 0", "--time 2020-01-01", "--key X-early-0",
                 "--topic traffic-orders --queue 0 --queue-offset 0",
                 "--topic traffic-orders --time 2020-01-01",
                 "--id 7F0000010000882300000000000000FF"):  # fmt: skip
        run = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", program, "query", str(store), *case.split(), "-q"],
            capture_output=True,
            text=True,
            check=True,
        )
        code, *loaded = run.stderr.splitlines()[-1].split()
        assert code in {"0", "1"}
        assert set() == HEAVY & set(loaded), case
