"""The short way to a command gives what Typer gives, and leaves to Typer what is not plain."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rmqtool.cli import (
    answer_info,
    answer_query,
    answer_repair,
    answer_validate,
    app,
    cmd_info,
    cmd_query,
    cmd_rebuild,
    cmd_rebuild_cq,
    cmd_rebuild_index,
    cmd_repair,
    cmd_validate,
    direct,
    rebuilding,
)
from tests.stores import fixture_names, fixture_store

LEFT_TO_TYPER = {"jobs", "engine", "master", "verbose", "help"}
NUMBERS = {("rebuild-cq", "queue")}  # Typer says what is no number
ANSWERS = (answer_info, answer_query, answer_repair, answer_validate, rebuilding)
REBUILDS = (cmd_rebuild, cmd_rebuild_cq, cmd_rebuild_index)
COMMANDS = (cmd_info, cmd_query, cmd_repair, cmd_validate, *REBUILDS)
HEAVY = {"numpy", "numba", "pyarrow", "pandas", "pyspark", "pydantic"}


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Note what is asked instead of answering it."""
    calls: list[object] = []

    def note(asked: object) -> int:
        calls.append(asked)
        return 7

    for module in (*ANSWERS, *COMMANDS):
        monkeypatch.setattr(module, "run", note)
    return calls


@pytest.mark.parametrize("command", direct.COMMANDS)
def test_every_option(command: str) -> None:
    """All options that the command declares are known here by the same names, but for a few."""
    declared = set()
    for parameter in app.command(command).params:
        name = parameter.name
        if not name or name in LEFT_TO_TYPER or (command, name) in NUMBERS:
            continue
        for spelt in (*parameter.opts, *parameter.secondary_opts):
            declared.add((spelt, name))
    plain = direct.COMMANDS[command]
    known = {(name, name) for name in plain.arguments}
    for table in (plain.texts, plain.lists, plain.choices):
        known |= set(table.items())
    known |= {(spelt, name) for spelt, (name, _) in plain.flags.items()}
    assert declared == known


PLAIN = (
    "query store --id ABC",
    "query store --key a --key b --topic T",
    "query --at 0x10 store --format jsonl -q",
    "query store --explain --hex --trace --time 2026-01-01 --boundary upper",
    "query store - --no-scan --quiet",
    "query store --scan --body text --body-limit=1KiB --key=-",
    "query store --columns topic,size --color never --output x --broker-conf b --time-zone UTC",
    "info store",
    "info --section topics --section=queues store --format csv -q",
    "validate store",
    "validate store other --only commitlog,index --only CL-CRC --level deep --fail-on note -q",
    "validate --sarif a --junit b --manifest c --since-manifest d store --range-checksum",
    "validate store --topic T --ignore CL-CRC --broker-version 5.3.3 --format jsonl --output x",
    "repair store --in-place --yes --bridge-missing --clamp-offsets --quarantine q -q",
    "repair --undo store --format jsonl --columns path,code --color never",
    "repair store --dry-run --plan p --broker-version 4.9.3 --broker-conf b",
    "repair store --apply p --output x",
    "rebuild store --output x --like-broker --ext --time-zone UTC --broker-version 4.9.3",
    "rebuild-cq store --in-place --topic T --quiet --columns topic --color never",
    "rebuild-cq store --check --format csv --broker-conf b",
    "rebuild-index --dry-run store --time-zone Asia/Shanghai",
    "info store --columns topic,size --color never --output x --broker-conf b --time-zone UTC",
)


@pytest.mark.parametrize("line", PLAIN)
def test_same_as_typer(line: str, called: list[object]) -> None:
    """Each parameter has the value that Typer gives it."""
    words = line.split()
    assert 7 == direct.call(words)
    assert 7 == app.application().main(words, prog_name="rmqtool", standalone_mode=False)
    short, typer = called
    assert typer == short


@pytest.mark.parametrize(
    "line",
    [
        *("query", "query store --id", "query store --nothing x", "query store --id a --id b"),
        *("query --id x", "query --help", "query store a b", "query store --boundary middle"),
        *("query store --jobs 0", "query store --explain=yes"),
        *("info", "info a b", "info store --format xml", "info store --quiet=1", "info --help"),
        *("validate", "validate store --jobs 1", "validate store --engine spark", "rebuild a b"),
        *("rebuild-cq store --queue x", "dump store", ""),
    ],
)
def test_left_to_typer(line: str, called: list[object]) -> None:
    """What is not plain is not answered here."""
    assert None is direct.call(line.split())
    assert [] == called


def test_light(tmp_path: Path) -> None:
    """A glance, and lookups by ID, key, offset, place and time load no large library."""
    store = fixture_store(fixture_names("5.5.0", "traffic")[0], tmp_path)
    program = (
        "import sys; from rmqtool.cli.main import main; code = main(sys.argv[1:]);"
        "print(code, *sys.modules, file=sys.stderr)"
    )
    for case in ("info", "query --at 0", "query --time 2020-01-01", "query --key X-early-0",
                 "query --topic traffic-orders --queue 0 --queue-offset 0",
                 "query --topic traffic-orders --time 2020-01-01",
                 "query --id 7F0000010000882300000000000000FF"):  # fmt: skip
        run = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", program, *case.split(), str(store), "-q"],
            capture_output=True,
            text=True,
            check=True,
        )
        code, *loaded = run.stderr.splitlines()[-1].split()
        assert code in {"0", "1"}
        assert set() == HEAVY & set(loaded), case
