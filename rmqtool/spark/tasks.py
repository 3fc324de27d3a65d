"""What executors run: a function over parts, or the two halves of a shuffle. Needs no pyspark.

The functions that are given here travel pickled with what they close over.
"""

from __future__ import annotations

import gc
import pickle
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

import lz4.block
import pyarrow as pa

from rmqtool.errors import RmqtoolError
from rmqtool.memory import give_back_arrays
from rmqtool.spark.waves import length_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rmqtool.writing.spool import Spool

Part = TypeVar("Part")
Result = TypeVar("Result")
RESULTS: Final = "task bigint, result binary"
BLOBS: Final = "number int, task bigint, place bigint, blob binary"
SPOOLED_TOGETHER: Final = 16 << 20  # bytes of parts: a file for each small one takes longer
TO_ALL, DONE, ERROR = -1, -2, -3  # numbers of blobs that are for nobody
_BLOBS: Final = pa.schema(
    [("number", pa.int32()), ("task", pa.int64()), ("place", pa.int64()), ("blob", pa.binary())]
)


def mapper(
    function: Callable[[Any], Any], wave: Sequence[Sequence[Any]], spool: Spool | None
) -> Callable[..., Any]:
    """Give what maps task numbers to the results of the parts of each task.

    Args:
        function: what to do with a part.
        wave: the parts of each task.
        spool: where results are put down; None where the driver is on another machine.
    """

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                left: dict[int, Any] = {}
                waiting: list[Any] = []
                size = 0
                for place, part in enumerate(wave[number], 1):
                    waiting.append(outcome(function, part))
                    size += length_of(part)
                    if size >= SPOOLED_TOGETHER or place == len(wave[number]):
                        first = place - len(waiting)
                        if spool is None or not spool.put(number, first, waiting):
                            left |= enumerate(waiting, first)
                        waiting, size = [], 0
                settle()
                yield result_batch(number, left)

    return work


@cache
def settle() -> None:
    """Let the collector of garbage forget what is loaded by now, once in a process.

    pyspark's worker runs it after each task; to look through all modules takes 25 ms. Arrays are
    of one size from part to part, and their memory is used again.
    """
    gc.freeze()
    give_back_arrays()


def outcome(function: Callable[[Part], Result], part: Part) -> Result | RmqtoolError:
    """Give the result of a part, or the error that was raised on purpose: both travel."""
    try:
        return function(part)
    except RmqtoolError as error:
        return error


def result_batch(number: int, outcomes: dict[int, Any]) -> pa.RecordBatch:
    """Give the row of a task: outcomes by the place of the part.

    They are packed: Spark copies each byte several times.
    """
    packed = lz4.block.compress(pickle.dumps(outcomes, pickle.HIGHEST_PROTOCOL))
    return pa.RecordBatch.from_arrays(
        [pa.array([number], pa.int64()), pa.array([packed], pa.binary())], names=["task", "result"]
    )


def spreader(
    spread: Callable[[Sequence[Any], int], Iterator[list[tuple[int, bytes]]]],
    tasks: Sequence[Sequence[Any]],
    writers: int,
) -> Callable[..., Any]:
    """Give what maps numbers of tasks to the numbered blobs of their segments."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                place = 0
                try:
                    for blobs in spread(tasks[task], writers):
                        rows = [
                            (number, task, place + n, blob)
                            for n, (number, blob) in enumerate(blobs)
                        ]
                        place += len(rows)
                        yield blob_batch(rows)
                except RmqtoolError as error:
                    yield blob_batch([(ERROR, task, 0, pickle.dumps(error))])
                settle()

    return work


def gatherer(gather: Callable[[Iterable[bytes]], bytes]) -> Callable[..., Any]:
    """Give what lets one writer have its blobs and passes on what is for nobody."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        passed: list[pa.RecordBatch] = []
        blobs = _wanted(batches, passed)
        first = next(blobs, None)
        if first is not None:
            try:
                yield blob_batch([(DONE, 0, 0, gather(chain([first], blobs)))])
            except RmqtoolError as error:
                yield blob_batch([(ERROR, 0, 0, pickle.dumps(error))])
        yield from passed

    return work


def _wanted(batches: Iterable[pa.RecordBatch], passed: list[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield the blobs that are for writers; put the others aside."""
    for batch in batches:
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        for number, task, place, blob in rows:
            if number >= 0:
                yield blob
            else:
                passed.append(blob_batch([(number, task, place, blob)]))


def blob_batch(rows: Sequence[tuple[int, int, int, bytes]]) -> pa.RecordBatch:
    """Give the rows of blobs."""
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _BLOBS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_BLOBS)
