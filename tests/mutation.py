"""Change single lines of rmqtool at random, and ask the tests whether they notice.

    python -m tests.mutation [--seed 1] [--count 200] [--calls FILE] [--out FILE] [--whole]

1. A clone of HEAD is made; nothing else is touched.
2. The quick tier runs once and notes which functions each test calls (`--calls` keeps that). A
   test is taken to call the kernels it runs with their pieces, and what its fixtures call.
3. Each mutant changes one line: a comparison, an operator, a number, a boolean, a statement. The
   quick tests that call the function run, fastest first, until one fails.
4. What survives meets the tests of its own room and those that import its module, for a limited
   time, but for tests that need a JVM. A test that fails without the change, too, does not count.

`--whole` asks the whole suite: with all mutants in one tree (`tests/switches.py`) the cases that CI
runs note which mutants they come by; then each mutant meets those tests, the quick ones first, as
far as `--seconds` allow. What survives meets all cases that CI leaves out, in the same way: what
they find, CI would not. Then come the tests that need a JVM, as CI chooses them, in processes of
their own. What cannot be switched, kernels and what modules do when they are imported, goes the way
above.

Each outcome is a line of JSON in `--out`, the last one of a mutant counts; a tier that is there is
not asked again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pytest

from tests.mutants import Mutant, function_line, mutants_of
from tests.mutants_asked import LATE, NEED_MORE, forked, outcomes, whole

if TYPE_CHECKING:
    from rmqtool.machine.compiled import Kernel  # each child loads its own

ROOT: Final = Path(__file__).parents[1]
CLONE: Final = Path(tempfile.gettempdir(), f"rmqtool-mutation-{os.getpid()}")
FAILED: Final = CLONE / "failed-test"
QUICK_SECONDS: Final = 60  # of tests for one mutant, as they took when nothing was changed
ROOM_SECONDS: Final = 100
SLACK: Final = 60  # to start, to compile a kernel, for a machine that has other things to do
PYTEST: Final = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly")


class Called(NamedTuple):
    """What one test of the quick tier does.

    Attributes:
        seconds: it takes.
        functions: `path:line` of each function of rmqtool that it calls.
    """

    seconds: float
    functions: list[str]


class Recorder:
    """A pytest plugin that notes which functions each test calls."""

    def __init__(self) -> None:
        self.tests: dict[str, Called] = {}
        self._seen: set[str] = set()
        self._by_fixture: defaultdict[str, set[str]] = defaultdict(set)
        self._failed: set[str] = set()
        self._names: dict[CodeType | Kernel, frozenset[str]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Watch one test."""
        self._seen, begin = set(), time.perf_counter()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        try:
            result = yield
        finally:
            sys.settrace(None)
        for name in getattr(item, "fixturenames", ()):
            self._seen |= self._by_fixture[name]
        if item.nodeid not in self._failed:
            took = time.perf_counter() - begin
            self.tests[item.nodeid] = Called(round(took, 3), sorted(self._seen))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        """What serves many tests is called for each of them."""
        outside, self._seen = self._seen, set()
        try:
            result = yield
        finally:
            if fixturedef.scope != "function":
                self._by_fixture[fixturedef.argname] |= self._seen
            self._seen |= outside
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Only what passes can notice a change."""
        if not report.passed:
            self._failed.add(report.nodeid)

    def _trace(self, frame: FrameType, _event: str, _argument: object) -> None:
        code = frame.f_code
        if (names := self._names.get(code)) is None:
            names = self._names[code] = frozenset(_name(code))
        self._seen.update(names)
        if code.co_qualname == "Kernel.__call__":
            kernel = frame.f_locals["self"]
            if kernel not in self._names:
                self._names[kernel] = frozenset(_pieces(kernel))
            self._seen.update(self._names[kernel])


def _name(code: CodeType) -> Iterator[str]:
    path = Path(code.co_filename)
    if path.is_relative_to(CLONE / "rmqtool"):
        yield f"{path.relative_to(CLONE)}:{code.co_firstlineno}"


def _pieces(kernel: Kernel) -> set[str]:
    """Name a kernel and all pieces that its module and theirs know."""
    names: set[str] = set()
    left: list[Any] = [kernel]
    while left:
        function = left.pop().function
        if not names.issuperset(name := {*_name(function.__code__)}):
            names |= name
            known = function.__globals__.values()
            left += [one for one in known if type(one).__name__ == "KernelPiece"]
    return names


class Chosen:
    """A pytest plugin that runs some tests only, in an order."""

    def __init__(self, wanted: Iterable[str], *, are_left_out: bool = False) -> None:
        self._places = {name: place for place, name in enumerate(wanted)}
        self._are_left_out = are_left_out
        self.broken: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Choose, fastest first."""
        items[:] = [
            item
            for item in items
            if (item.nodeid in self._places) != self._are_left_out
            and item.nodeid not in self.broken
        ]
        items.sort(key=lambda item: self._places.get(item.nodeid, 0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell the parent which test fails."""
        if report.failed:
            FAILED.write_text(report.nodeid, encoding="utf-8")


def record(file: Path) -> None:
    """Run the quick tier of the tree here, and keep what its tests call."""

    def run() -> int:
        recorder = Recorder()
        pytest.main(["-q", "-m", "quick", "-p", "no:cacheprovider", "tests"], [recorder])
        file.write_text(json.dumps(recorder.tests), encoding="utf-8")
        return 0

    if forked(run, 3600) != 0 or not file.exists():
        sys.exit("the quick tier could not be watched")


def quick_tests(mutant: Mutant, calls: dict[str, Called]) -> list[str]:
    """Give the tests that call the function of a mutant, fastest first, as far as time allows.

    What lies outside of functions concerns whoever calls one of the file.
    """
    line = function_line(mutant)
    wanted = f"{mutant.path}:{line}" if line else f"{mutant.path}:"
    found: list[str] = []
    total = 0.0
    for name, called in sorted(calls.items(), key=lambda function: function[1].seconds):
        hits = wanted in called.functions or (
            not line and any(function.startswith(wanted) for function in called.functions)
        )
        if hits and total + called.seconds < QUICK_SECONDS:
            found, total = [*found, name], total + called.seconds
    return found


def room_files(path: str) -> list[str]:
    """Give the test files of a module's room, and others that import it; those that do first."""
    folder = Path("tests", *Path(path).parent.parts[1:])
    while not folder.is_dir():
        folder = folder.parent
    module = Path(path).with_suffix("")
    parent, name = ".".join(module.parts[:-1]), module.name
    imports = (f"from {parent}.{name} import", f"from {parent} import {name}")
    files = sorted(Path("tests").rglob("test_*.py"))
    near = [file for file in files if any(text in file.read_text("utf-8") for text in imports)]
    room = [*(folder.glob if folder == Path("tests") else folder.rglob)("test_*.py")]
    found = dict.fromkeys([*near, *sorted(room)])
    return [str(path) for path in found if path.stem != "test_lint"]  # no mutant is well formatted


class Trial:
    """All mutants of one run, each tried with the quick tier first and then with its room.

    Args:
        calls: what the tests of the quick tier call.
        out: file of outcomes, which may have some already.
    """

    def __init__(self, calls: dict[str, Called], out: Path) -> None:
        self._calls, self._out = calls, out
        self._broken: set[str] = set()  # tests that fail here without any change
        self.done: dict[Mutant, dict[str, Any]] = {}
        for outcome in outcomes(out):
            self._keep(outcome)

    def _keep(self, outcome: dict[str, Any]) -> None:
        self.done[Mutant(*(outcome[name] for name in Mutant._fields))] = outcome

    def run(self, mutant: Mutant, tier: str) -> None:
        """Try a mutant with a tier, unless that is done or an earlier one has found it."""
        before = self.done.get(mutant, {"by": "", "tiers": []})
        if before["by"] or tier in before["tiers"]:
            return
        quick, begin = quick_tests(mutant, self._calls), time.perf_counter()
        if tier == "quick":
            files = sorted({name.partition("::")[0] for name in quick})
            found, failed = self._try(mutant, files, Chosen(quick), QUICK_SECONDS + SLACK)
            found = found or failed == LATE  # all of them take less when nothing is changed
        else:
            files, chosen = room_files(mutant.path), Chosen(quick, are_left_out=True)
            found, failed = self._try(mutant, files, chosen, ROOM_SECONDS)
        outcome = {
            **mutant._asdict(),
            "tiers": [*before["tiers"], tier],
            "by": tier if found else "",
            "failed": failed,
            "quick": len(quick),
            "seconds": round(time.perf_counter() - begin, 1),
        }
        self._keep(outcome)
        with self._out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(outcome) + "\n")

    def _try(
        self, mutant: Mutant, files: list[str], chosen: Chosen, seconds: float
    ) -> tuple[bool, str]:
        """Say whether tests fail with the change, and without it do not; and which one fails."""
        path = Path(mutant.path)
        whole = path.read_text(encoding="utf-8")
        until = time.monotonic() + seconds
        while files:
            _write(path, mutant.applied(whole))
            try:
                code = self._tests(files, chosen, until - time.monotonic())
            finally:
                _write(path, whole)
            failed = FAILED.read_text(encoding="utf-8") if FAILED.exists() else ""
            FAILED.unlink(missing_ok=True)
            if code in {0, 5} or code is None:
                return False, "" if code is not None else LATE
            if not failed or self._tests([failed.partition("::")[0]], Chosen([failed]), SLACK) == 0:
                return True, failed or "it cannot be imported"
            chosen.broken.add(failed)
        return False, ""

    def _tests(self, files: list[str], chosen: Chosen, seconds: float) -> int | None:
        chosen.broken = self._broken
        return forked(
            lambda: int(pytest.main([*PYTEST, "-m", NEED_MORE, *files], [chosen])), seconds
        )


def _write(path: Path, source: str) -> None:
    """Change a module; its bytecode would count for any of the same size and second."""
    path.write_text(source, encoding="utf-8")
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def main() -> int:
    """Say how many of the mutants are found, and by whom."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--revision", default="HEAD", help="which tree; --calls belongs to it")
    parser.add_argument("--calls", type=Path, default=Path("mutation-calls.json"))
    parser.add_argument("--out", type=Path, default=Path("mutation.jsonl"))
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--seconds", type=float, default=120, help="of tests, with --whole")
    given = parser.parse_args()
    out, calls_file, tree = given.out.absolute(), given.calls.absolute(), given.revision
    for command in (
        ["clone", "-q", "--shared", ROOT, CLONE],
        ["-C", CLONE, "checkout", "-q", tree],
    ):
        subprocess.run(["git", *command], check=True)  # noqa: S603, S607
    try:
        os.chdir(CLONE)
        sys.path.insert(0, str(CLONE))
        os.environ["PYTHONPATH"] = str(CLONE)
        for name in [
            module for module in sys.modules if module.partition(".")[0] in {"tests", "rmqtool"}
        ]:
            del sys.modules[name]  # a child loads those of the clone
        dice = np.random.default_rng(given.seed)
        mutants = mutants_of(Path("rmqtool"), dice, given.count)
        left = whole(mutants, out, given.seconds) if given.whole else mutants
        if not calls_file.exists():
            record(calls_file)
        calls = {
            name: Called(*module) for name, module in json.loads(calls_file.read_text()).items()
        }
        trial = Trial(calls, out)
        for tier in ("quick", "room"):
            for mutant in left:
                trial.run(mutant, tier)
    finally:
        shutil.rmtree(CLONE)
    counts = Counter(module["by"] for module in trial.done.values())
    late = sum(not module["by"] and module["failed"] == LATE for module in trial.done.values())
    print(f"{len(trial.done)} mutants: {counts['quick']} found by the quick tier,", end=" ")  # noqa: T201
    more = counts["room"] + counts["whole"]
    print(f"{more} more by others, {counts['']} survive ({late} out of time)")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
