"""Parts of a store as tasks, tasks as waves; and the results of a wave, in order.

A wave is one Spark job. Its results are in the memory of the driver at a time, or, on one machine,
on its disk, so a wave is as large as they may be.
"""

from __future__ import annotations

import pickle
from concurrent.futures import wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import lz4.block

from rmqtool.errors import RmqtoolError
from rmqtool.writing.spool import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from concurrent.futures import Future

    import pyarrow as pa

    from rmqtool.writing.spool import Spool

Part = TypeVar("Part")
TASK_BYTES: Final = 512 << 20  # of the log, at most: a task costs some 20 ms, beside its work
POLL_SECONDS: Final = 0.004


@dataclass(slots=True)
class DriverTraffic:
    """What went through the driver."""

    waves: int = 0  # jobs
    tasks: int = 0  # in all of them
    part_bytes: int = 0  # of parts
    result_bytes: int = 0  # of results
    shuffled_bytes: int = 0  # of what came back of shuffles
    largest_in_memory: int = 0  # bytes of results at a time

    def ratio(self, unknown: float) -> float:
        """Give the bytes of results for each byte of the log."""
        return max(self.result_bytes / self.part_bytes, 1e-3) if self.part_bytes else unknown


class Grouped(Generic[Part]):
    """Puts parts together to tasks, and tasks to waves, as they are asked for."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = iter(parts)
        self._next: Part | None = next(self._parts, None)

    def wave(self, groups: int, hands: int, limit: int) -> Dealt:
        """Give the next tasks, about equally large; none when there are no more parts.

        Args:
            groups: of consecutive parts; how many there should be, where parts are small enough.
            hands: tasks that deal with a group together, a part each by turns.
            limit: bytes of parts in all of them, but for one part at least.
        """
        found: list[Part] = []
        taken = 0
        most = min(limit, groups * hands * TASK_BYTES)
        while self._next is not None and (not found or taken + length_of(self._next) <= most):
            found.append(self._next)
            taken += length_of(self._next)
            self._next = next(self._parts, None)
        return dealt(grouped(found, taken / groups), hands)


class Dealt(NamedTuple):
    """Parts as tasks."""

    tasks: list[list[Any]]  # parts of each
    order: list[tuple[int, int]]  # task, and place in it, of each part, in the order of the parts


def dealt(groups: Iterable[Sequence[Any]], hands: int) -> Dealt:
    """Let tasks have the parts of each group by turns.

    Results are used in the order of the parts. Where tasks that run at a time have parts next to
    each other, little is left to use when the last of them ends.
    """
    found = Dealt([], [])
    for group in groups:
        first = len(found.tasks)
        found.order.extend((first + n % hands, n // hands) for n in range(len(group)))
        found.tasks.extend(list(group[n::hands]) for n in range(min(hands, len(group))))
    return found


def grouped(parts: Iterable[Part], each: float) -> list[list[Part]]:
    """Put parts together to tasks that end next to multiples of a length."""
    tasks: list[list[Part]] = []
    done, end = 0, 0.0
    for part in parts:
        middle = done + length_of(part) / 2
        if middle >= end:
            tasks.append([])
            while middle >= end:
                end += each
        tasks[-1].append(part)
        done += length_of(part)
    return tasks


def length_of(part: object) -> int:
    """Give the bytes of a part or a segment; of what does not say, those of a small file."""
    return max(int(getattr(part, "length", getattr(part, "size", 1 << 16))), 1)


@dataclass(slots=True)
class Wave:
    """A job that runs, and what it gives."""

    parts: Dealt  # of its tasks, and their order
    spool: Spool | None  # where results are put down; None where they all come through Spark
    job: Future[pa.Table]  # gives the rows of the tasks
    seen: int = 0  # bytes of results so far
    largest: int = 0  # bytes of the largest one that was put down
    _packed: dict[int, bytes] | None = None
    _unpacked: dict[tuple[int, int], Any] = field(default_factory=dict)

    def results(self) -> Iterator[Any]:
        """Yield the results in the order of the parts, those that are put down as they come.

        Raises:
            RmqtoolError: that of a part.
            SparkFailed: executors were lost, again and again.
        """
        for task, place in self.parts.order:
            one = self._wait_for(task, place)
            if isinstance(one, RmqtoolError):
                raise one
            yield one
        self.job.result()

    def _wait_for(self, task: int, place: int) -> Any:  # noqa: ANN401 - whatever a part gave
        while self.spool is not None and (task, place) not in self._unpacked:
            is_over = self.job.done()  # asked first: what is put down is there when it is over
            found, size = self.spool.take(task, place)
            if found is not NOTHING:
                self.seen += size
                self.largest = max(self.largest, size)
                self._unpacked |= {(task, place + n): one for n, one in enumerate(found)}
            elif is_over:
                break
            else:
                wait([self.job], POLL_SECONDS)
        if (task, place) not in self._unpacked:
            self._unpack(task)
        return self._unpacked.pop((task, place))

    def _unpack(self, task: int) -> None:
        """Take what of a task came through Spark."""
        if self._packed is None:
            table = self.job.result()
            rows = zip(table["task"].to_pylist(), table["result"].to_pylist(), strict=True)
            self._packed = dict(rows)
            self.seen += 0 if self.spool else sum(map(len, self._packed.values()))
        packed = lz4.block.decompress(self._packed.pop(task))
        found = pickle.loads(packed)  # noqa: S301 - our own executors made it
        self._unpacked |= {(task, place): one for place, one in found.items()}
