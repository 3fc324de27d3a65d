"""Know the records that a repair has put over damage, so that no check blames them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.scan import columns as row

if TYPE_CHECKING:
    from rmqtool.scan.batch import Batch

BRIDGE_TOPIC: Final = b"rmqtool"


def is_bridge(batch: Batch, number: int) -> bool:
    """Tell whether repair has put this record over damage."""
    if not batch.has_texts:
        return False
    return batch.topics[int(batch.matrix[row.TOPIC_NUMBER, number])] == BRIDGE_TOPIC
