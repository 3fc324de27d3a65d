"""A plain line gives the command that Typer gives; what is not plain is left to Typer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmqtool.cli import plain, typed
from rmqtool.cli.commands import NAMES, load
from rmqtool.cli.commands.help import Brief
from rmqtool.cli.declaration import Kind, Parameter, parameters
from rmqtool.errors import UsageError
from tests.stores import fixture_names, fixture_store

HEAVY = {"numpy", "numba", "pyarrow", "pandas", "pyspark", "pydantic", "typer"}
VALUES = {"output": "there", "broker_version": "5.3.3", "shell": "zsh"}


def values(one: Parameter) -> Iterator[list[str]]:
    """Give ways to write an option, whatever kind it has."""
    longest = max(one.spellings, key=len)
    if one.kind is Kind.FLAG:
        yield from ([spelt] for spelt in one.spellings)
    elif one.kind is Kind.NUMBER:
        yield from ([longest, "7"], [f"{longest}=7"])
    elif one.kind is Kind.CHOICE:
        yield from ([longest, word] for word in one.choices)
    elif one.is_many:
        yield from ([longest, "a"], [longest, "a,b", f"{longest}=c", longest, "-"])
    else:
        yield from ([longest, "UTC"], [f"{longest}=UTC"], [longest, "-q"])


def needed(name: str) -> Iterator[str]:
    """Give what a line must have besides the option that is looked at."""
    for parameter in parameters(load(name)):
        if parameter.is_required:
            yield from [] if parameter.is_argument else [max(parameter.spellings, key=len)]
            yield VALUES.get(parameter.name, "store")


def lines(name: str) -> Iterator[list[str]]:
    """Give lines of a command: with each of its options, in each way to write it."""
    for parameter in parameters(load(name)):
        if parameter.is_argument or parameter.is_required:
            continue
        extra = ["--scan"] if (name, parameter.group) == ("query", "choice") else []
        for words in values(parameter):
            yield [name, *needed(name), *words, *extra]


def read(reader: Callable[[list[str]], object], words: list[str]) -> object:
    """Give what a reader makes of a line: a command, or the option that it refuses."""
    try:
        return reader(words)
    except UsageError as error:
        return str(error).partition(":")[0]


@pytest.mark.parametrize("name", NAMES)
def test_every_option(name: str) -> None:
    """All options of all commands are read alike, however they are written."""
    found = [(words, read(plain.read, words)) for words in lines(name)]
    assert found == [(words, read(typed.read, words)) for words, _ in found]
    assert found or name in {"completion", "help"}


@pytest.mark.parametrize(
    "line",
    [
        "query store --key a --key b --topic T --format jsonl -q",
        "query store - --at 0x10",
        "query store traffic-orders 0 17",
        "query store --explain 7F00 --hex",
        "dump a b --as all c",
        "validate --only commitlog,index a --only CL-CRC b --fail-on note",
        "repair --undo store --columns path,code --color never",
        "help consume queue",
        "help",
        "query --id x",
        "startup --broker-version=5.3 store --section losses --section=steps",
        "export --output x store --body text --body-limit=1KiB --from 2026-01-01",
    ],
)
def test_lines(line: str) -> None:
    """Arguments and options mix."""
    words = line.split()
    command = plain.read(words)
    assert command is not None
    assert typed.read(words) == command


@pytest.mark.parametrize(
    "line",
    [
        *("query store --id", "query store --nothing x", "query store --id a --id b"),
        *("query store --explain=yes", "query --id= store"),
        *("info", "info a b", "info store --quiet=1", "rebuild a b", "startup"),
        *("export store", "nothing store", "--nothing", "", "completion", "completion zsh b"),
    ],
)
def test_left_to_typer(line: str) -> None:
    """What is not plain is not read here."""
    assert plain.read(line.split()) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("query store --boundary middle", "--boundary: 'middle' is not one of: lower upper"),
        (
            "info store --format xml",
            "--format: 'xml' is not one of: table json jsonl csv json-schema",
        ),
        ("query store --jobs 0", "--jobs: 0 is too small: at least 1"),
        ("rebuild-cq store --queue x", "--queue: 'x' is not a whole number"),
        ("validate store --level none", "--level: 'none' is not one of: quick full deep"),
    ],
)
def test_wrong_values(line: str, said: str) -> None:
    """A value that is none is refused in the same words, whoever reads the line."""
    for read in (plain.read, typed.read):
        with pytest.raises(UsageError) as caught:
            read(line.split())
        assert said == str(caught.value)


@pytest.mark.parametrize("words", [["./store"], ["/store", "--jobs", "1"], ["s3://b/store"]])
def test_store_alone(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store without a command goes to the doctor: what is there, or is written as a path."""
    assert plain.read(["doctor", *words]) == plain.read(words)
    assert plain.read(["traffic"]) is None
    (tmp_path / "traffic").mkdir()
    (tmp_path / "dump").mkdir()
    monkeypatch.chdir(tmp_path)
    assert plain.read(["doctor", "traffic"]) == plain.read(["traffic"])
    assert plain.read(["dump"]) is None  # a command is one, whatever lies there


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment variable counts where the option is not given, and is blamed by its name."""
    monkeypatch.setenv("RMQTOOL_FORMAT", "csv")
    monkeypatch.setenv("RMQTOOL_TIME_ZONE", "")
    for read in (plain.read, typed.read):
        assert read(["info", "store", "--format", "csv"]) == read(["info", "store"])
        assert read(["info", "store", "--format", "json"]) != read(["info", "store"])
    monkeypatch.setenv("RMQTOOL_FORMAT", "xml")
    with pytest.raises(UsageError) as caught:
        plain.read(["info", "store"])
    assert "RMQTOOL_FORMAT: 'xml' is not one of: table json jsonl csv json-schema" == str(
        caught.value
    )
    assert plain.read(["info", "store", "--format", "json"]) is not None


@pytest.mark.parametrize("name", NAMES)
def test_help(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Help is the same whether a line is plain or not."""
    short = plain.read([name, "store", "--help"])
    assert Brief(name) == short
    assert short is not None
    assert 0 == short.run()
    shown = capfd.readouterr().out
    assert 0 == typed.read([name, "--help"])
    assert shown == capfd.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_no_name_twice(name: str) -> None:
    """A command has no two fields of one name, and no two options that are spelt alike."""
    known = parameters(load(name))
    spelt = ["-h", "--help", *(parameter for each in known for parameter in each.spellings)]
    assert len({parameter.name for parameter in known}) == len(known)
    assert len({*spelt}) == len(spelt)


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
