"""The manual: its pages are what the program says, and anyone can read them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from rmqtool.cli import exits
from rmqtool.cli.commands import NAMES
from rmqtool.cli.main import main
from rmqtool.cli.manual import (
    REGENERATE,
    examples,
    files,
    findings,
    formats,
    page,
    pages,
    topics,
    whole_page,
    write,
)
from rmqtool.cli.manual.blocks import References, Section, Subsection, Term, Text, Verbatim
from rmqtool.cli.manual.plain import plain
from rmqtool.cli.manual.roff import roff
from rmqtool.errors import RmqtoolError
from rmqtool.findings.registry import CODES
from rmqtool.formats.registry import LAYOUTS
from rmqtool.machine.announce import COMPILING
from tests import inflict
from tests.cli.run import on_terminal
from tests.evidence import Evidence
from tests.plain_store import Record
from tests.spark.conftest import spark  # noqa: F401 - a fixture
from tests.stores import fixture_store

ROOT: Final = Path(__file__).parents[2]
MAN: Final = ROOT / "man"
EXAMPLES: Final = ROOT / "rmqtool" / "cli" / "examples"
NEED_SPARK: Final = {"sql"}
# Making them takes a second of each worker; `test_committed_pages` tells whether it is these.
PAGES: Final = {
    path.relative_to(MAN).as_posix(): int(path.suffix[1:]) for path in sorted(MAN.rglob("*.*"))
}
# All that two runs may differ in.
TIMINGS: Final = re.compile(r"\b\d+\.\d\d s\b( \(\d+\.\d\d [GM]B/s\))?")
REGENERATE_EXAMPLES: Final = "pytest tests/cli/test_manual.py --update-golden"
STALE: Final = f"""the manual is not what the program says; write it anew with: {REGENERATE}
(or, where an example changed, too: {REGENERATE_EXAMPLES})"""


# ---- examples ---------------------------------------------------------------------------------


def _damaged(store: Path) -> None:
    def wanted(record: Record) -> bool:
        return record.integer("queue_id") == 0 and record.bytes_of("topic") == b"traffic-orders"

    inflict.flip_field("body", wanted=wanted)(store)


def _hurt_queue(store: Path) -> None:
    unit = store / "consumequeue" / "traffic-orders" / "1" / "00000000000000000000"
    inflict.write_at(unit, 50 * 20, bytes(20))


def _as_it_is(_store: Path) -> None:
    pass


STORES: Final[dict[str, tuple[str, Callable[[Path], None]]]] = {
    "store": ("rocketmq-5.3.3-traffic", _as_it_is),
    "killed": ("rocketmq-5.3.3-crash", _as_it_is),
    "quiet": ("rocketmq-5.3.3-lmq", _as_it_is),
    "damaged": ("rocketmq-5.3.3-traffic", _damaged),
    "replica": ("rocketmq-5.3.3-traffic", inflict.drop_last_records),
    "hurt-queue": ("rocketmq-5.3.3-traffic", _hurt_queue),
}


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.txt")))
def test_examples(
    name: str,
    tmp_path: Path,
    evidence: Evidence,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    """The examples of a page give what the page shows."""
    update_golden: bool = request.getfixturevalue("update_golden")
    if name in NEED_SPARK:
        request.getfixturevalue("spark")  # one session for them all
    path = EXAMPLES / f"{name}.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if line.startswith(("# ", "$ "))]
    for word in {word for line in kept for word in re.split(r"[ /]", line)} & STORES.keys():
        fixture, damage = STORES[word]
        (tmp_path / "made").mkdir(exist_ok=True)
        fixture_store(fixture, tmp_path / "made").rename(tmp_path / word)
        damage(tmp_path / word)
        evidence.keep(tmp_path / word)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(examples.WIDTH))
    ran: list[str] = []
    for line in kept:
        ran.append(line)
        if line.startswith(examples.PROMPT):
            ran += _run(line.removeprefix(examples.PROMPT), capfd)
    if update_golden:
        path.write_text("\n".join([*ran, ""]), encoding="utf-8")
    assert ran == lines or update_golden, f"write it anew with: {REGENERATE_EXAMPLES}"
    out = [line for line in ran if not line.startswith(("# ", "$ ", "stderr: "))]
    assert [] == [line for line in out if len(line) > examples.WIDTH], "too wide for a page"


def _run(line: str, capfd: pytest.CaptureFixture[str]) -> list[str]:
    program, *arguments = shlex.split(line)
    assert "rmqtool" == program
    code = main(arguments)
    out, said = (_steady(text) for text in capfd.readouterr())
    return [*out, *(f"{examples.ON_STDERR}{one}" for one in said), f"exit: {code}"]


def _steady(text: str) -> list[str]:
    """Give the lines without what differs: where it ran, how long it took, that it compiled."""
    steady = TIMINGS.sub("0.01 s", text.replace(str(Path.cwd()), "/evidence"))
    return [line for line in steady.splitlines() if line != f"rmqtool: {COMPILING}"]


# ---- pages -------------------------------------------------------------------------------------


def written_in(directory: Path) -> dict[str, str]:
    """Give the pages of a directory."""
    return {
        str(path.relative_to(directory)): path.read_text(encoding="utf-8")
        for path in directory.rglob("*.*")
    }


def test_committed_pages(update_golden: bool) -> None:
    """The pages in man/ are those that would be written now, and there are no others."""
    if update_golden:
        write(str(MAN))
    written = {page.file_name: roff(page) for page in pages()}
    committed = written_in(MAN)
    stale = sorted(
        name
        for name in written.keys() | committed.keys()
        if written.get(name) != committed.get(name)
    )
    assert [] == stale, STALE


def test_written_twice(tmp_path: Path) -> None:
    """The command that writes them replaces what is there, and two runs give the same bytes."""
    for number in PAGES.values():
        (tmp_path / f"man{number}").mkdir(exist_ok=True)
    for _ in range(2):
        subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "rmqtool.cli.manual", str(tmp_path)], check=True, cwd=ROOT
        )
    assert {page.file_name: roff(page) for page in pages()} == written_in(tmp_path)


def test_installed() -> None:
    """The wheel puts each page where man looks for it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    shared = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert "share/man" == shared["man"]
    assert all(name.startswith(f"man{number}/") for name, number in PAGES.items())


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
@pytest.mark.parametrize("device", ["utf8", "ascii"])
@pytest.mark.parametrize("name", PAGES)
def test_clean(name: str, device: str) -> None:
    """Groff has nothing to say about a page, with all its warnings on."""
    done = subprocess.run(  # noqa: S603 - groff, found on the path
        ["groff", "-man", "-ww", f"-T{device}", str(MAN / name)],  # noqa: S607 - wherever it is
        capture_output=True,
        check=False,
    )
    assert (0, b"") == (done.returncode, done.stderr)
    assert b"." in done.stdout


def test_every_command() -> None:
    """Each command has a page with all its options, with examples, and in the overview."""
    overview = roff(page("rmqtool")).replace("\\-", "-")
    for name in NAMES:
        found = page(name)
        titles = [block.title for block in found.blocks if isinstance(block, Section)]
        terms = {block.term for block in found.blocks if isinstance(block, Term)}
        assert {"SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"} <= {*titles}
        assert any(term.endswith("--help") for term in terms)
        assert f"rmqtool-{name}(1)" in overview
        wanted = f"write rmqtool/cli/examples/{name}.txt, then {REGENERATE_EXAMPLES}"
        assert "EXAMPLES" in titles, wanted


def test_every_layout() -> None:
    """Each field of each structure is shown, and each structure is told in which file it lies."""
    shown = roff(page("formats")).replace("\\-", "-")
    for layout in LAYOUTS.values():
        assert f'.SS "{layout.name}, {layout.size} bytes"' in shown
        table = shown.partition(f'.SS "{layout.name}, ')[2].partition(".S")[0]
        for field in layout.fields:
            assert re.search(
                rf"^\\fB *{field.position}  \S+  {field.name}\\fR$", table, re.MULTILINE
            )
    assert {*LAYOUTS} == {name for artefact in files.ARTEFACTS for name in artefact.layouts}


def test_layout_of_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A structure of which nobody says in which file it lies is shown all the same."""
    monkeypatch.setattr(formats, "ARTEFACTS", files.ARTEFACTS[1:])
    shown = [
        block.title for block in formats.formats_page().blocks if isinstance(block, Subsection)
    ]
    assert sorted(f"{layout.name}, {layout.size} bytes" for layout in LAYOUTS.values()) == sorted(
        shown
    )


def test_every_code() -> None:
    """Each finding code is there with its consequence, its remedy and the command that helps."""
    items = {
        block.term.partition(" ")[0]: " ".join(block.texts)
        for block in page("findings").blocks
        if isinstance(block, Term)
    }
    for code in CODES.values():
        assert code.command.startswith("rmqtool "), code.name
        for words in (code.meaning[1:], code.consequence, code.remedy, code.command):
            assert words.rstrip(".") in items[code.name]


def test_undetectable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the checks say what they cannot find, the page says it, too."""
    name = findings.UNDETECTABLE
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(module, "UNDETECTABLE", {"flag": "the application's own"}, raising=False)
    blocks = page("findings").blocks
    at = blocks.index(Section("WHAT NO CHECK CAN FIND"))
    assert Term("flag", ("The application's own.",)) in blocks[at:]


def test_links() -> None:
    """A page that another one refers to exists, and each page is referred to."""
    linked: set[str] = set()
    for written in pages():
        for block in written.blocks:
            if isinstance(block, References):
                linked |= {f"man{number}/{name}.{number}" for name, number in block.pages}
    assert {*PAGES} == linked


def test_commands_of_codes_exist() -> None:
    """A command that a finding recommends takes the options that it is recommended with."""
    known = {name: roff(page(name)).replace("\\-", "-") for name in NAMES}
    for code in CODES.values():
        _, _, recommended = code.command.partition(" ")
        name, *words = recommended.split() or [""]
        if name in known:  # a command that is still to come is the registry's own affair
            options = [word for word in words if word.startswith("--")]
            assert [] == [option for option in options if rf"\fB{option}\fR" not in known[name]], (
                code.name
            )


def test_exit_status() -> None:
    """Each way in which a command can end is explained."""
    ends = {value for name, value in vars(exits).items() if name.isupper() and type(value) is int}
    raised = [RmqtoolError]
    for error in raised:
        raised += error.__subclasses__()
    ends |= {error.exit_code for error in raised}
    shown = {block.term for block in page("info").blocks if isinstance(block, Term)}
    assert {str(int(code)) for code in ends} <= shown
    assert ends <= {*exits.EXIT_STATUS}


# ---- reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("topic", topics())
def test_plain(topic: str, columns: int) -> None:
    """Without man, a page has the same words, within the terminal and without controls."""
    one = page(topic)
    shown = plain(one, columns)
    verbatim = {
        f"    {line}".rstrip()
        for block in one.blocks
        if isinstance(block, Verbatim)
        for line in block.lines
    }
    assert all(len(line) <= columns for line in shown.splitlines() if line not in verbatim)
    assert shown.replace("\n", "").isprintable()
    words = " ".join(shown.split())
    for block in one.blocks:
        for text in _texts(block):
            assert " ".join(text.split()) in words


def _texts(block: object) -> tuple[str, ...]:
    if isinstance(block, Text):
        return (block.text,)
    return (block.term, *block.texts) if isinstance(block, Term) else ()


@pytest.mark.parametrize("topic", [*topics(), "rmqtool-info", "rmqtool-formats", "FORMATS"])
def test_help(topic: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Each page is shown under its own name and under its topic."""
    page = whole_page(topic)
    assert page is not None
    assert 0 == main(["help", topic])
    assert (plain(page, 80), "") == tuple(capfd.readouterr())


def test_help_alone(capfd: pytest.CaptureFixture[str]) -> None:
    """Without a topic it is the page of the program."""
    assert 0 == main(["help"])
    assert plain(page("rmqtool"), 80) == capfd.readouterr().out


@pytest.mark.parametrize("topic", ["CL-CRC", "cl-crc", "consume_queue_unit"])
def test_help_for_one(topic: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A single code or structure is short: what a person can read at a glance."""
    assert 0 == main(["help", topic])
    assert topic.upper() in capfd.readouterr().out.upper()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["CQ"], "CQ-HOLE"),
        (["consumequeue"], "consume_queue_unit, 20 bytes"),
        (["consume", "queue"], "consume_queue_unit, 20 bytes"),
        (["/data/store/commitlog/00000000000000000000"], "message_prefix, 48 bytes"),
        (["checkpoint"], "physic_msg_timestamp"),
        (["config/topics.json"], "fastjson"),
        (["lock"], "first byte"),
        (["tagsCode"], "consume_queue_unit, 20 bytes"),
        (["tags_code"], "dump --as consume-queue"),
        (["msgId"], "unique_key  text"),
        (["offsetMsgId"], "message_id  text"),
        (["UNIQ_KEY"], "unique_key  text"),
        (["rmqtool-info(1)"], "Nothing is scanned"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_help_for_a_word(words: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    """What a person has before the eyes is a topic: a file, a directory, a field, as in Java."""
    assert 0 == main(["help", *words])
    assert said in capfd.readouterr().out


def test_every_name_of_a_file(capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever the formats name leads to their own page."""
    for artefact in files.ARTEFACTS:
        for name in (artefact.title, *artefact.names):
            assert 0 == main(["help", name])
            assert artefact.title.upper() in capfd.readouterr().out


def test_named_elsewhere(capfd: pytest.CaptureFixture[str]) -> None:
    """A word without a page of its own: where it is written about."""
    assert 2 == main(["help", "traffic_per_minute"])
    assert "it is named in: sql" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("topic", "near"),
    [("rebuildcq", "rebuild-cq"), ("CL-CRX", "CL-CRC"), ("index_heade", "index_header")],
)
def test_unknown_topic(topic: str, near: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A topic without a page is refused, and the nearest names are told."""
    assert 2 == main(["help", topic])
    out, said = capfd.readouterr()
    assert "" == out
    assert near in said


def test_hostile_topic(capfd: pytest.CaptureFixture[str]) -> None:
    """A topic that is like nothing gets all names, and reaches the terminal escaped."""
    assert 2 == main(["help", "\x1b[31m../../etc/passwd"])
    said = capfd.readouterr().err
    assert "\x1b" not in said
    assert all(topic in said for topic in topics())


def test_through_man(tmp_path: Path) -> None:
    """On a terminal man gets the page; where it is missing or fails, the text is shown."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    path = {"PATH": str(bin_)}
    assert plain(page("info"), 70) == on_terminal(["help", "info"], 70, path).out.decode()
    man = bin_ / "man"
    man.write_text(f"#!/bin/sh\necho man $*\n{shutil.which('cat')} > {tmp_path}/page\n")
    man.chmod(0o755)
    assert b"man -l -\n" == on_terminal(["help", "info"], 70, path).out
    assert roff(page("info")) == (tmp_path / "page").read_text()
    man.write_text("#!/bin/sh\necho no >&2\nexit 1\n")
    assert plain(page("info"), 70) == on_terminal(["help", "info"], 70, path).out.decode()
