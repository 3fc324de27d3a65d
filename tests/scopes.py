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

SPARK: Final = "spark"
# Files of tests/spark that ask for the session; others need none, or start processes of their own.
_SHARE: Final = tuple(
    f"tests/spark/test_{name}.py"
    for name in ("engine", "export", "fleet", "hostile", "rocksdb", "source", "sql")
)
_WITH_SPARK: Final = "tests/cli/test_manual.py::test_examples[sql]"
# From what takes longest in one piece.
_FIRST: Final = (
    SPARK,
    "tests/spark/test_cluster.py",
    "tests/spark/test_bytes_read.py",
    "tests/spark/test_connect.py",
    "tests/spark/test_executors.py",
    "tests/messages/test_broker.py",
    "tests/diff/test_master_slave.py",
    "tests/diff/test_controller.py",
    "tests/test_lint.py",
    "tests/repair/broker/",
    "tests/broker/",
    "tests/startup/",
    "tests/relog/",
    "tests/test_readme.py",
    "tests/check/test_running.py",
    "tests/check/test_flips.py",
    "tests/repair/test_damage.py",
    "tests/hostile/",
    "tests/spark/",
    "tests/packaging/",
    "tests/doctor/test_real",
    "tests/cli/test_remote_stores.py",
    "tests/store/test_edit_faults.py",
)


def workers() -> int:
    """Give how many workers keep all processors at work: some wait for brokers and disks."""
    return 2 * default_jobs()


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]  # published without types
    """Hands out files, those that take longest first."""

    def _split_scope(self, nodeid: str) -> str:
        scope = nodeid.split("::", 1)[0]
        return SPARK if scope in _SHARE or nodeid == _WITH_SPARK else scope

    def _assign_work_unit(self, node: WorkerController) -> None:
        first = min(self.workqueue, key=_rank)  # of equal ones that with the most tests
        self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)


def _rank(scope: str) -> int:
    found = (number for number, begin in enumerate(_FIRST) if scope.startswith(begin))
    return next(found, len(_FIRST))
