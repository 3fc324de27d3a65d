"""All mutants in one tree, each behind a switch, so that modules are loaded once for all of them.

`switched` puts each change of a function into the source: `(new if mutant_is_on(7) else old)`. The
switch is set by the environment, in every process that a test starts. `Reached` is a pytest plugin
that notes which tests come by which switch; `Tried` forks a process for each mutant, from one that
has collected all tests, and runs there those that come by.
"""

from __future__ import annotations

import builtins
import contextlib
import json
import os
import resource
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.mutants import Mutant, function_line

ON: Final = "RMQTOOL_MUTANT"
SEEN: Final = "RMQTOOL_MUTANTS_SEEN"
NOW: Final = "now"  # file with the name of the test that runs
SWITCH: Final = """
def _switch():
    import builtins, os
    on, folder = int(os.environ.get("RMQTOOL_MUTANT", "-1")), os.environ.get("RMQTOOL_MUTANTS_SEEN")
    seen = {}

    def note(number):
        test = os.environ.get("PYTEST_CURRENT_TEST", "")
        if seen.get(number) != test:
            seen[number] = test
            try:
                with open(folder + "/now") as now, open(f"{folder}/seen-{os.getpid()}", "a") as out:
                    out.write(f"{number}\\t{now.read()}\\n")
            except OSError:
                pass
        return False

    if not hasattr(builtins, "mutant_is_on"):
        builtins.mutant_is_on = note if folder else lambda number: number == on

_switch()
"""
MORE_CPU: Final = 20, 5  # seconds that a test may take, and times what it took
MORE_TIME: Final = 240, 10  # a mutant that waits for ever is not hurried by a busy machine


def switched(mutants: Sequence[Mutant]) -> set[int]:
    """Put mutants of functions into the tree here; give the numbers of those that went in.

    What kernels compile and what is done once, when a module is imported, cannot be switched.
    """
    inside: set[int] = set()
    order = sorted(enumerate(mutants), key=lambda one: (one[1].path, -one[1].begin))
    for number, mutant in order:
        path = Path(mutant.path)
        if "kernels" in path.stem or path.stem == "probe" or not function_line(mutant):
            continue
        source = path.read_text(encoding="utf-8")
        changed = mutant._replace(after=_switched(mutant, number)).applied(source)
        with contextlib.suppress(SyntaxError):  # a pattern of `match` has no condition
            compile(changed, mutant.path, "exec")
            path.write_text(changed, encoding="utf-8")
            inside.add(number)
    package = Path("rmqtool/__init__.py")
    package.write_text(package.read_text(encoding="utf-8") + SWITCH, encoding="utf-8")
    return inside


def _switched(mutant: Mutant, number: int) -> str:
    if mutant.after == "pass":
        return f"if not mutant_is_on({number}): {mutant.before}"
    old, new = mutant.before, mutant.after
    if old.startswith("return "):
        return f"return ({new[7:]} if mutant_is_on({number}) else ({old[7:]}))"
    return f"({new} if mutant_is_on({number}) else ({old}))"


class Ran(NamedTuple):
    """What one test does.

    Attributes:
        name: of the test.
        seconds: it takes.
        numbers: of the mutants that it comes by.
    """

    name: str
    seconds: float
    numbers: list[int]


class Reached:
    """A pytest plugin that notes which tests come by which switch.

    Args:
        folder: for its files.
        but: tests that run elsewhere.
    """

    def __init__(self, folder: Path, but: Collection[str]) -> None:
        self._folder, self._but = folder, but

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what runs elsewhere."""
        items[:] = [item for item in items if item.nodeid not in self._but]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Say to all processes which test runs."""
        self._say(item.nodeid)
        begin = time.perf_counter()
        result = yield
        with (self._folder / "ran").open("a") as file:
            names = [*getattr(item, "fixturenames", ())]
            line = [item.nodeid, round(time.perf_counter() - begin, 3), names]
            file.write(json.dumps(line) + "\n")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        """What serves many tests is done for each of them."""
        if fixturedef.scope == "function":
            return (yield)
        before = (self._folder / NOW).read_text()
        self._say(f"fixture {fixturedef.argname}")
        os.environ["PYTEST_CURRENT_TEST"] = fixturedef.argname
        try:
            return (yield)
        finally:
            self._say(before)
            os.environ["PYTEST_CURRENT_TEST"] = before

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Only what passes can notice a change."""
        if report.failed:
            with (self._folder / "failed").open("a") as file:
                file.write(report.nodeid + "\n")

    def _say(self, name: str) -> None:
        (self._folder / NOW).write_text(name)


def reached(folder: Path) -> dict[str, Ran]:
    """Read what `Reached` has noted."""
    by: defaultdict[str, set[int]] = defaultdict(set)
    for file in folder.glob("seen-*"):
        for line in file.read_text().splitlines():
            number, _, name = line.partition("\t")
            by[name].add(int(number))
    failed = folder / "failed"
    broken = {*failed.read_text().splitlines()} if failed.exists() else set()
    found = {}
    for line in (folder / "ran").read_text().splitlines():
        name, seconds, fixtures = json.loads(line)
        if name not in broken:
            numbers = by[name].union(*(by[f"fixture {fixture}"] for fixture in fixtures))
            found[name] = Ran(name, seconds, sorted(numbers))
    return found


class Tried:
    """A pytest plugin that runs, in place of all tests, those of each mutant in a child.

    A test that takes far longer with a change than without has noticed it.

    Args:
        wanted: the tests of each mutant, fastest first.
        took: seconds of each test when nothing was changed.
        told: is given each outcome: number, test that fails or "", seconds.
        at_once: how many children run.
    """

    def __init__(
        self,
        wanted: dict[int, list[str]],
        took: dict[str, float],
        told: Callable[[int, str, float], None],
        at_once: int = 2,
    ) -> None:
        self._wanted, self._took = wanted, took
        self._told, self._at_once = told, at_once
        self._running: dict[int, tuple[int, float, int, str]] = {}
        self._sound: dict[str, bool] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try all."""
        items = {item.nodeid: item for item in session.items}
        for number, names in self._wanted.items():
            while len(self._running) >= self._at_once:
                self._wait(items)
            self._start(number, [items[name] for name in names if name in items])
        while self._running:
            self._wait(items)
        return True

    def _start(self, number: int, items: list[pytest.Item]) -> None:
        reading, writing = os.pipe()
        child = os.fork()
        if child:
            os.close(writing)
            first = items[0].nodeid if items else ""
            self._running[child] = (number, time.perf_counter(), reading, first)
            return
        os.setsid()
        with Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        os.environ[ON] = str(number)
        builtins.mutant_is_on = lambda one: one == number  # type: ignore[attr-defined]
        with contextlib.suppress(BaseException):
            for item, following in zip(items, [*items[1:], None], strict=True):
                os.write(writing, f"{item.nodeid}\n".encode())
                _limit(self._took[item.nodeid])
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if item.session.testsfailed:
                    os._exit(1)
            os._exit(0)
        os._exit(1)

    def _wait(self, items: dict[str, pytest.Item]) -> None:
        child, status = os.wait()
        if child not in self._running:
            return
        number, begin, reading, first = self._running.pop(child)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        with open(reading, encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            last = file.read().rstrip("\n").rpartition("\n")[2]
        failed = last if status else ""
        # What was too slow after others, whose threads no fork has, may not be so alone.
        is_again = os.WIFSIGNALED(status) and failed != first
        if failed and (is_again or not self._is_sound(items[failed])):
            at = self._wanted[number].index(failed)
            rest = self._wanted[number][at if is_again else at + 1 :]
            self._start(number, [items[name] for name in rest if name in items])
            return
        self._told(number, failed, time.perf_counter() - begin)

    def _is_sound(self, item: pytest.Item) -> bool:
        """Say whether a test passes here without any change."""
        if item.nodeid not in self._sound:
            running, self._running = self._running, {}
            self._start(-1, [item])
            child = next(iter(self._running))
            _, status = os.waitpid(child, 0)
            os.close(self._running[child][2])
            self._running = running
            self._sound[item.nodeid] = status == 0
        return self._sound[item.nodeid]


def _limit(seconds: float) -> None:
    """Let a test take some times what it took, from now on; the signals' default is to end."""
    least, times = MORE_CPU
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime + least + times * seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
    least, times = MORE_TIME
    signal.alarm(int(least + times * seconds))
