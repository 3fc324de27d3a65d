"""What records are carved out of: a file, a compressed one, a block device.

A sector that cannot be read is zeros to a search, and is counted.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.archives.opening import unpack
from rmqtool.errors import UnreadablePath
from rmqtool.store.address import place_of
from rmqtool.store.containers import COMPRESSED, container_of
from rmqtool.store.device import open_device
from rmqtool.store.place import OpenFile
from rmqtool.writing.temporary_copy import TemporaryCopy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import ExitStack

    from typing_extensions import Buffer

SECTOR_BYTES: Final = 4096  # what is left out where the disk refuses
PART_BYTES: Final = 64 << 20
SKIPPED_HOLE: Final = 1 << 20  # bytes; a shorter one is read as the zeros that it is
_HEAD_BYTES: Final = 16


class Image:
    """One image, open. Several threads may read it.

    Attributes:
        name: as the user typed it.
        size: bytes.
        unread_bytes: that the disk did not give.
        first_refusal: why; None as long as all could be read.
        is_cut: why a compressed image could not be unpacked to its end; empty where it could.
    """

    def __init__(self, name: str, file: OpenFile) -> None:
        self.name, self.size = name, file.size
        self._file = file
        self.unread: dict[int, int] = {}
        self.first_refusal: UnreadablePath | None = None
        self.is_cut = ""
        self._lock = threading.Lock()

    @property
    def unread_bytes(self) -> int:
        """How many bytes the disk did not give."""
        return sum(self.unread.values())

    def read_into(self, buffer: Buffer, position: int) -> int:
        """Fill a writable buffer from `position` on; zeros stand for what the disk refuses."""
        view = memoryview(buffer).cast("B")
        wanted = max(min(len(view), self.size - position), 0)
        try:
            return self._file.read_into(view[:wanted], position)
        except UnreadablePath as error:
            if wanted > SECTOR_BYTES:
                half = wanted // 2 // SECTOR_BYTES * SECTOR_BYTES or SECTOR_BYTES
                first = self.read_into(view[:half], position)
                if first < half:
                    return first
                return half + self.read_into(view[half:wanted], position + half)
            view[:wanted] = bytes(wanted)
            with self._lock:
                self.unread[position] = wanted
                self.first_refusal = self.first_refusal or error
            return wanted

    def next_data(self, position: int) -> int | None:
        """Give the first position from here on that is not in a hole; None for none."""
        return self._file.next_data(position)

    def parts(self, part_bytes: int = PART_BYTES) -> Iterator[ImagePart]:
        """Give what is to be searched, without long holes."""
        position = 0
        while position < self.size:
            found = self._file.next_data(position)
            if found is None:
                return
            position = max(found, position)
            end = self._end_of_data(position, position + part_bytes)
            yield ImagePart(self, position, end)
            position = end

    def _end_of_data(self, position: int, most: int) -> int:
        """Give where the next long hole begins, `most` at most."""
        end = position
        while end < min(most, self.size):
            end = self._file.next_hole(end)
            after = self._file.next_data(end) if end < self.size else None
            if after is None or after - end >= SKIPPED_HOLE:
                break
            end = after
        return min(end, most, self.size)


class ImagePart(NamedTuple):
    """A stretch of an image."""

    image: Image  # which
    begin: int  # first byte
    end: int  # past the last


def open_image(
    path: str, keep: ExitStack, limit: int | None, advance: Callable[[int], None]
) -> Image:
    """Open what a user named.

    Args:
        path: of a file, of one that gzip or zstd compressed, or of a block device.
        keep: closes it.
        limit: bytes that it may take unpacked; None is what the disk has to spare.
        advance: takes the bytes that were unpacked.

    Raises:
        UnreadablePath: it cannot be read, or is neither a file nor a block device.
        WriteFailed: there is no room to unpack it.
    """
    place = place_of(path)
    file = open_device(place) or place.open()
    keep.callback(file.close)
    container = container_of(file.read_at(0, _HEAD_BYTES))
    is_stream = container is not None and container.is_compressed
    if container is None or not is_stream or not path.lower().endswith(COMPRESSED):
        return Image(path, file)
    copy = keep.enter_context(TemporaryCopy(limit))
    cuts: list[str] = []
    unpack(file, container, copy, cuts.append, advance)
    image = Image(path, OpenFile(place, copy.handle, copy.size))
    image.is_cut = "".join(cuts)
    return image
