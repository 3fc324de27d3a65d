"""What becomes of queues and index: the model before the start against the model after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT, BATCH_CQ_UNIT_SIZE
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.java import to_int64
from rmqtool.ledger.numbers import UnitNumbers
from rmqtool.queues.kinds import are_real, as_units
from rmqtool.startup.batch_queues import BatchQueue
from rmqtool.startup.coverage import UnitCoverage, join
from rmqtool.startup.files import java_remainder
from rmqtool.startup.prediction import IndexFate
from rmqtool.startup.pull import (
    BYTES_OF_A_PULL,
    JAVA_INT_MAX,
    MESSAGES_OF_A_PULL,
    LogExtent,
    Pull,
    pull_misnamed,
    reach,
)
from rmqtool.startup.queue_outcomes import QueueOutcome, QueueOutcomes
from rmqtool.startup.units import chunks, numbered_units, stored_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from rmqtool.startup.files import ModelFile
    from rmqtool.startup.indexes import ModelIndex
    from rmqtool.startup.model import Model
    from rmqtool.startup.plain_queues import PlainQueues
    from rmqtool.startup.queues import ConsumeQueue, QueueKey

    Int64s = NDArray[np.int64]
    UnitsByQueue = tuple[QueueKey, Callable[[], UnitNumbers]]
    FateKey = tuple[QueueKey, bool]
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Before:
    """The store before the start."""

    file_length: int  # bytes of a commitlog file
    log: tuple[ModelFile, ...]  # files of the commitlog
    queues: dict[FateKey, tuple[ModelFile, ...]]  # files of each queue, by topic, number and kind
    plain: PlainQueues[Any]  # those that were no objects: their files are not above

    @classmethod
    def of(cls, model: Model) -> Before:
        """Take down what there is; files count as full then, so all their units are looked at.

        Raises:
            UnreadablePath: a file may not be read.
        """
        queues = {
            _key(queue): _held([*queue.files.files, *queue.files.refused])
            for queue in model.all_queues()
        }
        log = model.commitlog
        return cls(log.file_length, _copies(log.files), queues, model.plain)

    @cached_property
    def coverage(self) -> UnitCoverage:
        """What the units point to: read when it is first asked for, as most starts change nothing.

        Raises:
            UnreadablePath: a file may not be read.
        """
        return self.covered()

    def covered(self) -> UnitCoverage:
        """Read the units. Raises UnreadablePath: a file may not be read."""
        coverage = UnitCoverage.of(self.file_length)
        for (key, is_batch), files in self.queues.items():
            layout = BATCH_CQ_UNIT if is_batch else CQ_UNIT
            coverage.add(key, join(units for _, units in stored_units(files, layout)))
        coverage.add_queues(self.plain)
        return coverage

    def count(self, queue: ConsumeQueue | BatchQueue, kept: int) -> int:
        """Give how many real units a queue had.

        Args:
            queue: after the start.
            kept: real units that it has then.

        Raises:
            UnreadablePath: a file may not be read.
        """
        if (row := self._plain_row(queue)) >= 0:
            return int(self.plain.counts[row])
        files = self.queues.get(_key(queue), ())
        if queue.appended or queue.files.created:
            return _count(units for _, units in self._stored(queue))
        ends = {file.path: file.wrote_position for file in queue.files.files}
        return kept + _count(units for _, units in stored_units(files, queue.layout, ends))

    def units(self, queue: ConsumeQueue | BatchQueue) -> tuple[Int64s, Int64s]:
        """Give physical offsets and sizes of the real units that a queue had.

        Raises:
            UnreadablePath: a file may not be read.
        """
        return join(units for _, units in self._stored(queue))

    def named(self, model: Model) -> Iterator[UnitsByQueue]:
        """Yield each queue, in order, and what reads the real units that it had.

        That raises UnreadablePath where a file may not be read.
        """
        queues = [
            ((queue.topic, queue.queue_id), partial(self._named, queue))
            for queue in model.all_queues()
        ]
        queues += [(key, partial(plainly_named, self.plain, key)) for key in model.plain.left]
        yield from sorted(queues, key=itemgetter(0))

    def _named(self, queue: ConsumeQueue | BatchQueue) -> UnitNumbers:
        parts = [np.empty((3, 0), np.int64)]
        for number, units in self._stored(queue):
            real = np.flatnonzero(are_real(units))
            numbers, counts = number + real, np.ones(len(real), np.int64)
            if isinstance(queue, BatchQueue):
                numbers = units["msg_base_offset"][real].astype(np.int64)
                counts = np.maximum(units["batch_size"][real].astype(np.int64), 1)
            offsets = units["physical_offset"][real].astype(np.int64)
            parts.append(np.stack([numbers, counts, offsets]))
        return UnitNumbers(*np.concatenate(parts, axis=1))

    def _stored(self, queue: ConsumeQueue | BatchQueue) -> Iterator[tuple[int, NDArray[Any]]]:
        if self._plain_row(queue) >= 0:
            yield self.plain.units_of((queue.topic, queue.queue_id))
            return
        yield from stored_units(self.queues.get(_key(queue), ()), queue.layout)

    def _plain_row(self, queue: ConsumeQueue | BatchQueue) -> int:
        is_batch = isinstance(queue, BatchQueue)
        return -1 if is_batch else self.plain.row((queue.topic, queue.queue_id))


def plainly_named(plain: PlainQueues[Any], key: QueueKey) -> UnitNumbers:
    """Give the units that a plain queue had."""
    first, units = plain.units_of(key)
    numbers = np.arange(first, first + len(units))
    offsets = units["physical_offset"].astype(np.int64)
    return UnitNumbers(numbers, np.ones(len(units), np.int64), offsets)


def queue_outcomes(model: Model, before: Before) -> QueueOutcomes:
    """Give what becomes of each queue, and tell the coverage what changes.

    Args:
        model: after the start.
        before: the store before it.

    Raises:
        UnreadablePath: a file may not be read.
    """
    log = LogExtent(model.commitlog)
    model.take_out(model.plain.out_of_reach(log))
    return QueueOutcomes(_judged(model, before, log), model.plain.kept())


def _judged(model: Model, before: Before, log: LogExtent) -> Iterator[QueueOutcome]:
    """Give the queues that are objects."""
    for queue in model.all_queues():
        parts = [*numbered_units(queue.files, queue.layout)]
        kept = _count(units for _, units in parts)
        was = before.count(queue, kept)
        then = [_in_reach(queue, units) for _, units in parts]
        if queue.appended or _count(then) != was:
            key = (queue.topic, queue.queue_id)
            before.coverage.change(key, before.units(queue), join(then))
        yield QueueOutcome(
            topic=queue.topic,
            queue_id=queue.queue_id,
            is_batch=isinstance(queue, BatchQueue),
            units_now=was,
            minimum=queue.minimum,
            maximum=queue.maximum,
            units_cut=was + queue.appended - kept,
            units_added=queue.appended,
            units_shifted=queue.shifted,
            readable=_readable(
                queue,
                parts,
                log,
                by_place=model.rules.pulls_by_place,
            ),
            deleted_files=tuple(queue.files.deleted),
            created_files=tuple(queue.files.created),
        )


def _in_reach(queue: ConsumeQueue | BatchQueue, units: NDArray[Any]) -> NDArray[Any]:
    """Give the units up to the end that a broker knows: none of a batch queue it takes for empty.

    Source: BatchConsumeQueue#reviseMaxAndMinOffsetInQueue, 5.0.0 to 5.5.0.
    """
    if not isinstance(queue, BatchQueue):
        return units
    return units[units["msg_base_offset"] < queue.maximum]


def index_outcome(index: ModelIndex) -> IndexFate:
    """Give what becomes of the key index."""
    return IndexFate(
        kept=tuple(file.path for file in index.files if file.path),
        deleted=tuple(file.path for file in index.destroyed),
        entries_kept=sum(file.entries for file in index.files) - index.added,
        entries_deleted=sum(file.entries for file in index.destroyed),
        entries_added=index.added,
        files_created=index.created,
    )


def _copies(files: list[ModelFile]) -> tuple[ModelFile, ...]:
    """Give the files as they are now: the broker's positions go down, and it writes."""
    return tuple(replace(file, written=[]) for file in files)


def _count(parts: Iterable[NDArray[Any]]) -> int:
    """Count the real ones among units."""
    return sum(int(are_real(units).sum()) for units in parts)


def _held(files: list[ModelFile]) -> tuple[ModelFile, ...]:
    """Give the same of a queue; what is held of short files is read once for both."""
    for file in files:
        with file.open():
            pass
    return _copies(files)


def _key(queue: ConsumeQueue | BatchQueue) -> FateKey:
    return (queue.topic, queue.queue_id), isinstance(queue, BatchQueue)


def _readable(
    queue: ConsumeQueue | BatchQueue,
    parts: list[tuple[int, NDArray[Any]]],
    log: LogExtent,
    *,
    by_place: bool,
) -> int:
    """Give how many messages a consumer gets who pulls a queue from its minimum on."""
    if isinstance(queue, BatchQueue):
        return pull_batches(queue, log)
    misnamed = pull_misnamed(queue, log, by_place=by_place)
    if misnamed is not None:
        return misnamed
    end = queue.maximum
    if queue.extension is not None and queue.extension.files.files:
        end = reach(queue, parts, queue.extension, reads_ahead=by_place)
    pull = Pull(log)
    files: dict[int, list[NDArray[Any]]] = {}
    for number, units in parts:
        handed_out = units[max(queue.minimum - number, 0) : max(end - number, 0)]
        files.setdefault(number * units.itemsize // queue.files.file_length, []).append(handed_out)
    for of_file in files.values():
        pull.add(np.concatenate(of_file) if len(of_file) > 1 else of_file[0])
    return pull.delivered


# What a consumer gets who pulls a batch queue from its minimum on.
#
# A broker finds the unit to begin with by the queue offset that is asked for, so that units which
# say another one make it hand out a neighbour, or begin anew.
# See DefaultMessageStore#getMessage, #isTheBatchFull, BatchConsumeQueue#getBatchMsgIndexBuffer,
# 5.0.0 to 5.5.0.


_FILTERED_BYTES: Final = 16_000  # maxFilterMessageSize: so far from its beginning a pull looks


class _BatchFile(NamedTuple):
    """Units of one queue file."""

    bases: NDArray[np.int64]  # queue offset of the first message of each: int64, shape (n,)
    steps: NDArray[np.int64]  # messages that each says it has, likewise; a pull goes on past them
    # messages that each hands out, none of one that is no real unit, likewise
    counts: NDArray[np.int64]
    offsets: NDArray[np.int64]  # physical offsets, likewise
    sizes: NDArray[np.int64]  # of the records, likewise
    there: NDArray[np.bool_]  # whether the record of each can be handed out: bool, shape (n,)
    refused: NDArray[np.bool_]  # whether a pull that comes to it throws: bool, likewise
    broken: int  # row of the first unit that does not follow on the one before it, or n


def pull_batches(queue: BatchQueue, log: LogExtent) -> int:
    """Give what is handed out of a batch queue.

    A pull that ends before a unit which makes it too large begins there again; where that unit says
    another offset, it is never found, and the consumer gets no further. So it is with a hole, whose
    units say 0.

    Args:
        queue: after recovery.
        log: which records are there.
    """
    firsts = {_first_base(file): file for file in queue.files.files if _has_units(file)}
    bases_of_files = np.array(sorted(firsts), np.int64)
    last = queue.files.last
    newest = _first_base(last) if last is not None and _has_units(last) else None
    read: dict[int, _BatchFile] = {}
    delivered, wanted = 0, queue.minimum
    while wanted < queue.maximum:
        older = int(np.searchsorted(bases_of_files, wanted, side="right"))
        if not older:
            break
        base = newest if newest is not None and newest <= wanted else int(bases_of_files[older - 1])
        if base not in read:
            read = {base: _read(firsts[base], log)}
        file = read[base]
        row = _batch_search(file.bases, wanted)
        if row is None:
            break
        if file.broken == len(file.bases) and wanted == file.bases[row]:
            count, following = _rest(file, row)
        else:
            count, following = _one_pull(file, row, wanted, queue.maximum, log.file_length)
        delivered += count
        if following <= wanted:
            break
        wanted = following
    return delivered


def _rest(file: _BatchFile, row: int) -> tuple[int, int]:
    """Pull a sound file to its end: wherever a pull ends, the next one goes on."""
    return int(file.counts[row:].sum()), int(file.bases[-1] + file.counts[-1])


def _one_pull(
    file: _BatchFile, first: int, wanted: int, maximum: int, log_file_length: int
) -> tuple[int, int]:
    """Give the messages of one pull, and where the next one begins.

    A pull that throws hands out nothing, and consumers ask for the same again.
    """
    total, taken, following, skip_below = 0, 0, wanted, None
    for row in range(first, len(file.bases)):
        base, step = int(file.bases[row]), int(file.steps[row])
        distance = to_int64((base - wanted) * BATCH_CQ_UNIT_SIZE)  # Java's wraps around
        if following >= maximum or distance >= _FILTERED_BYTES:
            break
        size = int(file.sizes[row])
        is_full = total >= MESSAGES_OF_A_PULL or total + step > MESSAGES_OF_A_PULL
        is_full |= BYTES_OF_A_PULL < taken + size <= JAVA_INT_MAX
        if is_full and total and taken:
            break
        following, offset = to_int64(base + step), int(file.offsets[row])
        if skip_below is not None and offset < skip_below:
            continue
        if file.refused[row]:
            return 0, wanted
        if file.there[row]:
            total, taken, skip_below = total + int(file.counts[row]), taken + size, None
        else:
            skip_below = offset + log_file_length - java_remainder(offset, log_file_length)
    return total, following


def _read(file: ModelFile, log: LogExtent) -> _BatchFile:
    with file.open() as reader:
        units = np.concatenate([*chunks(reader, BATCH_CQ_UNIT, 0, file.wrote_position)])
    bases = units["msg_base_offset"].astype(np.int64)
    there, refused = log.answers(units)
    offsets, sizes = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
    steps = units["batch_size"].astype(np.int64)
    counts = steps * are_real(units).astype(np.int64)
    follows = np.ones(len(units), np.bool_)
    follows[1:] = bases[1:] == bases[:-1] + counts[:-1]
    sound = follows & there & (counts > 0) & ~refused
    broken = len(units) if sound.all() else int(sound.argmin())
    return _BatchFile(bases, steps, counts, offsets, sizes, there, refused, broken)


def _has_units(file: ModelFile) -> bool:
    return file.wrote_position >= BATCH_CQ_UNIT_SIZE


def _first_base(file: ModelFile) -> int:
    with file.open() as reader:
        (first,) = as_units(reader.read_at(0, BATCH_CQ_UNIT_SIZE), BATCH_CQ_UNIT)
    return int(first["msg_base_offset"])


def _batch_search(bases: NDArray[np.int64], wanted: int) -> int | None:
    """Search as Java does, which gives a neighbour of what is not there.

    Source: BatchConsumeQueue#binarySearch, 5.0.0 to 5.5.0.
    """
    left, right = 0, len(bases) - 1
    while left <= right:
        middle = (left + right) // 2
        if bases[middle] == wanted:
            return middle
        if bases[middle] > wanted:
            right = middle - 1
        elif middle > left:
            left = middle
        else:
            has_next = middle + 1 < len(bases) and bases[middle + 1] <= wanted
            return middle + has_next
    return None
