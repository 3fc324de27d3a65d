"""Which tests a worker of pytest-xdist runs in one go, and in which order that is handed out.

As with `--dist loadscope` the tests of a file stay together, since they share what is costly. Here
the files that ask for the Spark session are one scope, so that one worker starts one. What takes
longest is handed out first: no worker is left alone with it at the end.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from rmqtool.engine import default_jobs
from tests.tiers import NOTHING, costs, function

SPARK: Final = "spark"
_ASKS: Final = re.compile(r"\bspark: (SparkSession|object)\b")  # others start their own processes
_WITH_SPARK: Final = "tests/cli/test_manual.py::test_examples[sql]"
_WITH_STORES: Final = "tests/reads/test_damage_table.py"  # that one of Spark has made


def workers() -> int:
    """Give how many workers keep all processors at work: some wait for brokers and disks."""
    return 5 * default_jobs() // 2


def sharing() -> frozenset[str]:
    """Name the files of which a test asks for the Spark session, or for what is made for one."""
    files = Path(__file__).parent.glob("spark/test_*.py")
    names = (f"tests/spark/{file.name}" for file in files if _ASKS.search(file.read_text("utf-8")))
    return frozenset((_WITH_STORES, *names))


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]  # published without types
    """Hands out files, those that take longest first."""

    def schedule(self) -> None:
        """Find out what shares a session; then as ever."""
        self._sharing = sharing()
        self._seconds: dict[str, float] = {}
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        scope = nodeid.split("::", 1)[0]
        return SPARK if scope in self._sharing or nodeid == _WITH_SPARK else scope

    def _assign_work_unit(self, node: WorkerController) -> None:
        first = max(self.workqueue, key=self._seconds_of)  # of equal ones that with the most tests
        self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)

    def _seconds_of(self, scope: str) -> float:
        if scope not in self._seconds:
            names = map(function, self.workqueue[scope])  # of the cases that the tier has chosen
            self._seconds[scope] = sum(costs().get(name, NOTHING).of_case for name in names)
        return self._seconds[scope]
