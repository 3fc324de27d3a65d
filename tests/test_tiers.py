"""The tiers: what the sample keeps, who asks for which, and that costs are of tests that exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests import tiers
from tests.tiers import CI, CI_SECONDS, LONG_SECONDS, SAMPLE, SAMPLE_SECONDS, WHOLE, Cost

ROOT: Final = Path(__file__).parents[1]
DAMAGES: Final = [f"damage {number}" for number in range(40)]
RELEASES: Final = ["4.9.3", "5.3.3", "5.5.0"]
ARGS: Final = pytest.Config.ArgsSource.ARGS
NO_ARGS: Final = pytest.Config.ArgsSource.TESTPATHS


def case(name: str, *marks: str, **params: object) -> Any:  # noqa: ANN401 - as a test of pytest
    """Give what the tiers know of a test."""
    callspec = SimpleNamespace(params=params, indices=dict.fromkeys(params, 0))
    nodeid = f"{name}[{'-'.join(map(str, params.values()))}]" if params else name
    given = {"callspec": callspec} if params else {}
    return Item(nodeid, {*marks}, **given)


class Item:
    """Stands for a test; no two are equal."""

    def __init__(self, nodeid: str, keywords: set[str], **given: object) -> None:
        self.nodeid = nodeid
        vars(self).update(keywords=keywords, **given)


@pytest.fixture
def items(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Give tests that cost much in sum, in one case, or nothing."""
    known = {"a::many": Cost(120, 60.0), "a::long": Cost(2, 3 * LONG_SECONDS)}
    monkeypatch.setattr(tiers, "costs", lambda: known)
    return [
        *(case("a::many", damage=damage, release=two) for damage in DAMAGES for two in RELEASES),
        *(case("a::cheap", damage=damage) for damage in DAMAGES[:3]),
        *(case("a::other", "broker", release=release) for release in RELEASES),
        *(case("a::third", release=release, damage="damage 7") for release in RELEASES[:2]),
        *(case("a::long", number=one) for one in (1, 2)),
        case("a::new"),
    ]


def test_sample(items: list[Any]) -> None:
    """Each function but the long ones has a case, and each damage and release is in one."""
    chosen = [*tiers.sample(items)]
    assert {"a::many", "a::cheap", "a::other", "a::third", "a::new"} == {
        tiers.function(item.nodeid) for item in chosen
    }
    params = [item.callspec.params for item in chosen if hasattr(item, "callspec")]
    assert {*DAMAGES} == {one["damage"] for one in params if "damage" in one}
    assert {*RELEASES} == {one["release"] for one in params if "release" in one}
    assert chosen == [item for item in items if item in chosen]
    assert chosen == [*tiers.sample(items)]
    many = sum(item.nodeid.startswith("a::many[") for item in chosen)
    assert len(DAMAGES) - 3 <= many <= len(DAMAGES) + SAMPLE_SECONDS / 0.5
    assert 3 == sum(item.nodeid.startswith("a::cheap[") for item in chosen)


def test_shared_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fixture that takes long is not set up in the sample for a test that takes a moment."""
    known = {"a::(cluster)": Cost(1, 2 * LONG_SECONDS), "b::(cluster)": Cost(1, 0.1)}
    monkeypatch.setattr(tiers, "costs", lambda: known)
    asking: list[Any] = [
        Item(f"{file}::test", set(), fixturenames=["cluster", "tmp_path"]) for file in ("a", "b")
    ]
    assert asking[1:] == [*tiers.sample(asking)]
    assert asking == [*tiers.ci(asking)]


def test_ci(items: list[Any]) -> None:
    """CI leaves no function out, nor a case of one that is marked."""
    chosen = [*tiers.ci(items)]
    assert {tiers.function(item.nodeid) for item in items} == {
        tiers.function(item.nodeid) for item in chosen
    }
    many = sum(item.nodeid.startswith("a::many[") for item in chosen)
    assert max(CI_SECONDS / 0.5, len(DAMAGES) - 3) <= many < len(DAMAGES) * len(RELEASES)
    for item in items:
        item.keywords.add("every_case")
    assert items == [*tiers.ci(items)]


def test_chosen_of_the_sample_of_a_room() -> None:
    """What a room leaves out, no tier has chosen: CI has as many cases as its seconds hold."""
    file = "tests/startup/test_against_stores.py"
    name = f"{file}::test_small_store"
    words = ["-m", "pytest", "--collect-only", "-q", "--tier", CI, file]
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    chosen = sum(line.startswith(name) for line in done.stdout.splitlines())
    assert chosen >= int(CI_SECONDS / tiers.costs()[name].of_case)


def test_quick(items: list[Any]) -> None:
    """What takes long, or needs a broker, is not of the quick tier."""
    quick = {tiers.function(item.nodeid) for item in items if tiers.is_quick(item)}
    assert {"a::cheap", "a::third", "a::new"} == quick


@pytest.mark.parametrize(
    ("given", "source", "in_ci", "tier"),
    [
        ({}, NO_ARGS, "", SAMPLE),
        ({}, NO_ARGS, "true", CI),
        ({}, ARGS, "", WHOLE),
        ({}, ARGS, "true", WHOLE),
        ({"keyword": "crc"}, NO_ARGS, "", WHOLE),
        ({"all_variants": True}, NO_ARGS, "true", WHOLE),
        ({"tier": CI}, NO_ARGS, "", CI),
        ({"tier": SAMPLE}, ARGS, "true", SAMPLE),
    ],
)
def test_asked(
    given: dict[str, Any],
    source: pytest.Config.ArgsSource,
    in_ci: str,
    tier: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sample where nothing is asked for, more in CI; who names a room gets all of it."""
    monkeypatch.setenv("CI", in_ci)
    names = ("tier", "keyword", "markexpr", "all_variants", "costs", "update_golden")
    option = SimpleNamespace(**{**dict.fromkeys(names), **given})
    config: Any = SimpleNamespace(
        option=option, args_source=source, getoption=lambda name: getattr(option, name)
    )
    tiers.settle(config)
    assert tier == config.option.tier


def test_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured is read again; each function is a line, and those of other files stay."""
    monkeypatch.setattr(tiers, "COSTS", tmp_path / "costs.tsv")
    tiers.costs.cache_clear()
    try:
        tiers.write({"a::other": 4.0, "b::gone": 1.0})
        tiers.costs.cache_clear()
        tiers.write({"b::two[1]": 1.0, "b::two[2]": 2.0, "b::one": 0.5, "b::nothing": 0.001})
        tiers.costs.cache_clear()
        found = {"a::other": Cost(1, 4.0), "b::one": Cost(1, 0.5), "b::two": Cost(2, 3.0)}
        assert found == tiers.costs()
    finally:
        tiers.costs.cache_clear()


def test_costs_are_of_tests() -> None:
    """No line of the costs outlives its test, and most of what is long is known."""
    gone = []
    for name in tiers.costs():
        file, _, function = name.partition("::")
        path = ROOT / file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        called = function.rpartition("::")[2].strip("()")  # (a fixture)
        if not re.search(rf"^(async )?def {called}\(", text, re.MULTILINE):
            gone.append(name)
    assert [] == gone
    assert len(tiers.costs()) > 300
