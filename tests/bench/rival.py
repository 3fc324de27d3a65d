"""The real broker as a rival: loading and dispatching a log, in two kinds of JVM.

A broker's seconds depend on the JVM as much as on the broker. `C1` is a JVM that compiles with its
first compiler only, as is usual in tests: with it a 4.9.3 broker loads 2 GiB in 4.0 to 6.2 s and
rebuilds it in 10 s, a 5.3.3 broker in 22 to 28 s; the targets were set against these figures. `C2`
has all optimisations, and the collector with which a broker was the fastest: with the options of
its own start script (`runbroker.sh`) 4.9.3 takes 1.7 to 2.1 s instead of 1.7.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from tests.bench.store_builder import GIB
from tests.broker.bare_store import BareStore
from tests.broker.jvm import Jvm

JVMS: Final = {
    "C1": (),
    "C2": ("-Xmx4g", "-XX:MaxDirectMemorySize=4g", "-XX:TieredStopAtLevel=4"),
}
SETTINGS: Final = {
    "mappedFileSizeCommitLog": GIB,
    "commitLogRecoverMaxNum": 1000,  # 5.4 and later dispatch the newest ten only
    "fileReservedTime": 500_000,  # hours
}


class Times(NamedTuple):
    """Seconds that a broker took.

    Attributes:
        load: for `load` alone: recovery, which checks the CRC of each body and nothing else.
        all: until all of the log is dispatched, `load` included.
    """

    load: float
    all: float


@contextmanager
def bare_log(store: Path, directory: Path, *, abort: bool) -> Iterator[Path]:
    """Give a store that has the log of another, by hard links, and nothing else."""
    root = directory / "broker"
    (root / "commitlog").mkdir(parents=True)
    for path in (store / "commitlog").iterdir():
        (root / "commitlog" / path.name).hardlink_to(path)
    if abort:
        (root / "abort").touch()
    try:
        yield root
    finally:
        shutil.rmtree(root)


def broker(
    version: str,
    kind: str,
    where: tuple[Path, Path],
    *,
    abort: bool,
    dispatches: bool,
    settings: Mapping[str, object] = MappingProxyType({}),
) -> Times:
    """Let a broker load a log that has neither queues nor index, and dispatch it.

    Args:
        version: of the broker.
        kind: of the JVM, which runs already when the clock starts.
        where: the store whose log it is; an empty directory on the same file system.
        abort: as after a crash.
        dispatches: whether it dispatches, too.
        settings: of its broker.conf, beside `SETTINGS`.
    """
    store, directory = where
    with (
        bare_log(store, directory, abort=abort) as root,
        Jvm(version, directory / f"home-{version}", options=JVMS[kind]) as jvm,
    ):
        bare = BareStore(jvm, root, {**SETTINGS, **settings})
        start = time.perf_counter()
        assert bare.load()
        loaded = time.perf_counter() - start
        if dispatches:
            bare.start()
        return Times(loaded, time.perf_counter() - start)
