"""Every Layout by name: what the parity test, the manual page and `--as` walk over."""

from __future__ import annotations

from typing import Final

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.index import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT
from rmqtool.formats.message import BLANK, MESSAGE_MIDDLES, MESSAGE_PREFIX
from rmqtool.formats.tiered_index import (
    TIERED_INDEX_COMPACTED_ITEM,
    TIERED_INDEX_HEADER,
    TIERED_INDEX_ITEM,
    TIERED_INDEX_SLOT,
)

LAYOUTS: Final = {
    layout.name: layout
    for layout in (
        MESSAGE_PREFIX,
        *MESSAGE_MIDDLES.values(),
        BLANK,
        CQ_UNIT,
        BATCH_CQ_UNIT,
        INDEX_HEADER,
        INDEX_SLOT,
        INDEX_ENTRY,
        CHECKPOINT,
        TIERED_INDEX_HEADER,
        TIERED_INDEX_SLOT,
        TIERED_INDEX_ITEM,
        TIERED_INDEX_COMPACTED_ITEM,
    )
}
