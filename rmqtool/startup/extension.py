"""The extension of one consume queue in a starting broker: recovered, appended to, pulled from.

It is loaded with its queue, and recovered when the queue has a file: from unit to unit by the
sizes in them, and a size that leads past the end of its file is one at which Java throws. So is a
bitmap that does; whoever pulls its message gets an error each time. After the newest address that
recovery met in the queue, a start appends a unit for each record that it dispatches, whether the
queue has that record already or not: an older unit whose address lies there leads into the middle
of what it wrote. Which bits of a bitmap it sets is not foretold.
Source: ConsumeQueue#load, #recover, #putMessagePositionInfoWrapper, #correctMinOffset,
ConsumeQueueExt#recover, #get, #put, CqExtUnit #readBySkip, #read, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.consume_queue_ext import (
    END_BLANK,
    END_BLANK_DATA_LENGTH,
    EXT_UNIT,
    LARGEST_ADDRESS,
    MAX_EXT_UNIT_SIZE,
    MAX_REAL_OFFSET,
    ExtUnit,
    address,
    encode,
    is_ext_address,
    real_offset,
)
from rmqtool.startup.files import FileQueue
from rmqtool.startup.load import StartFails
from rmqtool.startup.units import chunks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from rmqtool.queues.kinds import Units
    from rmqtool.startup.files import ModelFile

DIRECTORY: Final = "consumequeue_ext"
_SIZE: Final = EXT_UNIT["size"]
_BIT_MAP_SIZE: Final = EXT_UNIT["bit_map_size"]


class _Throws(Exception):
    """Java throws at a unit; never leaves this module."""


@dataclass(slots=True)
class Extension:
    """The extension of one queue."""

    files: FileQueue  # its files
    bit_map_size: int = 0  # bytes of the bitmap of a unit that is appended
    _read: tuple[ModelFile | None, bytes] = (None, b"")

    def recover(self, newest: int | None) -> None:
        """Follow the units; go on after the one at the newest address that the queue has.

        Source: ConsumeQueueExt#recover, #truncateByMaxAddress.

        Raises:
            StartFails: a size leads past the end of its file.
            UnreadablePath: a file cannot be read.
        """
        if not self.files.files:
            return
        ends = [file.start + _follow(file) for file in self.files.files]
        self.files.cut(ends[-1])
        if newest is None:
            return
        try:
            size = self._size(newest)
        except _Throws:
            raise StartFails(self.files.path, "the newest unit is torn, and Java throws") from None
        if size:
            self.files.cut(real_offset(newest) + size)
        self._read = None, b""  # of a file that is written to from now on

    def put(self, tags_code: int, store_timestamp: int) -> int | None:
        """Append a unit; give its address, or None where there is no room for it.

        Source: ConsumeQueueExt#put, #fullFillToEnd.
        """
        size = EXT_UNIT.size + self.bit_map_size
        if size > MAX_EXT_UNIT_SIZE or self.files.maximum + size > MAX_REAL_OFFSET:
            return None
        for _ in range(2):
            file = self.files.last_for_append(0)
            position = file.wrote_position
            room = file.length - position
            if size <= room - END_BLANK_DATA_LENGTH:
                unit = ExtUnit(size, tags_code, store_timestamp, bytes(self.bit_map_size))
                file.append(encode(unit))
                return address(file.start + position)
            if room < _SIZE.size:
                return None  # Java throws, and takes the tags code instead of an address
            file.append(_SIZE.build(END_BLANK))
            file.wrote_position = file.length
        return None

    def delete_before(self, oldest: int) -> None:
        """Delete the files before an address. Source: ConsumeQueueExt#truncateByMinAddress."""
        if is_ext_address(oldest):
            self.files.delete_before(real_offset(oldest))

    def unfit(self, units: Units) -> NDArray[np.int64]:
        """Give the rows at which a pull throws: int64, shape (n,); units of shape (m,)."""
        codes = units["tags_code"].astype(np.int64)
        candidates = np.flatnonzero(codes <= LARGEST_ADDRESS)
        throws = [self._throws(int(code)) for code in codes[candidates].tolist()]
        return candidates[np.array(throws, np.bool_)]

    def _throws(self, at: int) -> bool:
        try:
            self._size(at)
        except _Throws:
            return True
        return False

    def _size(self, at: int) -> int:
        """Give the size that the unit at an address states; 0 where none is.

        Source: ConsumeQueueExt#get, CqExtUnit#read.

        Raises:
            _Throws: it goes on after what has been written.
        """
        place = real_offset(at)
        file = self.files.find(place, or_first=place == 0)
        if file is None:
            return 0
        position, raw = place % self.files.file_length, self._bytes_of(file)
        if position + _SIZE.end > len(raw) or (size := _SIZE.of(raw, position)) < 1:
            return 0
        if position + EXT_UNIT.size > len(raw):
            raise _Throws
        if position + EXT_UNIT.size + max(_BIT_MAP_SIZE.of(raw, position), 0) > len(raw):
            raise _Throws
        return int(size)

    def _bytes_of(self, file: ModelFile) -> bytes:
        if self._read[0] is not file:
            with file.open() as reader:
                self._read = file, reader.read_at(0, file.wrote_position)
        return self._read[1]


@dataclass(frozen=True, slots=True)
class ExtensionRules:
    """How a broker makes extensions."""

    file_length: int  # bytes of a file
    # bytes of the bitmap by topic; none of topics without a subscription
    bit_map_sizes: Mapping[str, int]

    def new(self, topic: str, queue_id: int) -> Extension:
        """Make the extension of a queue that is new; files that lie there are not loaded."""
        files = FileQueue(f"{DIRECTORY}/{topic}/{queue_id}", self.file_length)
        return Extension(files, self.bit_map_sizes.get(topic, 0))


def newest_address(file: ModelFile, end: int) -> int | None:
    """Give the last address in the units of a queue file up to a position; None without one.

    Raises:
        UnreadablePath: the disk refused.
    """
    newest = None
    with file.open() as reader:
        for units in chunks(reader, CQ_UNIT, 0, end):
            codes = units["tags_code"]
            addresses = codes[codes <= LARGEST_ADDRESS]
            if addresses.size:
                newest = int(addresses[-1])
    return newest


def _follow(file: ModelFile) -> int:
    """Go from unit to unit up to one without a size, as for the end mark and unused space.

    Returns:
        the position of that one.
    """
    with file.open() as opened:
        raw = opened.read_at(0, file.wrote_position)
    position = 0
    while position + _SIZE.end <= len(raw):
        size = _SIZE.of(raw, position)
        if size <= 0:
            return position
        position += size
    raise StartFails(file.path, f"units lead to byte {position} of {len(raw)}, and Java throws")
