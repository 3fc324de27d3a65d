"""Rebuild consume queues on a cluster: runs travel to one writer a queue, never through here.

1. `Spread` derives the runs of segments and hands them out by queue, as packed units, in one blob
   for each writer and stretch of the log.
2. `Gather` gets all runs of some queues, in log order, and writes their files into an attempt.
3. `rebuild_queues` adopts the attempts and adds up what the parts of the log said.

The rules, the builder and the sink are those of one machine, so the files are, too.
"""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from rmqtool.derive.queue_runs import QueueRuns
from rmqtool.formats import java
from rmqtool.rebuild.consume_queue import QueueBuilder
from rmqtool.rebuild.sinks import WritingSink
from rmqtool.scan.join import run_joined
from rmqtool.store.parts import parts
from rmqtool.writing.task_attempts import adopt, attempt, clear

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from rmqtool.derive.runs import Runs
    from rmqtool.rebuild.pieces import QueueOptions, QueueResult
    from rmqtool.scan.join import PerPart
    from rmqtool.store.segment import Segment, SegmentPart
    from rmqtool.writing.output_tree import OutputTree

    Blob: TypeAlias = tuple[int, bytes]
    Head: TypeAlias = tuple[SegmentPart, Runs]
    Numbers: TypeAlias = Sequence[int] | npt.NDArray[np.int64]

TO_ALL: Final = -1  # not to a writer, but back
PART_BYTES: Final = 64 << 20


@runtime_checkable
class Shuffler(Protocol):
    """An engine that can bring blobs of many tasks together."""

    def shuffle(
        self,
        spread: Spread,
        segments: Sequence[Segment],
        gather: Gather,
        advance: Callable[[int], None],
    ) -> tuple[list[bytes], list[bytes]]:
        """Run `spread` on segments, some at a time, and `gather` on what belongs together.

        Returns:
            What was for nobody, in log order, and what `gather` gave.
        """
        ...


class Written(NamedTuple):
    """What a writer did."""

    attempt: str  # name of its directory; empty when it wrote nothing
    directories: tuple[str, ...]  # of its queues
    queues: tuple[QueueResult, ...]  # what became of each
    units: int  # in all of them
    fsync_seconds: float  # spent waiting for the disk


@dataclass(frozen=True, slots=True)
class Spread:
    """Derives segments. Picklable."""

    work: PerPart[Runs]  # derives a part
    part_bytes: int  # what of the log is worked on at a time, and travels together

    def __call__(self, segments: Sequence[Segment], writers: int) -> Iterator[list[Blob]]:
        """Yield the blobs of each stretch, each with the number of its writer, in log order."""
        heads: list[Head] = []
        waiting: dict[int, list[QueueRuns]] = {}
        taken = 0
        for part, runs in run_joined(self.work, parts(segments, self.part_bytes), jobs=1):
            rest = replace(
                runs, queues=_some(runs.queues, []), batch_queues=_some(runs.batch_queues, [])
            )
            heads.append((part, rest))
            for kind in (runs.queues, runs.batch_queues):
                for writer, some in split(kind, writers):
                    waiting.setdefault(writer, []).append(some)
            taken += part.length
            if taken >= self.part_bytes:
                yield _blobs(heads, waiting)
                heads, waiting, taken = [], {}, 0
        if heads:
            yield _blobs(heads, waiting)


def _blobs(heads: list[Head], waiting: Mapping[int, list[QueueRuns]]) -> list[Blob]:
    return [
        (TO_ALL, pickle.dumps(heads, pickle.HIGHEST_PROTOCOL)),
        *((writer, _packed(runs)) for writer, runs in waiting.items()),
    ]


@dataclass(frozen=True, slots=True)
class Gather:
    """Writes some queues. Picklable."""

    options: QueueOptions  # of the rebuild
    top: str  # of the staged tree

    def __call__(self, blobs: Iterable[bytes]) -> bytes:
        """Write the queues of some blobs, which come in log order; say what was done."""
        tree = attempt(self.top)
        with tree.top:
            builder = QueueBuilder(self.options, WritingSink(tree.subtree))
            for runs in chain.from_iterable(map(_unpacked, blobs)):
                builder.add(runs)
            results = tuple(builder.finish())
            tree.finish()
        directories = tuple(
            f"{result.kind}/{result.topic}/{result.queue_id}" for result in results if result.files
        )
        written = Written(tree.top.name, directories, results, builder.units, tree.fsync_seconds)
        return pickle.dumps(written, pickle.HIGHEST_PROTOCOL)


class Rebuilt(NamedTuple):
    """What a cluster did."""

    # parts of the log with their runs, which hold no units any more, in log order
    parts: list[tuple[SegmentPart, Runs]]
    queues: list[QueueResult]  # what became of each, by family, topic and number
    units: int  # in all of them
    fsync_seconds: float  # the longest wait for a disk


def rebuild_queues(
    engine: Shuffler,
    segments: Sequence[Segment],
    steps: tuple[PerPart[Runs], QueueOptions],
    tree: OutputTree,
    advance: Callable[[int], None],
) -> Rebuilt:
    """Rebuild all queues of a log into a staged tree.

    Args:
        engine: the cluster.
        segments: of the log.
        steps: how to derive a part, and how to build queues.
        tree: the staged tree, on a file system that executors share.
        advance: told of bytes of the log that are done.

    Raises:
        WriteFailed: an executor could not write.
    """
    work, options = steps
    heads, reports = engine.shuffle(
        Spread(work, PART_BYTES), segments, Gather(options, tree.top.path), advance
    )
    queues: list[QueueResult] = []
    units, seconds = 0, 0.0
    for report in reports:
        done: Written = pickle.loads(report)  # noqa: S301 - our own executors made it
        adopt(tree, done.attempt, done.directories)
        queues += done.queues
        units += done.units
        seconds = max(seconds, done.fsync_seconds)
    clear(tree)
    queues.sort(key=lambda queue: (queue.kind, queue.topic, queue.queue_id))
    results = chain.from_iterable(map(pickle.loads, heads))  # our own executors made them
    return Rebuilt(list(results), queues, units, seconds)


def split(runs: QueueRuns, writers: int) -> Iterator[tuple[int, QueueRuns]]:
    """Yield the runs for each writer; a queue is one writer's wherever it occurs."""
    if not len(runs):
        return
    numbers = np.array([_writer(topic, queue_id) % writers for topic, queue_id in runs.queues])
    of_run = numbers[runs.queue]
    for writer in np.unique(of_run).tolist():
        yield writer, _some(runs, np.flatnonzero(of_run == writer))


def _packed(runs: list[QueueRuns]) -> bytes:
    """Give runs as a quarter of their bytes, at 1.4 GB/s: Spark copies each byte several times."""
    import lz4.block

    packed: bytes = lz4.block.compress(pickle.dumps(runs, pickle.HIGHEST_PROTOCOL))
    return packed


def _unpacked(blob: bytes) -> list[QueueRuns]:
    import lz4.block

    runs: list[QueueRuns] = pickle.loads(lz4.block.decompress(blob))  # noqa: S301 - our own executors'
    return runs


@lru_cache(maxsize=1 << 14)
def _writer(topic: bytes, queue_id: int) -> int:
    # Topics whose bytes Java decodes to one text are one queue to a broker.
    text = java.text(topic).encode("utf-8", "surrogatepass")
    return zlib.crc32(b"%d/%b" % (queue_id, text))


def _some(runs: QueueRuns, numbers: Numbers) -> QueueRuns:
    """Give some of the runs, with their units and queues only."""
    chosen = np.asarray(numbers, np.int64)
    counts = runs.count[chosen]
    firsts = np.cumsum(counts) - counts
    places = np.repeat(runs.first[chosen] - firsts, counts) + np.arange(int(counts.sum()))
    queues, numbered = np.unique(runs.queue[chosen], return_inverse=True)
    return QueueRuns(
        runs.kind,
        runs.queues.chosen(queues),
        runs.units[places],
        numbered.astype(np.int64),
        runs.queue_offset[chosen],
        firsts,
        counts,
        runs.store_timestamp[chosen],
        runs.times[places] if len(runs.times) else runs.times,
    )
