"""The records of all sources, in the order of the new log, with an account of what is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.errors import UnreadablePath
from rmqtool.formats.message import MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2
from rmqtool.relog import fields as at
from rmqtool.relog.chunk import Chunk, Reason
from rmqtool.relog.numbers import QueueOffsetJudge
from rmqtool.relog.options import Positions, QueueOffsets, RecordVersion
from rmqtool.relog.order import concatenated, merged, repeated
from rmqtool.relog.take import PART_BYTES, TakeOptions
from rmqtool.relog.waiting import waiting_of
from rmqtool.store.unread import has_expired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.relog.options import LogOptions
    from rmqtool.relog.result import LogResult
    from rmqtool.relog.sources import LogSource

    Advance = Callable[[int], None]
    Bools = npt.NDArray[np.bool_]


MAGIC_CODES: Final = {
    None: None,
    RecordVersion.FIRST: MESSAGE_MAGIC_CODE,
    RecordVersion.SECOND: MESSAGE_MAGIC_CODE_V2,
}
CHANGED: Final = "its records are others than a moment before: try again"
LEAST_BYTES: Final = 1 << 20  # of a source, when there are many


class RecordStream:
    """Reads the sources, once, or twice where several may have the same messages.

    Args:
        sources: in the order in which they were given.
        options: what is wanted.
        result: takes note of what is left out.
        expired: store time, ms, until which records are left out; None leaves out none.

    Attributes:
        topics: numbers of the topics of all records.
        blanks: physical offsets of blank records; who takes note of them clears it.
        thinned: topics of the broker of which only what waits is taken.
    """

    def __init__(
        self,
        sources: Sequence[LogSource],
        options: LogOptions,
        result: LogResult,
        expired: int | None = None,
    ) -> None:
        self.topics: dict[bytes, int] = {}
        self.blanks: list[int] = []
        self.thinned: frozenset[bytes] = frozenset()
        self._sources, self._options, self._result = sources, options, result
        self._expired = expired
        self._packs = options.positions is Positions.PACK
        self._judges = self._packs and options.queue_offsets is QueueOffsets.KEEP

    def chunks(self, advance: Advance) -> Iterator[Chunk]:
        """Yield the records, from the first one that is wanted on.

        Args:
            advance: takes the bytes that were read since it was last called.

        Raises:
            UnreadablePath: what says which copies wait cannot be read, or a source that is read
                twice was another one the second time.
        """
        several = len(self._sources) > 1
        wanted = [self._wanted(source) for source in self._sources]
        marks: list[Bools | None] = [None] * len(wanted)
        if several:
            every = zip(self._sources, wanted, strict=True)
            marks[:] = repeated([self._keys(source, advance, one) for source, one in every])
        streams = [
            self._of_source(number, wanted[number], marks[number], advance)
            for number in range(len(wanted))
        ]
        chunks = streams[0]
        if several:
            chunks = merged(streams, at.STORE_TIME if self._packs else at.OFFSET)
        has_begun = False
        for chunk in chunks:
            has_begun |= bool(chunk.count)
            if has_begun:
                yield chunk

    def _wanted(self, source: LogSource) -> TakeOptions:
        options = self._options
        taken = TakeOptions(
            options.selection,
            host=options.store_host,
            magic_code=MAGIC_CODES[options.record_version],
            bridges=not self._packs,
            expired=self._expired,
            part_bytes=max(PART_BYTES // len(self._sources), LEAST_BYTES),
        )
        renumbers = options.queue_offsets is QueueOffsets.RENUMBER
        if source.store is None:
            return taken
        if options.keeps_all:
            return taken
        waiting = waiting_of(source.store, moves=self._packs, renumbers=renumbers)
        self.thinned |= waiting.thinned
        return replace(taken, waiting=waiting)

    def _keys(
        self, source: LogSource, advance: Advance, wanted: TakeOptions
    ) -> npt.NDArray[np.int64]:
        """Read a source for its unique keys alone."""
        wanted = replace(wanted, keys=True, copies=False)
        chunks = source.chunks(wanted, advance, self._options.jobs)
        return concatenated(chunk.fields[at.KEY] for chunk in chunks)

    def _of_source(
        self, number: int, wanted: TakeOptions, repeats: Bools | None, advance: Advance
    ) -> Iterator[Chunk]:
        """Yield the records of one source, in its order."""
        judge = QueueOffsetJudge()
        source = self._sources[number]
        begin = 0
        for chunk in source.chunks(wanted, advance, self._options.jobs):
            self._account(source, chunk)
            self._name_topics(chunk, number)
            count = chunk.count
            if repeats is not None:
                repeat = repeats[begin : begin + count]
                if len(repeat) < count:
                    raise UnreadablePath(path=source.path, reason=CHANGED)
                begin += count
                self._leave_out(chunk, repeat, Reason.DUPLICATE)
            if self._judges:
                self._leave_out(chunk, ~judge.possible(chunk.fields), Reason.NUMBER)
            yield chunk
        # What was taken for a repetition of a record that is gone now would be in no log.
        if repeats is not None and begin < len(repeats):
            raise UnreadablePath(path=source.path, reason=CHANGED)

    def _leave_out(self, chunk: Chunk, unwanted: Bools, reason: Reason) -> None:
        if unwanted.any():
            self._result.left_out[reason] += int(unwanted.sum())
            chunk.fields = np.ascontiguousarray(chunk.fields[:, ~unwanted])

    def _account(self, source: LogSource, chunk: Chunk) -> None:
        result, store = self._result, source.store
        result.left_out += chunk.left_out
        result.gaps += chunk.gaps
        result.source_defects += chunk.defects
        self.blanks += chunk.blanks
        error = chunk.unread
        if error is None:
            return
        path = error.path if store is None else error.path.removeprefix(f"{store.root}/")
        if store is not None and has_expired(store, path, error):
            result.expired.add(path)
        elif str(error) not in map(str, result.unread):
            result.unread.append(error)

    def _name_topics(self, chunk: Chunk, source: int) -> None:
        """Number topics as all chunks do."""
        if chunk.count:
            numbers = [self.topics.setdefault(name, len(self.topics)) for name in chunk.topics]
            chunk.fields[at.TOPIC] = np.array(numbers, np.int64)[chunk.fields[at.TOPIC]]
            chunk.fields[at.SOURCE] = source
