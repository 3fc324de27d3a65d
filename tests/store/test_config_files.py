"""Configuration files fall back to their `.bak` where the broker's loader does."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool.store.tree import open_store
from tests.stores import fixture_names, fixture_store

GOOD = '{"offsetTable":{1:5}}'
OLD = '{"offsetTable":{1:4}}'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """An empty config directory of a store."""
    path = tmp_path / "store/config"
    path.mkdir(parents=True)
    return path


@pytest.mark.parametrize(
    ("main", "backup", "taken", "problems"),
    [
        (GOOD, OLD, "config/x.json", 0),
        (None, OLD, "config/x.json.bak", 0),
        ("", OLD, "config/x.json.bak", 1),
        ("\0\0\0", OLD, "config/x.json.bak", 1),
        (GOOD[:10], OLD, "config/x.json.bak", 1),
        ("[1]", OLD, "config/x.json.bak", 1),
        (GOOD[:10], OLD[:10], "", 2),
        (None, None, "", 0),
    ],
)
def test_fallback(
    config: Path, main: str | None, backup: str | None, taken: str, problems: int
) -> None:
    """A file that is missing, empty or cut is replaced by its backup, and it is said why."""
    for name, text in {"x.json": main, "x.json.bak": backup}.items():
        if text is not None:
            (config / name).write_text(text)
    document = open_store(config).config("x.json")
    assert (taken, problems) == (document.path, len(document.problems))
    assert document.is_backup == taken.endswith(".bak")
    expected = {"": {}, "config/x.json": {"1": 5}, "config/x.json.bak": {"1": 4}}[taken]
    assert expected == document.document.get("offsetTable", {})


@pytest.mark.parametrize(
    ("main", "backup", "blank_stops", "stopping"),
    [
        (GOOD[:10], OLD[:10], True, "x.json.bak"),
        (GOOD[:10], "", True, ""),
        (GOOD[:10], None, True, ""),
        (GOOD[:10], OLD, True, ""),
        (GOOD, OLD[:10], True, ""),
        (GOOD[:10], " \n", True, "x.json.bak"),
        (GOOD[:10], " \n", False, ""),
        (" \n", OLD[:10], False, ""),
        (GOOD[:10], OLD[:10], False, "x.json.bak"),
    ],
)
def test_backup_stops_a_broker(
    config: Path, main: str, backup: str | None, stopping: str, *, blank_stops: bool
) -> None:
    """A broker is stopped by a backup that it needs and cannot parse; white space may be one."""
    for name, text in {"x.json": main, "x.json.bak": backup}.items():
        if text is not None:
            (config / name).write_text(text)
    problem = open_store(config).config("x.json").stops_broker(blank_stops=blank_stops)
    assert stopping == (problem.path.rpartition("/")[2] if problem else "")


def test_directory_in_place_of_a_file(config: Path) -> None:
    """A directory or a link called like the file is a problem, and nothing is followed."""
    (config / "x.json").mkdir()
    (config / "x.json.bak").symlink_to("/etc/passwd")
    document = open_store(config).config("x.json")
    assert not document
    assert ["directory", "link"] == [
        word
        for problem in document.problems
        for word in ("directory", "link")
        if f"a {word}" in problem.says
    ]


def test_no_config_directory(tmp_path: Path) -> None:
    """A store without the directory has no configuration, which is no error."""
    (tmp_path / "commitlog").mkdir()
    assert not open_store(tmp_path).config("topics.json")


@pytest.mark.parametrize("name", fixture_names(scenario="traffic"))
def test_fixtures(name: str, tmp_path: Path) -> None:
    """Every JSON file that a real broker wrote is read without a problem."""
    store = open_store(fixture_store(name, tmp_path))
    names = {file.place.name.removesuffix(".bak") for file in store.config_files()}
    assert {"topics.json", "consumerOffset.json", "delayOffset.json"} <= names
    for one in names:
        document = store.config(one)
        assert document
        assert () == document.problems
        assert document.document
