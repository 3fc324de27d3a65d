"""A chunk of records: whole, wanted and undamaged, with what a new place needs to know of them."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from rmqtool.formats.message import MESSAGE_MAGIC_CODE, TOPIC_LENGTH_BYTES
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.relog import fields as at
from rmqtool.relog import kernels
from rmqtool.relog.fields import facts_of
from rmqtool.scan import columns as row

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.errors import UnreadablePath
    from rmqtool.scan.batch import Batch

    Int64s: TypeAlias = npt.NDArray[np.int64]
    UInt8s: TypeAlias = npt.NDArray[np.uint8]

_TYPE: Final = SysFlag.TRANSACTION_ROLLBACK_TYPE
_ROLLBACK: Final = SysFlag.TRANSACTION_ROLLBACK_TYPE
_PREPARED: Final = SysFlag.TRANSACTION_PREPARED_TYPE
KEY_ROWS: Final = [
    row.TOPIC_START,
    row.TOPIC_LENGTH,
    row.UNIQUE_KEY_START,
    row.UNIQUE_KEY_LENGTH,
    row.QUEUE_ID,
    row.QUEUE_OFFSET,
    row.STORE_TIMESTAMP,
    row.BODY_CRC,
]
_V6: Final = SysFlag.STOREHOSTADDRESS_V6_FLAG
_PAST_END: Final = 1 << 20  # longer records that cross the end of a part are copied twice
_NOTHING: Final = np.empty(0, np.uint8)


class Reason(enum.StrEnum):
    """Why a record of a source is not in the new log."""

    FILTERED = "filtered"  # by the options that choose
    EXPIRED = "expired"  # a broker would delete it
    DAMAGED = "damaged"  # its body, or its properties, are not those that were stored
    DUPLICATE = "duplicates"  # another source has it, too
    OVERLAP = "overlaps"  # its place is taken
    NUMBER = "misnumbered"  # so many messages before it cannot have been in the log
    LONG_TOPIC = "long_topics"  # the length of its topic does not fit into one byte
    DONE = "done"  # a copy that brokers held back, and have delivered or given up
    BRIDGE = "bridge"  # a repair has put it in place of lost bytes


@dataclass(slots=True)
class Gap:
    """Bytes of a source that are no record."""

    path: str  # of the file
    position: int  # first byte in it
    length: int  # bytes
    code: str  # what is wrong, a finding code
    number: int | None = None  # of a file of records: which record it would be, from 1 on


@dataclass(slots=True)
class Chunk:
    """Records of one source, in its order."""

    fields: Int64s  # int64, shape (ROWS, n); see `fields`. TOPIC numbers `topics`.
    raw: UInt8s  # uint8; the records, one after the other
    topics: list[bytes] = field(default_factory=list)  # names
    blanks: list[int] = field(default_factory=list)  # physical offsets of blank records
    gaps: list[Gap] = field(default_factory=list)  # what is no record
    # records that are not here, by reason
    left_out: Counter[Reason] = field(default_factory=Counter)
    # codes of records that are here although something in them is damaged
    defects: Counter[str] = field(default_factory=Counter)
    # of records whose keys are looked at: hashes of whole records, and facts; see `votes.Census`
    contents: Int64s | None = None
    facts: Int64s | None = None
    unread: UnreadablePath | None = None  # why the rest of the part could not be read
    first: int | None = None  # see `scan.join.Joinable`
    end: int = 0  # likewise

    @property
    def count(self) -> int:
        """Records."""
        return int(self.fields.shape[1])


class ChunkMaker:
    """Collects the records of batches.

    Args:
        host: address and port of the broker that they are to name; empty leaves them.
        magic_code: of the version that they are to have; None leaves it.
        keys: whether unique keys are looked at.
        copies: whether the bytes of records are wanted.
    """

    def __init__(
        self,
        host: bytes,
        magic_code: int | None = None,
        *,
        keys: bool = False,
        copies: bool = True,
    ) -> None:
        self._keys, self._copies = keys, copies
        self.host = np.frombuffer(host, np.uint8).copy()
        self._topic_width = 0 if magic_code is None else TOPIC_LENGTH_BYTES[magic_code]
        self.topics: dict[bytes, int] = {}
        self.blanks: list[int] = []
        self.gaps: list[Gap] = []
        self.left_out: Counter[Reason] = Counter()
        self.defects: Counter[str] = Counter()
        self.size = 0
        self._fields: list[Int64s] = []
        self._raw: list[UInt8s] = []
        self._room = _NOTHING
        self._census: list[Int64s] = []

    def reserve(self, size: int) -> None:
        """Make room for the records of a part: what fits there is copied once, not twice.

        Args:
            size: bytes of the part, in which its last record only begins.
        """
        if self._copies:
            self._room = np.empty(size + _PAST_END, np.uint8)

    def add(self, batch: Batch, numbers: Int64s, *, offsets: int = row.PHYSICAL_OFFSET) -> None:
        """Take records of a batch.

        Args:
            batch: of a scan.
            numbers: int64, shape (n,); which of them.
            offsets: the row that says where they lie.
        """
        if not numbers.size:
            return
        columns = batch.columns
        if numbers.size < batch.count:
            columns = columns[:, numbers]
        flags = columns[row.SYS_FLAG]
        fields = np.empty((at.ROWS, numbers.size), np.int64)
        sizes = self._sizes(columns)
        fields[at.SIZE] = sizes
        fields[at.START] = self.size + np.cumsum(sizes) - sizes
        fields[at.OFFSET] = columns[offsets]
        fields[at.STORE_TIME] = columns[row.STORE_TIMESTAMP]
        fields[at.QUEUE_ID] = columns[row.QUEUE_ID]
        fields[at.QUEUE_OFFSET] = columns[row.QUEUE_OFFSET]
        fields[at.SYS_FLAG] = flags
        fields[at.PREPARED] = columns[row.PREPARED_TRANSACTION_OFFSET]
        in_no_queue = ((flags & _TYPE) == _ROLLBACK) | ((flags & _TYPE) == _PREPARED)
        is_batch = (flags & SysFlag.INNER_BATCH_FLAG != 0) & (columns[row.INNER_NUM] > 0)
        units = np.where(is_batch, columns[row.INNER_NUM], 1)
        fields[at.UNITS] = np.where(in_no_queue, 0, units)
        fields[at.HAS_CRC] = columns[row.PROPERTY_CRC] >= 0
        fields[at.IS_RARE] = is_batch | (columns[row.MARKS] & row.MARK_MULTI_DISPATCH != 0)
        numbers_here = columns[row.TOPIC_NUMBER]
        for number in np.flatnonzero(np.bincount(numbers_here)).tolist():
            own = self.topics.setdefault(batch.topics[number], len(self.topics))
            fields[at.TOPIC][numbers_here == number] = own
        fields[at.SOURCE] = fields[at.KEY] = 0
        if self._keys:
            kernels.hash_keys(batch.window, np.ascontiguousarray(columns[KEY_ROWS]), fields[at.KEY])
            self._note_census(batch, columns, fields)
        self._fields.append(fields)
        if self._copies:
            self._copy(batch, columns, sizes)
            self.size += int(sizes.sum())

    def _note_census(self, batch: Batch, columns: Int64s, fields: Int64s) -> None:
        """Remember what tells copies of one record apart, and what they have in common."""
        contents = fields[at.KEY] ^ columns[row.BODY_CRC]
        in_window = columns[row.BODY_START] >= 0
        places = np.ascontiguousarray(columns[[row.RECORD_START, row.SIZE]][:, in_window])
        hashes = np.empty(places.shape[1], np.int64)
        kernels.hash_records(batch.window, places, hashes)
        contents[in_window] = hashes
        facts = facts_of(fields, columns[row.BODY_CRC], columns[row.BORN_TIMESTAMP])
        self._census.append(np.stack([contents, facts]))

    def _sizes(self, columns: Int64s) -> Int64s:
        """Give the sizes that records will have."""
        sizes: Int64s = columns[row.SIZE]
        if self.host.size:
            own = np.where(columns[row.SYS_FLAG] & _V6 != 0, kernels.IPV6_HOST, kernels.IPV4_HOST)
            sizes = sizes - own + self.host.size
        if self._topic_width:
            is_first = columns[row.MAGIC_CODE] == MESSAGE_MAGIC_CODE
            widths = np.where(is_first, *TOPIC_LENGTH_BYTES.values())
            sizes = sizes - widths + self._topic_width
        return sizes

    def _copy(self, batch: Batch, columns: Int64s, sizes: Int64s) -> None:
        room = self._room[self.size : self.size + int(sizes.sum())]
        is_full = bool(self._raw) or room.size < sizes.sum()
        out = np.empty(int(sizes.sum()), np.uint8) if is_full else room
        starts = np.cumsum(sizes) - sizes
        is_long = columns[row.BODY_START] < 0  # then its bytes are not in the window
        moves = np.ascontiguousarray(
            np.stack([columns[row.RECORD_START], columns[row.SIZE], starts])[:, ~is_long]
        )
        self._gather(batch.window, moves, out)
        for number in np.flatnonzero(is_long).tolist():
            position, size = (int(columns[which, number]) for which in (row.POSITION, row.SIZE))
            whole = np.empty(size, np.uint8)
            with batch.segment.open() as file:
                file.read_into(whole.data, position)
            move = np.array([[0], [size], [starts[number]]], np.int64)
            self._gather(whole, move, out)
        if is_full:
            self._raw.append(out)

    def _gather(self, window: UInt8s, moves: Int64s, out: UInt8s) -> None:
        if self.host.size or self._topic_width:
            kernels.gather_changed(window, moves, self.host, self._topic_width, out)
        elif moves.size:
            ends = moves[0, :-1] + moves[1, :-1]
            if (moves[0, 1:] == ends).all():  # as nearly always: one stretch
                start, length = int(moves[0, 0]), int(moves[1].sum())
                begin = int(moves[2, 0])
                out[begin : begin + length] = window[start : start + length]
            else:
                kernels.gather(window, moves, out)

    def finish(self) -> Chunk:
        """Give what was collected, and begin anew; topics stay known."""
        fields = (
            np.concatenate(self._fields, axis=1) if self._fields else np.empty((at.ROWS, 0), int)
        )
        raw = self._room[: self.size - sum(raw.size for raw in self._raw)]
        if self._raw:
            raw = np.concatenate([raw, *self._raw])
        notes = (self.blanks, self.gaps, self.left_out, self.defects)
        chunk = Chunk(fields, raw, list(self.topics), *notes)
        if self._census:
            chunk.contents, chunk.facts = np.concatenate(self._census, axis=1)
            self._census = []
        self.blanks, self.gaps, self.left_out, self.defects = [], [], Counter(), Counter()
        self._fields, self._raw, self._room, self.size = [], [], _NOTHING, 0
        return chunk
