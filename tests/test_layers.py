"""Imports go one way, modules stand in no circle, and packages have one owner."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.imports import Import, imports, modules

# The house, ground floor first: a room knows rooms of lower floors only, and none of its own.
FLOORS = (
    {"plural"},
    {"errors", "engine", "budget", "memory", "times", "rows"},
    {"table"},
    {"findings"},
    {"ranges", "clock", "formats", "languages"},
    {"broker"},
    {"store"},
    {"writing"},
    {"machine", "archives"},
    {"queues", "many_files"},
    {"scan", "info"},
    {"judge"},
    {"derive", "tables"},
    {"ledger"},
    {"check"},
    {"rebuild", "query"},
    {"startup"},
    {"repair", "diff"},
    {"doctor"},
    {"reads", "render"},
    {"spark", "sql"},
    {"carve"},
    {"report", "relog"},
    {"messages"},
    {"sending"},
    {"browse"},
    {"dictionary"},
    {"cli", "library"},
)
# Who may hold what the log wants against what is there: `ledger` alone. These know both, too.
RUNS = {f"rmqtool.{name}" for name in ("derive.queue_runs", "derive.runs", "derive.run_pool")}
KNOW_BOTH = {
    "rmqtool.rebuild.work",  # it writes what the log wants
    "rmqtool.query.unflushed_units",  # units out of runs: nothing is compared
}
RANK = {room: number for number, floor in enumerate(FLOORS) for room in floor}
OWNERS = {
    "typer": "cli", "rich": "render", "pyspark": "spark", "pandas": "spark",
    "duckdb": "sql",
    "textual": "browse", "drawsvg": "report", "jinja2": "report", "markupsafe": "report",
}  # fmt: skip
HEAVY = {"numpy", "numba", "llvmlite", "pyarrow", "pandas", "pyspark", "textual"}


def layer(module: str) -> str:
    """Give the second word of a module's name: `rmqtool.store.tree` is in `store`."""
    return module.split(".")[1] if "." in module else ""


def is_allowed(one: Import) -> bool:
    """Say whether an import within rmqtool goes down, or stays in its room."""
    importer, imported = layer(one.importer), layer(one.imported)
    if importer in {"", "__main__"} or imported in {"", importer}:
        return True
    return RANK[imported] < RANK[importer]


def test_direction() -> None:
    """No module imports from its own floor or above: cli -> ... -> formats -> errors."""
    within = [one for one in imports() if one.imported.startswith("rmqtool")]
    assert [] == [one for one in within if not is_allowed(one)]


def test_ledger() -> None:
    """Runs of the log are compared with units of queues in the ledger; no room begins to."""
    known: dict[str, set[str]] = {}
    for one in imports():
        known.setdefault(one.importer, set()).add(one.imported)
    both = {
        name
        for name, imported in known.items()
        if imported & RUNS and any(other.startswith("rmqtool.queues.") for other in imported)
    }
    assert KNOW_BOTH == {name for name in both if layer(name) != "ledger"}


def test_circles() -> None:
    """No two modules know each other, on whatever way round: lazily, or for their types only."""
    known: dict[str, set[str]] = {name: set() for name, _ in modules()}
    for one in imports():
        if one.imported in known and one.imported != one.importer:
            known[one.importer].add(one.imported)
    assert [] == circles(known)


def test_sees_circles() -> None:
    """A circle is seen whatever its length; a module that is only reached from one is none."""
    known = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    known["g"] = set()
    assert [{"a", "b", "c"}, {"d", "e"}] == circles(known)


def circles(known: dict[str, set[str]]) -> list[set[str]]:
    """Give the sets of modules of which each knows, directly or not, each."""
    reached = {name: _reached(known, name) for name in known}
    found: list[set[str]] = []
    for name, others in reached.items():
        if name in others and not any(name in circle for circle in found):
            found.append({one for one in others if name in reached[one]})
    return found


def _reached(known: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(known[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += known[name]
    return found


def test_owners() -> None:
    """typer, rich and pyspark are each imported by one layer only."""
    assert [] == [
        one
        for one in imports()
        if (owner := OWNERS.get(one.imported.split(".")[0])) and layer(one.importer) != owner
    ]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["dump", "--help"]], ids=" ".join)
def test_light(arguments: list[str]) -> None:
    """What a person types first does not pay for the libraries of the bulk work."""
    program = (
        "import sys; from rmqtool.cli.main import main; code = main(sys.argv[1:]);"
        "print(code, *sys.modules, file=sys.stderr)"
    )
    run = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    code, *loaded = run.stderr.split()
    assert ("0", set()) == (code, HEAVY & set(loaded))
