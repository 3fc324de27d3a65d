"""Stage 6: what consumers would not get any more, and why.

Each whole message of the log is asked: would its bytes stay, and would its own queue point to it,
now and then? Of a large log, a file is not read that the start does not touch, that units tile
without a hole, and of which a sample leads from the right queues; how many those are is said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.dispatch import light_queue_texts
from rmqtool.broker.names import LMQ_PREFIX
from rmqtool.formats.message import BLANK, BLANK_MAGIC_CODE
from rmqtool.judge.foreign import HEAD_BYTES, foreign_files
from rmqtool.ledger.numbers import last_believed
from rmqtool.machine.arrays import distinct, is_in
from rmqtool.memory import give_back_rest
from rmqtool.startup import walk
from rmqtool.startup.already_lost import AlreadyLost, are_passed
from rmqtool.startup.census import censuses
from rmqtool.startup.coverage import keys_of
from rmqtool.startup.prediction import Loss, TopicLoss
from rmqtool.startup.records import RecordCheck
from rmqtool.startup.walked import WalkedLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from rmqtool.ledger.numbers import LostNumbers
    from rmqtool.startup.census import SegmentCensus
    from rmqtool.startup.commitlog import Recovered
    from rmqtool.startup.coverage import UnitCoverage
    from rmqtool.startup.files import ModelFile
    from rmqtool.startup.model import Model
    from rmqtool.startup.outcomes import Before

    Int64s = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Numbers = NDArray[np.uint32]

    from numpy.typing import NDArray

    from rmqtool.startup.files import ModelReader


READ_WHOLE: Final = 256 << 20  # bytes of a log that is read whatever queues say of it
_MANY: Final = 1 << 17  # records: after so many, what is freed piecemeal counts


@dataclass(slots=True)
class LossTally:
    """Adds up one kind of loss."""

    topics: dict[str, TopicLoss] = field(default_factory=dict)

    def add(self, segment: SegmentCensus, mask: Mask) -> None:
        """Add the messages of a segment that a mask chooses."""
        if not mask.any():
            return
        for number in np.unique(segment.topics[mask]):
            chosen = mask & (segment.topics == number)
            times = segment.store_timestamps[chosen]
            loss = TopicLoss(
                segment.names[number],
                int(segment.messages[chosen].sum()),
                int(times.min()),
                int(times.max()),
            )
            self.add_messages(loss)

    def add_messages(self, loss: TopicLoss) -> None:
        """Add messages of one topic."""
        before = self.topics.get(loss.topic)
        self.topics[loss.topic] = loss if before is None else _sum(before, loss)

    def loss(self) -> Loss:
        """Give the sum."""
        return Loss(tuple(sorted(self.topics.values(), key=lambda loss: -loss.messages)))


def _foreign(files: Iterable[ModelFile]) -> frozenset[int]:
    """Give the starts of the files that another broker wrote: no message of this one is in them."""
    heads = []
    for file in files:
        with file.open() as reader:
            heads.append((file.start, reader.read_at(0, HEAD_BYTES)))
    return foreign_files(heads)


def _sum(loss: TopicLoss, two: TopicLoss) -> TopicLoss:
    return TopicLoss(
        loss.topic,
        loss.messages + two.messages,
        min(_known(loss.first_store_timestamp, two.first_store_timestamp), default=None),
        max(_known(loss.last_store_timestamp, two.last_store_timestamp), default=None),
    )


def _known(*times: int | None) -> list[int]:
    return [time for time in times if time is not None]


class LogReading(Enum):
    """Which files of a log are read."""

    ALL = auto()
    WHERE_IN_DOUBT = auto()  # of a large log those that units do not tile
    # Those where the start takes a unit away or makes one, or cuts: of a log all of whose records
    # and units were found to be what they should be.
    WHAT_CHANGES = auto()
    # Likewise, and none where the start leaves consumers all that they have: of a log and queues
    # that a validation had nothing at all to say of.
    IF_ANY_CHANGES = auto()

    @property
    def is_of_all(self) -> bool:
        """Whether the messages of a log are counted that the start changes nothing about."""
        return self in {LogReading.ALL, LogReading.WHERE_IN_DOUBT}


def to_keep(model: Model, reads: LogReading) -> WalkedLog | None:
    """Give what keeps the messages that recovery walks over; None where they are not counted.

    Beside a running broker they are not kept: the log goes on while it is read.
    """
    if model.is_live or not reads.is_of_all:
        return None
    return WalkedLog(keeps_all=sum(file.length for file in model.commitlog.files) <= READ_WHOLE)


@dataclass(slots=True)
class Losses:
    """The kinds of loss; see `Prediction`."""

    lost: LossTally = field(default_factory=LossTally)
    cut: LossTally = field(default_factory=LossTally)
    unlisted: LossTally = field(default_factory=LossTally)
    deleted_topics: LossTally = field(default_factory=LossTally)
    misdelivered: LossTally = field(default_factory=LossTally)
    missing: LossTally = field(default_factory=LossTally)
    # queue offsets of the missing ones, but for those that only a light queue names
    lost_numbers: list[LostNumbers] = field(default_factory=list)
    unpassed: int = 0  # of the missing ones, those that units lead to
    unread: int = 0  # files of the log that were not read


@dataclass(slots=True)
class LossCount:
    """Counts losses."""

    model: Model  # the store as the broker would hold it
    before: Before  # the store as it is
    recovered: Recovered | None  # how recovery went; None where it does not come to that
    is_known: Callable[[str], bool]  # tells whether a topic is configured or has a queue
    reads: LogReading = LogReading.WHERE_IN_DOUBT
    changes: bool = True  # whether the start takes anything from consumers, or gives it to them
    jobs: int | None = None  # threads; None is one for each processor
    walked: WalkedLog | None = None  # what recovery has walked over

    @property
    def coverage(self) -> UnitCoverage:
        """What queues point to."""
        return self.before.coverage

    def count(self) -> Losses:
        """Ask each message of the log as it lies there now.

        Raises:
            UnreadablePath: a file may not be read.
        """
        losses = Losses()
        if self.reads is LogReading.IF_ANY_CHANGES and not self.changes:
            return losses
        ends = {file.path: file.wrote_position for file in self.model.commitlog.files}
        refused = self.model.refused_log
        files = list(self.before.log) if refused is None else refused
        size = sum(file.length for file in files)
        # A message is lost to a broker that cannot read it, too.
        check = RecordCheck(self.model.rules, self.model.settings, reads_v2=True)
        strays = Strays(self.coverage, check)
        by_kernels = size >= walk.KERNELS_FROM
        count = partial(censuses, check=check, by_kernels=by_kernels, jobs=self.jobs)
        holes = [self._absent(files)]
        in_doubt = [*files]
        if not self.reads.is_of_all:
            in_doubt = [file for file in files if not self._stays(file, ends.get(file.path))]
        elif size > READ_WHOLE and self.reads is LogReading.WHERE_IN_DOUBT:
            in_doubt = [file for file in files if self._is_in_doubt(file, ends, strays)]
            losses.unread = len(files) - len(in_doubt)
        by_path = {file.path: file for file in files}
        is_from_0 = any(not file.start for file in in_doubt)
        already = AlreadyLost(self.model, self.coverage, self.is_known, is_from_0)
        read = partial(self._read, count, in_doubt, _foreign(files))
        give_back_rest()  # what recovery and the sorting of units have left
        for segment in read():
            names = (segment.names, segment.topics, segment.queue_ids)
            own = self.coverage.numbers.of_names(*names)
            already.take(segment, own)
            if self.coverage.is_exact(segment.start, segment.positions, own):
                self._lose(segment, ends.get(segment.path, 0), losses)
                continue
            self._ask(segment, own, ends.get(segment.path, 0), losses)
            for stray in strays.of(by_path[segment.path], segment, own):
                losses.misdelivered.add_messages(stray)
            pointed = self.coverage.now.of(segment.start).positions
            missed = pointed[~is_in(pointed, segment.positions)] if pointed.size else pointed
            if missed.size:
                holes.append(segment.start + missed)
        read_paths = {file.path for file in in_doubt}
        unread = [file for file in files if file.path not in read_paths]
        self._missing(already, distinct(np.concatenate(holes)), unread, read, losses)
        return losses

    def _read(
        self,
        count: Callable[[Sequence[ModelFile]], Iterator[SegmentCensus]],
        files: list[ModelFile],
        foreign: frozenset[int],
    ) -> Iterator[SegmentCensus]:
        """Count the messages of files; those of another broker are none of this one."""
        for segment in self._counted(count, files):
            if len(segment.positions) >= _MANY:
                give_back_rest()  # what threads have left, which read parts of it
            yield segment.without_messages() if segment.start in foreign else segment

    def _counted(
        self,
        count: Callable[[Sequence[ModelFile]], Iterator[SegmentCensus]],
        files: list[ModelFile],
    ) -> Iterator[SegmentCensus]:
        """Count the messages of files, or take them from recovery."""
        walked = WalkedLog(keeps_all=False) if self.walked is None else self.walked
        for has, group in groupby(files, walked.has):
            some = [*group]
            yield from map(walked.take, some) if has else count(some)

    def _missing(
        self,
        already: AlreadyLost,
        holes: Int64s,
        unread: list[ModelFile],
        read: Callable[[], Iterable[SegmentCensus]],
        losses: Losses,
    ) -> None:
        """Count the messages that no record holds, each in its own queue.

        A record that only light queues, or others that it was dispatched to, lead to may be one
        that its own queue has lost the unit of.
        """
        lost = already.numbers(self.before, holes, unread, read)
        losses.lost_numbers = lost.numbers
        for number in lost.numbers:
            losses.missing.add_messages(TopicLoss(number.topic, number.messages))
        rest = ~are_passed(lost.left, self.model)
        losses.unpassed = lost.named - lost.passed + int(rest.sum())
        left, spare = lost.left, lost.unnamed
        for key, named in self.before.named(self.model) if left.size else ():
            offsets = distinct(named().physical_offsets)
            offsets = offsets[is_in(offsets, left)]
            is_copy = key[0].startswith(LMQ_PREFIX) or key in already.copies
            if is_copy and len(offsets):
                left = np.setdiff1d(left, offsets, assume_unique=True)
                if len(offsets) > spare:
                    losses.missing.add_messages(TopicLoss(key[0], len(offsets) - spare))
                spare = max(spare - len(offsets), 0)

    def _absent(self, files: list[ModelFile]) -> Int64s:
        """Give the physical offsets of units that point between the files of the log, or past them.

        What lies before the first file has expired. Without a file nothing has.
        """
        length = self.coverage.now.file_length
        outside = self.coverage.now.outside(
            (file.start, file.start + file.length) for file in files
        )
        numbers = distinct(outside // length).tolist()
        last = max((file.start // length for file in files), default=min(numbers, default=0))
        end = (last_believed(numbers, last) + 1) * length
        begin = min((file.start for file in files), default=0)
        return outside[(begin <= outside) & (outside < end)]

    def _lose(self, segment: SegmentCensus, end: int, losses: Losses) -> None:
        """Count of messages that their queues lead to, before and after, those that are cut off."""
        if self.recovered is not None:
            losses.lost.add(segment, segment.positions + segment.sizes > end)

    def _ask(self, segment: SegmentCensus, own: Numbers, end: int, losses: Losses) -> None:
        recovered = self.recovered
        if recovered is None or not segment.positions.size:
            return
        keys = keys_of(segment.positions, own)
        pointed = is_in(segment.positions, self.coverage.now.of(segment.start).positions)
        stays = segment.positions + segment.sizes <= end
        # An earlier cut leaves records in the file that it cut, without units, and older than the
        # record that it was cut after; the files after that one it deletes.
        is_left = (segment.store_timestamps < recovered.last_store_timestamp) & ~pointed
        is_left &= segment.path == recovered.end_path
        losses.lost.add(segment, ~stays & ~is_left)
        had = self.coverage.had(segment.start, keys)
        has = self.coverage.has(segment.start, keys, had)
        losses.cut.add(segment, stays & ~has & had)
        none = stays & ~has & ~had
        known = np.array([self.is_known(name) for name in segment.names], np.bool_)
        is_known = known[segment.topics] if len(known) else none
        losses.unlisted.add(segment, none & (is_known | pointed))
        losses.deleted_topics.add(segment, none & ~is_known & ~pointed)

    def _is_in_doubt(self, file: ModelFile, ends: dict[str, int], strays: Strays) -> bool:
        """Tell whether a file may hold a message that is lost."""
        if self.recovered is not None:
            is_last = file.path == self.recovered.end_path
            if is_last or ends.get(file.path) != file.length:
                return True
        return not self._is_covered(file) or strays.are_in(file)

    def _stays(self, file: ModelFile, end: int | None) -> bool:
        """Tell whether each message of a sound file has a unit, before a start and after it."""
        if end == file.length:
            return self._is_covered(file)
        return self.coverage.is_unchanged(file.start) and self.coverage.now.tile(file.start) == end

    def _is_covered(self, file: ModelFile) -> bool:
        if not self.coverage.is_unchanged(file.start):
            return False
        end = self.coverage.now.tile(file.start)
        if end is None:
            return False
        with file.open() as reader:
            head = reader.read_at(end, BLANK.size).ljust(BLANK.size, b"\0")
        magic = BLANK["magic_code"].of(head)
        return magic == BLANK_MAGIC_CODE or end == file.length


# Units that lead consumers of one queue to messages of another.
#
# A directory under the name of another topic, or a unit that a damaged disk has put elsewhere: a
# broker looks at a unit's place in the log and hands out what is there, whatever topic, queue and
# offset it names. Records that are dispatched to several queues are in their right place in each.
# See DefaultMessageStore#getMessage, 4.9.3 to 5.5.0.


_SAMPLE: Final = 32  # messages of one queue that another queue leads to
_QUEUES_SAMPLED: Final = 256  # of those with units into one file of the log


@dataclass(slots=True)
class Strays:
    """Finds units that lead to messages of other queues."""

    coverage: UnitCoverage
    check: RecordCheck

    def of(self, file: ModelFile, segment: SegmentCensus, own: Numbers) -> Iterator[TopicLoss]:
        """Give the messages that consumers of other queues would get, by the topic of those.

        Args:
            file: of the log.
            segment: its messages.
            own: number of the queue of each.
        """
        units = self.coverage.after(segment.start)
        if not (units.positions.size and segment.positions.size):
            return
        rows = np.searchsorted(segment.positions, units.positions)
        rows = np.minimum(rows, len(segment.positions) - 1)
        is_stray = segment.positions[rows] == units.positions
        is_stray &= own[rows] != units.queues
        rows, queues = rows[is_stray], units.queues[is_stray]
        if not rows.size:
            return
        with file.open() as reader:
            for queue in distinct(queues):
                of_queue = rows[queues == queue]
                topic, _ = self.coverage.numbers.key(int(queue))
                for number in distinct(own[of_queue]):
                    own_rows = of_queue[own[of_queue] == number]
                    strays = self._unnamed(reader, segment, own_rows, topic)
                    if strays.size:
                        times = segment.store_timestamps[strays]
                        count = int(segment.messages[strays].sum())
                        yield TopicLoss(topic, count, int(times.min()), int(times.max()))

    def are_in(self, file: ModelFile) -> bool:
        """Tell whether one unit of each queue into a file, at most, leads to another's message."""
        units = self.coverage.now.of(file.start)
        # The first row of each queue; np.unique would sort them, of which there are millions.
        first = np.full(int(units.queues.max(initial=0)) + 1, -1)
        first[units.queues[::-1]] = np.arange(len(units.queues))[::-1]
        numbers = np.flatnonzero(first >= 0)
        rows = first[numbers]
        chosen = np.linspace(0, len(rows) - 1, min(len(rows), _QUEUES_SAMPLED)).astype(np.int64)
        with file.open() as reader:
            for queue, row in zip(numbers[chosen].tolist(), rows[chosen].tolist(), strict=True):
                position = int(units.positions[row])
                record = self.check.check(reader, position, file.length, reads_body=False).record
                if record is None:
                    continue
                key = self.coverage.numbers.key(queue)
                is_own = key == (record.topic, record.queue_id)
                if not is_own and key[0] not in light_queue_texts(record.properties)[0]:
                    return True
        return False

    def _unnamed(
        self, reader: ModelReader, segment: SegmentCensus, rows: Int64s, topic: str
    ) -> Int64s:
        """Leave out the messages that name a topic as one that they are dispatched to, too.

        Where all of a sample do, or none does, the others are like them.
        """
        places = np.linspace(0, len(rows) - 1, min(len(rows), _SAMPLE)).astype(np.int64)
        sample = [self._is_named(reader, segment, row, topic) for row in rows[places].tolist()]
        if all(sample):
            return rows[:0]
        if not any(sample):
            return rows
        named = [self._is_named(reader, segment, row, topic) for row in rows.tolist()]
        return rows[~np.array(named, np.bool_)]

    def _is_named(self, reader: ModelReader, segment: SegmentCensus, row: int, topic: str) -> bool:
        position = int(segment.positions[row])
        end = position + int(segment.sizes[row])
        record = self.check.check(reader, position, end, reads_body=False).record
        return record is not None and topic in light_queue_texts(record.properties)[0]
