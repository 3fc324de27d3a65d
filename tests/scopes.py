"""Which tests a worker of pytest-xdist runs in one go, and in which order that is handed out.

As with `--dist loadscope` the tests of a file stay together, since they share what is costly. Here
the files that ask for the Spark session are one scope, so that one worker starts one. What takes
longest is handed out first: no worker is left alone with it at the end.
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from rmqtool.engine import default_jobs
from tests.tiers import seconds_of_scope

SPARK: Final = "spark"
# Files of tests/spark that ask for the session; others need none, or start processes of their own.
_SHARE: Final = tuple(
    f"tests/spark/test_{name}.py"
    for name in ("engine", "export", "fleet", "hostile", "rocksdb", "source", "sql")
)
_WITH_SPARK: Final = "tests/cli/test_manual.py::test_examples[sql]"


def workers() -> int:
    """Give how many workers keep all processors at work: some wait for brokers and disks."""
    return 2 * default_jobs()


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]  # published without types
    """Hands out files, those that take longest first."""

    def _split_scope(self, nodeid: str) -> str:
        scope = nodeid.split("::", 1)[0]
        return SPARK if scope in _SHARE or nodeid == _WITH_SPARK else scope

    def _assign_work_unit(self, node: WorkerController) -> None:
        first = max(self.workqueue, key=_seconds)  # of equal ones that with the most tests
        self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)


def _seconds(scope: str) -> float:
    files = _SHARE if scope == SPARK else (scope,)
    return sum(map(seconds_of_scope, files))
