"""Edits of consume queue extensions: one that no broker can follow is taken out.

A broker that recovers an extension goes by the sizes of its units, and one that leads astray keeps
it from starting. The queue's units get plain tags codes instead of addresses (`queues`): only bit
maps of filters are lost. Source: ConsumeQueueExt#recover, CqExtUnit#readBySkip; observed, 4.9.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.repair.writer import Writer
    from rmqtool.store.segment import MappedFiles

REASON: Final = "its sizes lead astray, and a broker would not start"
LOST: Final = "bit maps of filters: brokers evaluate the expressions on the messages instead"


def edit(writer: Writer, extensions: Iterable[MappedFiles]) -> None:
    """Take extensions out; they are kept in the undo directory."""
    for files in extensions:
        for place in files.places:
            writer.remove(place.location, "CX-SIZE", REASON, lost=LOST)
