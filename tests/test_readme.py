"""The README is true: its commands give the output that it shows, its example runs."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.run import rmqtool

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(r"```console\n(\$ .*\n)((?:.*\n)*?)```\n")
EXAMPLE = re.compile(r"```pycon\n((?:.*\n)*?)```\n")


def test_output(*, update_golden: bool) -> None:
    """Each command prints what stands below it."""
    before = README.read_text(encoding="utf-8")
    found = BLOCK.sub(_run, before)
    if update_golden:
        README.write_text(found, encoding="utf-8")
    assert README.read_text(encoding="utf-8") == found


def _run(match: re.Match[str]) -> str:
    _, program, *arguments = shlex.split(match[1])
    assert "rmqtool" == program
    done = rmqtool(*arguments, cwd=ROOT)
    assert (0, "") == (done.code, done.err)
    return f"```console\n{match[1]}{done.out.decode()}```\n"


def test_example(monkeypatch: pytest.MonkeyPatch, *, update_golden: bool) -> None:
    """The example for scripts gives what it shows."""
    monkeypatch.chdir(ROOT)
    text = README.read_text(encoding="utf-8")
    (block,) = EXAMPLE.findall(text)
    tests = doctest.DocTestParser().get_doctest(block, {}, "README.md", None, 0)
    if update_golden:
        README.write_text(text.replace(block, _written(tests)), encoding="utf-8")
        return
    result = doctest.DocTestRunner(verbose=False).run(tests)
    assert (0, True) == (result.failed, result.attempted > 0)


def _written(tests: doctest.DocTest) -> str:
    """Give the example with what it really says."""
    lines, names = [], dict(tests.globs)
    for example in tests.examples:
        lines.append(f">>> {example.source}")
        try:
            value = eval(example.source, names)  # noqa: S307 - our own README
        except SyntaxError:
            exec(example.source, names)  # noqa: S102 - our own README
        else:
            lines += [f"{value!r}\n"] if value is not None else []
    return "".join(lines)


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


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "fixtures/README.md"])
def test_links(name: str) -> None:
    """What a page links to is there."""
    page = ROOT / name
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
