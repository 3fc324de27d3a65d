"""README and docs are true: their commands give the output that they show, the example runs."""

from __future__ import annotations

import doctest
import html
import io
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from rich.console import Console
from rich.text import Text

from rmqtool.cli import manual
from rmqtool.cli.commands import NAMES
from rmqtool.cli.manual.words import word_page
from rmqtool.library import OpenStore
from tests import tour
from tests.cli.run import on_terminal, rmqtool
from tests.evidence import Evidence, snapshot
from tests.stores import fixture_store

ROOT: Final = Path(__file__).parent.parent
README: Final = ROOT / "README.md"
PICTURE: Final = ROOT / "docs" / "validate.svg"
COLUMNS: Final = 110
IN_PLACE: Final = {"PYTHONPATH": str(ROOT)}  # wherever the command runs
BLOCK: Final = re.compile(r"```console\n((?:.*\n)*?)```\n")
EXAMPLE: Final = re.compile(r"```pycon\n((?:.*\n)*?)```\n")
# All that two runs may differ in.
TIMINGS: Final = re.compile(r"\b\d+\.\d\d s\b( \(\d+\.\d\d [GM]B/s\))?")
DOCS: Final = tuple(sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
PAGES: Final = ("README.md", "CHANGELOG.md", "DEPENDENCIES.md", "fixtures/README.md", *DOCS)
SHOWN: Final = (
    *("README.md", "docs/notebooks.md", "docs/operations.md", "docs/rows.md", "docs/tour.md"),
)
SCRIPTS: Final = ("docs/library.md", "docs/notebooks.md")  # have examples in Python
ANY_BLOCK: Final = re.compile(r"```(?:sh|ini|yaml)\n((?:.*\n)*?)```\n")
MOST_WORDS: Final = 1300
LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
# "rebuild-queue" is the example of what is not there.
PLACEHOLDERS: Final = {"CODE", "COMMAND", "NAME", "TOPIC", "rebuild-queue"}


@pytest.fixture
def clone(tmp_path: Path, evidence: Evidence) -> Path:
    """Give a directory that looks like a fresh clone, as far as commands see it."""
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    evidence.keep(tour.TOUR)
    return tmp_path


@pytest.mark.every_case
@pytest.mark.parametrize("name", SHOWN)
def test_output(
    name: str, clone: Path, monkeypatch: pytest.MonkeyPatch, *, update_golden: bool
) -> None:
    """Each command prints what stands below it, on a terminal, one after the other."""
    monkeypatch.chdir(clone)
    page = ROOT / name
    before = page.read_text(encoding="utf-8")
    found = BLOCK.sub(_run_block, before)
    if update_golden:
        page.write_text(found, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == found
    assert not (clone / "spark-warehouse").exists()  # Spark leaves nothing where one stands


def _run_block(match: re.Match[str]) -> str:
    lines = [line for line in match[1].splitlines() if line.startswith("$ ")]
    shown: list[str] = []
    code = 0
    for line in lines:
        shown.append(line)
        program, *arguments = shlex.split(line.removeprefix("$ "))
        if program == "echo":
            shown.append(str(code))
            continue
        assert "rmqtool" == program
        into, arguments = (arguments[-1], arguments[:-2]) if ">" in arguments else ("", arguments)
        if into:
            done = rmqtool(*arguments, env=IN_PLACE)
        else:
            done = on_terminal(arguments, COLUMNS, {**IN_PLACE, "NO_COLOR": "1"})
            shown += [line.rstrip().replace(str(ROOT), "/rmqtool") for line in done.lines]
        code = done.code
        said = TIMINGS.sub("0.01 s", done.err)
        shown += said.splitlines()
        assert code in {0, 1}, said
        assert "Traceback" not in said
    return "\n".join(["```console", *shown, "```", ""])


def test_length() -> None:
    """The README is read in five minutes; all else is on pages of its own, and each is linked."""
    text = README.read_text(encoding="utf-8")
    assert len(text.split()) <= MOST_WORDS
    assert [] == [name for name in DOCS if f"]({name})" not in text]
    known = {name for name in DOCS if "```console" in (ROOT / name).read_text(encoding="utf-8")}
    assert known == set(SHOWN) - {"README.md"}


def test_tour_is_what_the_script_makes(tmp_path: Path) -> None:
    """The committed store of the tour is the fixture with the damage of the script."""

    def files(root: Path) -> dict[str, str]:
        return {name: trace.digest for name, trace in snapshot(root).items() if trace.digest}

    assert files(tour.make(tmp_path)) == files(tour.TOUR)


def test_every_command_is_named(*, update_golden: bool) -> None:
    """The table of commands leaves none out; its last row has what nobody put elsewhere."""

    def left_out(text: str) -> list[str]:
        table = text.partition("## Which command when")[2].partition("\n## ")[0]
        return [name for name in NAMES if not re.search(rf"\b{name}\b", table)]

    before = README.read_text(encoding="utf-8")
    if update_golden and (others := left_out(before)):
        row = f"| do something else | {', '.join(f'`{name}`' for name in others)} |\n"
        README.write_text(before.replace("\n## Exit codes", f"{row}\n## Exit codes"), "utf-8")
    assert [] == left_out(README.read_text(encoding="utf-8"))


def test_no_journal() -> None:
    """Pages for users name no seed and no commit; `docs/evidence.md` is where campaigns are."""
    for name in {"README.md", "SECURITY.md", *DOCS} - {"docs/evidence.md"}:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"\bseed \d|\(\w*[0-9a-f]{8}\)|on [0-9a-f]{8}\b", text), name


def test_every_benchmark_is_named() -> None:
    """Whoever wants to measure again finds how."""
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    found = {path.stem for path in (ROOT / "tests" / "bench").glob("bench_*.py")}
    assert found == set(re.findall(r"bench_\w+", text))


def test_picture(clone: Path, monkeypatch: pytest.MonkeyPatch, *, update_golden: bool) -> None:
    """The picture shows what the command prints."""
    monkeypatch.chdir(clone)
    done = on_terminal(["validate", "fixtures/tour/store", "--color", "always"], COLUMNS, IN_PLACE)
    said = TIMINGS.sub("0.01 s", done.err)
    drawn = draw("$ rmqtool validate fixtures/tour/store", done.out.decode() + said)
    if update_golden:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(drawn, encoding="utf-8")
    committed = PICTURE.read_text(encoding="utf-8")
    assert list(words(drawn)) == list(words(committed))  # releases of rich place them anew
    assert "http" not in committed.replace("http://www.w3.org/2000/svg", "")


def draw(command: str, output: str) -> str:
    """Draw a terminal; the font is the reader's own, as a page must not fetch one."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text(command, style="bold green"))
    console.print(Text.from_ansi(output.rstrip()), soft_wrap=True)
    drawn = console.export_svg(title="rmqtool", unique_id="rmqtool")
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    return re.sub(r"<!-- .*? -->\s*", "", drawn)


def words(drawn: str) -> Iterator[str]:
    """Give the texts of a drawing."""
    for text in re.findall(r"<text [^>]*>(.*?)</text>", drawn, re.DOTALL):
        yield html.unescape(text).replace("\xa0", " ").strip()


@pytest.mark.parametrize("name", SCRIPTS)
def test_example(name: str, monkeypatch: pytest.MonkeyPatch, *, update_golden: bool) -> None:
    """The examples for scripts give what they show, one after the other."""
    monkeypatch.chdir(ROOT)
    page = ROOT / name
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for block in EXAMPLE.findall(text):
        tests = doctest.DocTestParser().get_doctest(block, {}, page.name, None, 0)
        tests.globs = names
        if update_golden:
            text = text.replace(block, _written(tests, names))
            continue
        result = doctest.DocTestRunner(verbose=False).run(tests, clear_globs=False)
        assert (0, True) == (result.failed, result.attempted > 0)
    if update_golden:
        page.write_text(text, encoding="utf-8")


def _written(tests: doctest.DocTest, names: dict[str, object]) -> str:
    """Give the example with what it really says."""
    lines = []
    for example in tests.examples:
        source = example.source.rstrip("\n").replace("\n", "\n... ")
        lines.append(f">>> {source}\n")
        try:
            value = eval(example.source, names)  # noqa: S307 - our own README
        except SyntaxError:
            with redirect_stdout(io.StringIO()) as printed:
                exec(example.source, names)  # noqa: S102 - our own README
            lines.append(printed.getvalue())
        else:
            lines += [f"{value!r}\n"] if value is not None else []
    return "".join(lines)


def test_library_is_whole() -> None:
    """Each public function of the Python interface is on its page."""
    text = (ROOT / "docs/library.md").read_text(encoding="utf-8")
    names = [name for name in vars(OpenStore) if not name.startswith("_")]
    methods = [name for name in names if callable(getattr(OpenStore, name))]
    assert {"rows", "scanner"} < {*methods}
    assert [] == [name for name in methods if f".{name}(" not in text or f"| `{name}(" not in text]


@pytest.mark.parametrize("name", DOCS)
def test_commands_of_recipes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands about clusters, buckets and disks are run, with places of this machine for those."""
    monkeypatch.chdir(tmp_path)
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    (tmp_path / "broker.conf").write_text("", encoding="utf-8")
    places = {
        r"(/proc/1/root/home|/data)/rocketmq/store|/restore/store|s3://backups/\S+/store": store,
        r"^/store$": store,
        r"/opt/\S+/broker.conf": tmp_path / "broker.conf",
        r"/var/lib/rmqtool": tmp_path,
        r"^store.manifest$": tmp_path / "store.manifest",
        r"s3://lake/messages": tmp_path / "messages",
    }
    for block in ANY_BLOCK.findall((ROOT / name).read_text(encoding="utf-8")):
        for line in block.splitlines():
            listed = re.search(r'\["rmqtool", .*\]', line)
            words = json.loads(listed[0]) if listed else shlex.split(line.strip(), comments=True)
            words = words[words.index("--") + 1 :] if "--" in words else words
            if words[:1] not in (["rmqtool"], ["ExecStart=rmqtool"]):
                continue
            for pattern, place in places.items():
                words = [re.sub(pattern, str(place), word) for word in words]
            done = rmqtool(*words[1:], env=IN_PLACE)
            assert done.code in ({2} if words[1] == "browse" else {0, 1}), (line, done.err)


def test_two_commands() -> None:
    """There are two commands to start with, and CI runs the second one, word for word."""
    commands = re.findall(r"```sh\n(.*)\n```", README.read_text(encoding="utf-8"))
    assert 2 == len(commands)
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").replace("exec bash", "exit 0 #")
    done = subprocess.run(  # noqa: S603 - our own script
        ["bash", "-c", script.replace('cd "$(dirname "$0")/.."', "")],  # noqa: S607
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert f"+ {commands[1]}\n" == done.stdout


@pytest.mark.parametrize("name", PAGES)
def test_links(name: str) -> None:
    """What a page links to is there, and what it shows has words for who cannot see it."""
    page = ROOT / name
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(text):
        path, _, anchor = target.partition("#")
        if "://" in target:
            parts = urlsplit(target)
            assert ("https", True) == (parts.scheme, "." in parts.netloc), target
            continue
        linked = page.parent / path if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target
    assert all(len(words) > 10 for words in re.findall(r"!\[(.*?)\]", text))


def anchors(page: Path) -> set[str]:
    """Give the anchors of a page's headings, as hosts of repositories make them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_pages_of_the_manual() -> None:
    """Each page of the manual and each topic of `rmqtool help` that is named anywhere exists."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "man").rglob("*.*")]
    texts = [text.replace("\\-", "-") for text in texts]
    texts += [(ROOT / name).read_text(encoding="utf-8") for name in PAGES]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / "rmqtool").rglob("*.py")]
    pages = {f"{page.name}({page.number})" for page in manual.pages()}
    for text in texts:
        assert {match[0] for match in re.finditer(r"\brmqtool(-[a-z]+)*\([1-9]\)", text)} <= pages
        for topic in re.findall(r"\brmqtool help ([A-Za-z][\w-]*)", text):
            known = topic in PLACEHOLDERS or manual.whole_page(topic) or word_page(topic)
            assert known, topic
