"""Which tests run, by what they cost.

| asked for by | what runs |
|---|---|
| `pytest -m quick` | what needs neither Java nor more than a moment, one process, under a minute |
| `pytest` | a sample of all: five minutes on two cores |
| `pytest --tier ci`, or with CI=true | every function, as many cases as take 4 s |
| `pytest --tier whole`; with a path, -k or -m | every test |
| `pytest --all-variants` | all combinations, too |

The sample runs each test function with as many of its cases as it may cost, at least one. Each
fixture, damage, release and command is in one case at least, of the function that costs least.
A function of which a single case takes long, with the fixtures of its file, is left out, and
counted. CI chooses in the same way, leaves none out, and runs each case of a function that is
marked `every_case`.

`costs.tsv` has what each function takes, and each `(fixture)` that the tests of a file share; what
is not in it costs next to nothing, or is new.
`pytest --costs`, on a machine that does nothing else, writes it, or the lines of a room.
"""

from __future__ import annotations

import math
import os
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

COSTS: Final = Path(__file__).with_name("costs.tsv")
SAMPLE: Final = "sample"
CI: Final = "ci"
WHOLE: Final = "whole"
NEED_MORE: Final = frozenset({"spark", "broker", "browser", "all_variants"})
QUICK_SECONDS: Final = 0.2  # of all cases of a function of the quick tier
MENTIONED: Final = 0.05  # less is not kept
LONG_SECONDS: Final = 4.0  # of one case: left to CI
SAMPLE_SECONDS: Final = 0.3  # of all cases of a function in the sample, if it has several
CI_SECONDS: Final = 4.0  # likewise, in CI
EVERY_CASE: Final = "every_case"
EACH_VALUE: Final = frozenset({"fixture", "damage", "version", "release", "scenario", "command"})


class Cost(NamedTuple):
    """What a test function takes.

    Attributes:
        cases: how many it had.
        seconds: of all of them, with what is set up for them.
    """

    cases: int
    seconds: float

    @property
    def of_case(self) -> float:
        """Seconds of one."""
        return self.seconds / self.cases


NOTHING: Final = Cost(1, 0.0)


@cache
def costs() -> dict[str, Cost]:
    """Read what is known."""
    lines = COSTS.read_text(encoding="utf-8").splitlines() if COSTS.exists() else []
    fields = (line.split("\t") for line in lines)
    return {name: Cost(int(cases), float(seconds)) for name, cases, seconds in fields}


def function(nodeid: str) -> str:
    """Give the name of a test function, without the case."""
    return nodeid.partition("[")[0]


# ---- which tier ---------------------------------------------------------------------------------


def add_options(parser: pytest.Parser) -> None:
    """Add what is asked for on the command line."""
    parser.addoption("--tier", choices=(SAMPLE, CI, WHOLE), help="a sample, what CI runs, or all")
    parser.addoption("--costs", action="store_true", help="measure what each test takes, for tiers")


def settle(config: pytest.Config) -> None:
    """Say which tier is meant, for the workers too, who are asked in another way."""
    if config.option.tier is None:
        is_plain = config.args_source is not pytest.Config.ArgsSource.ARGS
        options = ("keyword", "markexpr", "all_variants", "costs", "update_golden")
        is_whole = any(map(config.getoption, options))
        tier = CI if os.environ.get("CI") else SAMPLE
        config.option.tier = tier if is_plain and not is_whole else WHOLE
    if config.option.costs and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Measured())


def header(config: pytest.Config) -> str:
    """Say in a line which tests run."""
    if config.option.tier == WHOLE:
        return "tier: all tests"
    if config.option.tier == CI:
        return f"tier: CI, at most {CI_SECONDS:.0f} s of a function; all tests: pytest --tier whole"
    long = sum(cost.of_case > LONG_SECONDS for name, cost in costs().items() if "(" not in name)
    return f"tier: a sample of all but {long} long tests; all tests: pytest --tier whole"


def is_quick(item: pytest.Item) -> bool:
    """Say whether a test is of the quick tier."""
    cost = costs().get(function(item.nodeid), NOTHING)
    return cost.seconds <= QUICK_SECONDS and not NEED_MORE & {*item.keywords}


def ci(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Give the cases that CI runs, in the order of the items."""
    return sample(items, CI_SECONDS, math.inf)


def sample(
    items: list[pytest.Item], seconds: float = SAMPLE_SECONDS, longest: float = LONG_SECONDS
) -> Iterator[pytest.Item]:
    """Give the cases of a sample, in the order of the items.

    Args:
        items: all cases.
        seconds: that all cases of a function may take.
        longest: that one case may take.
    """
    of_function: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        of_function[function(item.nodeid)].append(item)
    within = {
        name: cases
        for name, cases in of_function.items()
        if costs().get(name, NOTHING).of_case + _shared(cases[0]) <= longest
    }
    wanted = {value for item in items for value in _values(item)}
    chosen: set[pytest.Item] = set()
    for name, cases in within.items():
        chosen.update(_chosen(name, cases, wanted, seconds))
    by_cost = sorted(within, key=lambda name: costs().get(name, NOTHING).of_case)
    for name in by_cost:  # a value that no case has yet comes with the one that costs least
        for item in within[name]:
            if new := {*_values(item)} & wanted:
                wanted -= new
                chosen.add(item)
    return (item for item in items if item in chosen)


def _shared(item: pytest.Item) -> float:
    """Give the seconds that the shared fixtures of a test take, which are those of its file."""
    file = item.nodeid.partition("::")[0]
    names = (f"{file}::({name})" for name in getattr(item, "fixturenames", ()))
    return sum(costs().get(name, NOTHING).of_case for name in names)


def _chosen(
    name: str, cases: list[pytest.Item], wanted: set[str], seconds: float
) -> list[pytest.Item]:
    """Choose as many cases of a function as it may cost; first those with what is wanted.

    Args:
        name: of the function.
        cases: all of them.
        wanted: values that no case has yet; those that one has are taken out.
        seconds: that all of them may take.
    """
    cost = costs().get(name, NOTHING)
    most = len(cases)
    if cost.seconds > seconds and not (seconds == CI_SECONDS and EVERY_CASE in cases[0].keywords):
        most = min(most, max(1, int(seconds / cost.of_case)))
    if most == len(cases):
        for item in cases:
            wanted -= {*_values(item)}
        return cases
    begin = zlib.crc32(name.encode()) % len(cases)
    left = [*cases[begin:], *cases[:begin]]
    left = left[:: max(1, len(cases) // most)] + left  # evenly, then any
    chosen: list[pytest.Item] = []
    while len(chosen) < most:
        best = max(left, key=lambda item: len({*_values(item)} & wanted))
        left = [item for item in left if item is not best]
        wanted -= {*_values(best)}
        chosen.append(best)
    return chosen


def _values(item: pytest.Item) -> list[str]:
    """Name each parameter of which each value counts with its value, the same in each process."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return []
    found = []
    for name in EACH_VALUE & callspec.params.keys():
        value = callspec.params[name]
        text = getattr(value, "name", value)
        is_plain = isinstance(text, str | int | bool)
        found.append(f"{name}={text if is_plain else callspec.indices[name]}")
    return found


# ---- costs --------------------------------------------------------------------------------------


class Measured:
    """A pytest plugin that writes `costs.tsv`."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        """Add what a fixture of a file took; workers do not tell: measure in one process."""
        begin = time.perf_counter()
        try:
            return (yield)
        finally:
            if fixturedef.scope == "module" and fixturedef.baseid.endswith(".py"):
                name = f"{fixturedef.baseid}::({fixturedef.argname})"
                self._seconds[name] += time.perf_counter() - begin

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a phase of a test took."""
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write all, those that take longest first."""
        write(self._seconds)


def write(seconds: Mapping[str, float]) -> None:
    """Write what each function takes; what is known of other files stays.

    Args:
        seconds: of each case, by its name.
    """
    cases = Counter(map(function, seconds))
    files = {name.partition("::")[0] for name in cases}
    others = {name: cost for name, cost in costs().items() if name.partition("::")[0] not in files}
    total: defaultdict[str, float] = defaultdict(float)
    for name, cost in seconds.items():
        total[function(name)] += cost
    taken = {name: Cost(cases[name], took) for name, took in total.items() if took > MENTIONED}
    lines = [f"{name}\t{cost.cases}\t{cost.seconds:.2f}" for name, cost in (others | taken).items()]
    COSTS.write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")
