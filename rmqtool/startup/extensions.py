"""Extensions of consume queues: what of them keeps a broker from starting.

They are loaded with their queue, and recovered when the queue has a file: from unit to unit by the
sizes in them, and a size that leads behind the end of its file is one at which Java throws. Where
they are cut afterwards is not foretold. Source: ConsumeQueue#load, #recover, ConsumeQueueExt
#recover, CqExtUnit#readBySkip, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.consume_queue_ext import EXT_UNIT
from rmqtool.startup.load import exists
from rmqtool.startup.settings import lengths_of
from rmqtool.startup.start_file import StartFails

if TYPE_CHECKING:
    from rmqtool.startup.files import FileQueue, ModelFile
    from rmqtool.startup.model import Model, QueueKey
    from rmqtool.store.tree import Store

DIRECTORY: Final = "consumequeue_ext"
_SIZE: Final = EXT_UNIT["size"]

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
        if model.queues[key].files.files:
            for file in files.files:
                _follow(file)


def _follow(file: ModelFile) -> None:
    """Go from unit to unit up to one without a size, as for the end mark and unused space."""
    assert file.place is not None  # noqa: S101 - nothing of an extension has been created
    with file.place.open() as opened:
        raw = opened.read_at(0, file.wrote_position)
    position = 0
    while position + _SIZE.end <= len(raw):
        size = _SIZE.of(raw, position)
        if size <= 0:
            return
        position += size
    raise StartFails(file.path, f"units lead to byte {position} of {len(raw)}, and Java throws")
