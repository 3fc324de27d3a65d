"""Extensions of consume queues: what of them keeps a broker from starting, or from delivering.

They are loaded with their queue, and recovered when the queue has a file: from unit to unit by the
sizes in them, and a size that leads past the end of its file is one at which Java throws. So is a
bitmap that does; whoever pulls its message gets an error each time. What a start appends to them is
not foretold. Source: ConsumeQueue#load, #recover, ConsumeQueueExt#recover, #get, CqExtUnit
#readBySkip, #read, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.formats.consume_queue_ext import EXT_UNIT, LARGEST_ADDRESS, real_offset
from rmqtool.startup.load import exists
from rmqtool.startup.settings import lengths_of
from rmqtool.startup.start_file import StartFails

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqtool.queues.kinds import Units
    from rmqtool.startup.files import FileQueue, ModelFile
    from rmqtool.startup.model import Model, QueueKey
    from rmqtool.store.tree import Store

DIRECTORY: Final = "consumequeue_ext"
_SIZE: Final = EXT_UNIT["size"]
_BIT_MAP_SIZE: Final = EXT_UNIT["bit_map_size"]

Extensions = dict["QueueKey", "FileQueue"]


def load_extensions(store: Store, model: Model) -> Extensions:
    """List the extensions of all queues; without a broker.conf their directory tells of them.

    Raises:
        UnreadablePath: a directory may not be listed.
    """
    place = store.root.child(DIRECTORY)
    if not (model.settings.has_ext or (store.broker_conf is None and exists(place))):
        return {}
    length = lengths_of(store, model.rules.version).consume_queue_ext.value
    return {
        (topic, queue_id): model.loader.load(
            [(place.child(topic).child(str(queue_id)), f"{DIRECTORY}/{topic}/{queue_id}")], length
        )
        for topic, queue_id in model.queues
    }


def recover_extensions(model: Model, extensions: Extensions) -> None:
    """Follow the units of all extensions.

    Raises:
        StartFails: a size leads behind the end of its file.
        UnreadablePath: a file cannot be read.
    """
    for key, files in extensions.items():
        if model.queues[key].files.files and files.files:
            ends = [file.start + _follow(file) for file in files.files]
            files.cut(ends[-1])


class Unfit:
    """Tells of which units of a queue Java cannot read the extension.

    Args:
        files: of the extension, after recovery.
    """

    def __init__(self, files: FileQueue) -> None:
        self._files = files
        self._read: tuple[ModelFile | None, bytes] = None, b""

    def rows(self, units: Units) -> NDArray[np.int64]:
        """Give the rows at which a pull throws: int64, shape (n,); units of shape (m,)."""
        codes = units["tags_code"].astype(np.int64)
        candidates = np.flatnonzero(codes <= LARGEST_ADDRESS)
        throws = [self._throws(int(code)) for code in codes[candidates].tolist()]
        return candidates[np.array(throws, np.bool_)]

    def _throws(self, address: int) -> bool:
        """Source: ConsumeQueueExt#get, CqExtUnit#read."""
        place = real_offset(address)
        file = self._files.find(place, or_first=place == 0)
        if file is None:
            return False
        position, raw = place % self._files.file_length, self._bytes_of(file)
        if position + _SIZE.end > len(raw) or _SIZE.of(raw, position) < 1:
            return False
        if position + EXT_UNIT.size > len(raw):
            return True
        return position + EXT_UNIT.size + max(_BIT_MAP_SIZE.of(raw, position), 0) > len(raw)

    def _bytes_of(self, file: ModelFile) -> bytes:
        if self._read[0] is not file:
            with file.open() as reader:
                self._read = file, reader.read_at(0, file.wrote_position)
        return self._read[1]


def _follow(file: ModelFile) -> int:
    """Go from unit to unit up to one without a size, as for the end mark and unused space.

    Returns:
        the position of that one.
    """
    assert file.place is not None  # noqa: S101 - nothing of an extension has been created
    with file.place.open() as opened:
        raw = opened.read_at(0, file.wrote_position)
    position = 0
    while position + _SIZE.end <= len(raw):
        size = _SIZE.of(raw, position)
        if size <= 0:
            return position
        position += size
    raise StartFails(file.path, f"units lead to byte {position} of {len(raw)}, and Java throws")
