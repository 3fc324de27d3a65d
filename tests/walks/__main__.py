"""Do the walks of CONTRIBUTING.md in a clone of this tree, and say which files each opened.

    python -m tests.walks [--keep DIRECTORY] [--only WALK ...]

HEAD is cloned, nothing else is touched. On a branch `walks` of the clone each walk is a commit:
its patch, what the two commands write anew, the tests of what it changed. It fails if a patch no
longer applies, opens more files than its bar, does not show in what the tool says, or fails a test.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.walks import shown
from tests.walks.shown import Look, Tool

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
PYTHON: Final = (sys.executable, "-m")
MANUAL: Final = (*PYTHON, "rmqtool.cli.manual", "man")
LINES: Final = 40  # of a program that failed
PYTEST: Final = (*PYTHON, "pytest", "-q", "-p", "no:cacheprovider")
EXAMPLE: Final = "tests/cli/test_manual.py::test_examples"
PAGES: Final = "tests/test_readme.py"
# Written by the two commands, from what the program is: nobody opens them.
WRITTEN: Final = (
    *("man/", "docs/", "README.md", "tests/cli/transcripts/", "rmqtool/cli/examples/"),
)
# What holds for whatever is changed.
ALWAYS: Final = (
    *("tests/test_layers.py", "tests/test_architecture.py", "tests/test_dictionary.py"),
    *("tests/test_words.py", "tests/cli/test_transcripts_complete.py"),
    "tests/cli/test_manual.py::test_committed_pages",
    "tests/cli/test_manual.py::test_every_command",
    "tests/cli/test_manual.py::test_every_layout",
    "tests/cli/test_manual.py::test_every_code",
)


class WalkFails(Exception):
    """A walk cannot be done as its page says.

    Args:
        what: is wrong.
        where: it is so; lines.
    """

    def __init__(self, what: str, where: Sequence[str]) -> None:
        super().__init__("\n    ".join([f"{what}:", *where]))


@dataclass(frozen=True, slots=True)
class Walk:
    """One walk.

    Attributes:
        name: of its patch.
        title: in CONTRIBUTING.md.
        bar: files that it may open.
        look: what shows it.
        tests: of what it changes.
        goldens: tests that write transcripts and examples anew.
    """

    name: str
    title: str
    bar: int
    look: Look
    tests: tuple[str, ...]
    goldens: tuple[str, ...] = ()

    @property
    def patch(self) -> Path:
        """The file with its lines."""
        return HERE / f"{self.name}.patch"


def transcripts(*names: str) -> tuple[str, ...]:
    """Give the tests that write transcripts."""
    return tuple(f"tests/cli/test_transcripts.py::test_transcript[{name}]" for name in names)


WALKS: Final = (
    Walk(
        "field", "A field of the checkpoint", 3, shown.field,
        ("tests/formats/test_parity.py", "tests/formats/test_positions.py"),
        (
            *transcripts("dump-files", "info-damage", "terminals"),
            f"{PAGES}::test_output[docs/rows.md]",
        ),
    ),
    Walk(
        "finding", "A finding", 3, shown.finding,
        (
            *("tests/findings", "tests/check/test_damage.py", "tests/repair/test_damage.py"),
            *("-k", "findings or closed-topic or every_code or (sample and closed)"),
        ),
    ),
    Walk(
        "queues", "A finding of all queues", 3, shown.queues,
        (
            *("tests/findings", "tests/check/test_damage.py", "tests/repair/test_damage.py"),
            *("-k", "findings or flip-unit-size or flip-batch-size or every_code"),
        ),
    ),
    Walk(
        "property", "A property of records", 2, shown.record_property,
        ("tests/tables/test_messages.py", "tests/tables/test_schemas.py"),
        transcripts("dump-bad-input", "dump-filters", "dump-messages", "export-usage"),
    ),
    Walk(
        "rule", "A rule of a release", 2, shown.rule,
        ("tests/broker/test_rules.py", "tests/broker/test_release.py"),
    ),
    Walk(
        "tags", "A rule of tags codes", 3, shown.tags,
        ("tests/broker/test_dispatch.py", "tests/broker/test_rules.py", "tests/derive"),
    ),
    Walk(
        "container", "A kind of archive", 3, shown.container,
        ("tests/archives",),
        (*transcripts("archives", "help-of-commands"),),
    ),
    Walk(
        "family", "A family of a RocksDB database", 3, shown.family,
        ("tests/formats/test_rocksdb.py", "tests/store/test_rocksdb_database.py"),
    ),
    Walk(
        "command", "A command", 3, shown.command,
        ("tests/cli/test_completion.py", "tests/cli/test_plain.py"),
        (
            *transcripts("help", "help-of-commands", "other-words", "rmqtool"),
            *(f"{EXAMPLE}[topic]", f"{PAGES}::test_every_command_is_named"),
            f"{PAGES}::test_length",
        ),
    ),
)  # fmt: skip


def main() -> int:
    """Do the walks that are named, or all of them; 1 when one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="make the clone here, and leave it")
    names = [walk.name for walk in WALKS]
    parser.add_argument("--only", choices=names, nargs="+", default=names)
    asked = parser.parse_args()
    walks = [walk for walk in WALKS if walk.name in asked.only]
    with tempfile.TemporaryDirectory(prefix="rmqtool-walks-") as room:
        tree = asked.keep or Path(room, "tree")
        ran(ROOT, ["git", "clone", "-q", ROOT, tree])
        ran(tree, ["git", "checkout", "-q", "-b", "walks"])
        tool = Tool(tree, Path(room, "stores"))
        failed = [walk for walk in walks if not is_done(walk, tool)]
    say(f"{len(walks) - len(failed)} of {len(walks)} walks done")
    if asked.keep:
        say(f"git -C {asked.keep} log --stat walks")
    return bool(failed)


def is_done(walk: Walk, tool: Tool) -> bool:
    """Do one walk and say how it went; after a failure its traces are removed."""
    began = time.monotonic()
    try:
        opened, written = do(walk, tool)
    except WalkFails as error:
        say(f"{walk.title}: FAILED: {error}")
        ran(tool.tree, ["git", "reset", "-q", "--hard"])
        ran(tool.tree, ["git", "clean", "-q", "-d", "-f"])
        return False
    seconds = time.monotonic() - began
    say(f"{walk.title}: {len(opened)} files opened (bar: {walk.bar}), {seconds:.0f} s")
    for name in opened:
        say(f"    {name}")
    say(f"    and {len(written)} pages and transcripts, written by commands")
    return True


def do(walk: Walk, tool: Tool) -> tuple[list[str], list[str]]:
    """Do one walk as a commit.

    Returns:
        The files that a person opened, and those that commands wrote.

    Raises:
        WalkFails: it is not as the page says.
    """
    tree, before = tool.tree, shown.other_releases(tool)
    refuse("so without the walk", [name for name, is_so in walk.look(tool).items() if is_so])
    ran(tree, ["git", "apply", "--index", "--recount", "-C1", walk.patch])
    opened = changed(tree, "--cached")
    if len(opened) > walk.bar:
        refuse(f"more than {walk.bar} files", opened)
    sources = [name for name in opened if name.endswith(".py")]
    ran(tree, [*PYTHON, "ruff", "check", "-q", *sources])
    ran(tree, [*PYTHON, "ruff", "format", "-q", "--check", *sources])
    if walk.goldens:
        ran(tree, [*PYTEST, "--update-golden", *walk.goldens])
    ran(tree, MANUAL)
    ran(tree, [*PYTEST, *walk.tests])
    ran(tree, [*PYTEST, *ALWAYS, *walk.goldens])
    refuse("not so", [name for name, is_so in walk.look(tool).items() if not is_so])
    after = shown.other_releases(tool)
    refuse("startup changes", [one for one in shown.UNCHANGED if before[one] != after[one]])
    ran(tree, ["git", "add", "--all"])
    written = [name for name in changed(tree, "--cached") if name not in opened]
    others = [name for name in written if not name.startswith(WRITTEN)]
    refuse("changed, and neither opened nor written by a command", others)
    who = ("-c", "user.name=walks", "-c", "user.email=walks@localhost")
    ran(tree, ["git", *who, "commit", "-q", "--no-verify", "-m", f"walk: {walk.title}"])
    return opened, written


def changed(tree: Path, *words: str) -> list[str]:
    """Give the files that differ from HEAD."""
    return ran(tree, ["git", "diff", "--name-only", *words, "HEAD"]).splitlines()


def ran(tree: Path, words: Sequence[str | Path]) -> str:
    """Run a program; give what it wrote.

    Raises:
        WalkFails: it failed; with its last lines.
    """
    done = subprocess.run(  # noqa: S603 - git, pytest, ruff and ourselves
        words, cwd=tree, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = [line for text in (done.stdout, done.stderr) for line in text.splitlines()]
        refuse(" ".join(map(str, words)), said[-LINES:] or ["it failed"])
    return done.stdout


def refuse(what: str, where: Sequence[str]) -> None:
    """Give up where something is wrong.

    Raises:
        WalkFails: it is so anywhere.
    """
    if where:
        raise WalkFails(what, where)


def say(line: str) -> None:
    """Write a line at once."""
    print(line, flush=True)  # noqa: T201 - a program of its own


if __name__ == "__main__":
    sys.exit(main())
