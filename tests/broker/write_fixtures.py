"""Let real brokers write the fixtures anew: `python -m tests.broker.write_fixtures`."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

from tests.broker import scenarios
from tests.broker.broker import running_broker
from tests.broker.fixture_files import Origin, write_fixture
from tests.broker.jars import LATEST, VERSIONS
from tests.broker.message import Sent
from tests.broker.scenarios.stage import Scenario, Stage

FIXTURES: Final = Path(__file__).parents[2] / "fixtures"


def all_scenarios() -> dict[str, Scenario]:
    """Return each scenario by name: those of every module of `tests.broker.scenarios`."""
    modules = (
        importlib.import_module(f"{scenarios.__name__}.{module.name}")
        for module in pkgutil.iter_modules(scenarios.__path__)
    )
    return {scenario.name: scenario for module in modules for scenario in _scenarios(module)}


def _scenarios(module: ModuleType) -> tuple[Scenario, ...]:
    one = getattr(module, "SCENARIO", None)
    return getattr(module, "SCENARIOS", ()) if one is None else (one,)


def write(version: str, scenario: Scenario, into: Path = FIXTURES) -> Path:
    """Run one scenario on a broker of one version; return the fixture that was written."""
    with _home() as home:
        sent: list[Sent] = []
        if scenario.begin is not None:
            with running_broker(version, home, scenario.settings, ipv6=scenario.ipv6) as broker:
                scenario.begin(Stage(broker, sent))
        with running_broker(version, home, scenario.settings, ipv6=scenario.ipv6) as broker:
            scenario.play(Stage(broker, sent))
            if scenario.crash:
                broker.crash()
        origin = Origin(
            version=version,
            scenario=scenario.name,
            summary=scenario.summary,
            stopped="crash" if scenario.crash else "clean",
            settings=broker.settings,
        )
        directory = into / f"rocketmq-{version}-{scenario.name}"
        write_fixture(directory, home, origin, sent)
    return directory


@contextmanager
def _home() -> Iterator[Path]:
    """Make the same home each time, for RocksDB writes its name into the store."""
    home = Path(tempfile.gettempdir()) / "rmqtool-fixture"
    home.mkdir()  # fails while another run goes on, or after one that was killed
    try:
        yield home
    finally:
        shutil.rmtree(home)


def main() -> int:
    """Write all fixtures, or those of one version or one scenario."""
    known = all_scenarios()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", choices=(*VERSIONS, LATEST))
    parser.add_argument("--scenario", choices=sorted(known))
    asked = parser.parse_args()
    for version, scenario in _chosen(known, asked.version, asked.scenario):
        begun = time.monotonic()
        directory = write(version, scenario)
        sys.stderr.write(f"{directory.name}: {time.monotonic() - begun:.0f} s\n")
    return 0


def _chosen(
    known: dict[str, Scenario], version: str | None, name: str | None
) -> Iterator[tuple[str, Scenario]]:
    for scenario in known.values():
        if name in {None, scenario.name}:
            for one in scenario.versions:
                if version in {None, one}:
                    yield one, scenario


if __name__ == "__main__":
    sys.exit(main())
