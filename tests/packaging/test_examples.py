"""The examples for CI, cron and containers: files that their readers take, commands that exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from rmqtool.cli.commands import NAMES, load
from rmqtool.cli.declaration import parameters
from tests import inflict
from tests.evidence import Evidence
from tests.stores import fixture_store

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = ROOT / "examples"
PAGES: Final = [
    *sorted(path for path in EXAMPLES.rglob("*") if path.is_file() and path.suffix != ".pyc"),
    ROOT / "Containerfile",
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
COMMAND: Final = re.compile(rf"\brmqtool ((?:{'|'.join(name for name in NAMES)})\b[^`;|&>\\\n]*)")


def commands(page: Path) -> Iterator[list[str]]:
    """Give the command lines that a page shows, without the program's name."""
    for match in COMMAND.finditer(page.read_text(encoding="utf-8")):
        yield shlex.split(match[1].partition(")")[0].rstrip("."), comments=True)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_options_exist(page: Path) -> None:
    """Each option that a page shows is one of its command."""
    found = list(commands(page))
    assert found or page.parent.name == "docs"
    for name, *words in found:
        known = {spelt for parameter in parameters(load(name)) for spelt in parameter.spellings}
        asked = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert asked <= known | {"--help", "-"}, (name, words)


def steps(name: str) -> dict[str, Any]:
    """Read a pipeline."""
    read: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
    return read


def test_github_actions() -> None:
    """The findings are uploaded where the command wrote them, whatever it found."""
    job = steps("github-actions.yml")["jobs"]["validate"]
    validate = next(one for one in job["steps"] if one.get("name") == "Validate")
    upload = next(one for one in job["steps"] if "upload-sarif" in one.get("uses", ""))
    assert f"--sarif {upload['with']['sarif_file']} " in validate["run"]
    assert "cancelled" in upload["if"]


def test_gitlab_ci() -> None:
    """The test report is kept where the command wrote it, whatever it found."""
    job = steps("gitlab-ci.yml")["validate"]
    kept = job["artifacts"]
    assert any(f"--junit {kept['reports']['junit']} " in line for line in job["script"])
    assert "always" == kept["when"]


def run(line: str, directory: Path, **env: str) -> tuple[int, str]:
    """Run a line as a shell does; give exit code, and all that is printed."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(  # noqa: S602 - our own examples
        line, shell=True, cwd=directory, env={**os.environ, **env, "PATH": path}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_cron(tmp_path: Path, evidence: Evidence) -> None:
    """From any weekday on: a sound store prints nothing, and nothing is in the way."""
    store = evidence.keep(fixture_store("rocketmq-5.5.0-lmq", tmp_path))
    lines = (EXAMPLES / "crontab").read_text(encoding="utf-8").splitlines()
    nightly, weekly = (line.split(None, 5)[5] for line in lines if line[0].isdigit())
    manifest = tmp_path / "store.json"
    for line in (nightly, nightly, weekly, nightly):
        here = line.replace("/backup/store", str(store))
        assert (0, "") == run(here, tmp_path, MANIFEST=str(manifest))
        assert manifest.exists()


@pytest.mark.parametrize(("is_damaged", "code"), [(False, 0), (True, 1)])
def test_pipelines(is_damaged: bool, code: int, tmp_path: Path) -> None:
    """The steps of both pipelines do what they say, with a sound store and a damaged one."""
    fixture = fixture_store("rocketmq-5.5.0-lmq", tmp_path)
    if is_damaged:
        inflict.zero_sector()(fixture)
    assert fixture == tmp_path / "store"
    github = [
        step["run"]
        for step in steps("github-actions.yml")["jobs"]["validate"]["steps"][2:]
        if "run" in step
    ]
    gitlab = steps("gitlab-ci.yml")["validate"]
    lines: list[str] = [*gitlab["script"], *gitlab["after_script"]]
    assert github[0] == lines[0]
    assert [code, 0] == [run(line, tmp_path)[0] for line in github[1:]]
    (tmp_path / "report.html").unlink()
    assert [code, code] == [run(line, tmp_path)[0] for line in lines[1:]]
    for name in ("findings.sarif", "findings.xml", "report.html"):
        assert (tmp_path / name).stat().st_size, name


def test_container() -> None:
    """The image is built from this tree, and runs as nobody in particular."""
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    words = [line.split()[0] for line in lines if line and line[0].isalpha()]
    assert "FROM" == words[0]
    assert {"USER", "ENTRYPOINT", "COPY"} <= set(words)
    assert 'ENTRYPOINT ["rmqtool"]' in lines
