"""Every Layout by name: what the parity test, the manual page and `--as` walk over."""

from __future__ import annotations

from typing import Final

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.consume_queue_ext import EXT_UNIT
from rmqtool.formats.dledger import DLEDGER_BLANK, DLEDGER_ENTRY, DLEDGER_INDEX_UNIT
from rmqtool.formats.index import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT
from rmqtool.formats.inner_batch import CLIENT_MESSAGE_PREFIX
from rmqtool.formats.message import BLANK, MESSAGE_MIDDLES, MESSAGE_PREFIX
from rmqtool.formats.message_id import (
    CLIENT_MESSAGE_ID,
    OFFSET_MESSAGE_ID,
    OFFSET_MESSAGE_ID_V6,
    UNIQUE_KEY_TAIL,
)
from rmqtool.formats.rocksdb_config import (
    CONFIG_KEY,
    CONFIG_OFFSET,
    CONFIG_VERSION,
    NAME_LENGTH,
    QUEUE_NUMBER,
)
from rmqtool.formats.rocksdb_families import POP_TAIL, POP_TIME
from rmqtool.formats.rocksdb_queue import (
    CQ_KEY_HEAD,
    CQ_KEY_TAIL,
    DISPATCHED,
    OFFSET_KEY_TAIL,
    QUEUE_END,
    ROCKSDB_CQ_UNIT,
)
from rmqtool.formats.rocksdb_store import (
    DELIVER_TIME,
    HALF_OFFSET,
    HALF_VALUE,
    HOUR,
    INDEX_OFFSET,
    INDEX_TIME,
    NUMBER,
    TIMER_VALUE,
)
from rmqtool.formats.tiered_index import (
    TIERED_INDEX_COMPACTED_ITEM,
    TIERED_INDEX_HEADER,
    TIERED_INDEX_ITEM,
    TIERED_INDEX_SLOT,
)
from rmqtool.formats.timer import TIMER_BLANK, TIMER_CHECK, TIMER_LOG_RECORD, TIMER_SLOT

LAYOUTS: Final = {
    layout.name: layout
    for layout in (
        MESSAGE_PREFIX,
        *MESSAGE_MIDDLES.values(),
        BLANK,
        CLIENT_MESSAGE_PREFIX,
        DLEDGER_ENTRY,
        DLEDGER_BLANK,
        DLEDGER_INDEX_UNIT,
        CQ_UNIT,
        EXT_UNIT,
        BATCH_CQ_UNIT,
        INDEX_HEADER,
        INDEX_SLOT,
        INDEX_ENTRY,
        CHECKPOINT,
        TIERED_INDEX_HEADER,
        TIERED_INDEX_SLOT,
        TIERED_INDEX_ITEM,
        TIERED_INDEX_COMPACTED_ITEM,
        TIMER_SLOT,
        TIMER_LOG_RECORD,
        TIMER_BLANK,
        TIMER_CHECK,
        OFFSET_MESSAGE_ID,
        OFFSET_MESSAGE_ID_V6,
        UNIQUE_KEY_TAIL,
        CLIENT_MESSAGE_ID,
        CQ_KEY_HEAD,
        CQ_KEY_TAIL,
        ROCKSDB_CQ_UNIT,
        OFFSET_KEY_TAIL,
        QUEUE_END,
        DISPATCHED,
        HOUR,
        INDEX_OFFSET,
        INDEX_TIME,
        NUMBER,
        DELIVER_TIME,
        TIMER_VALUE,
        HALF_OFFSET,
        HALF_VALUE,
        CONFIG_KEY,
        NAME_LENGTH,
        QUEUE_NUMBER,
        CONFIG_VERSION,
        CONFIG_OFFSET,
        POP_TIME,
        POP_TAIL,
    )
}
