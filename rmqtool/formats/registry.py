"""Every Layout by name: what the parity test, the manual page and `--as` walk over."""

from __future__ import annotations

from typing import Final

from rmqtool.formats import (
    batch_queue,
    checkpoint,
    consume_queue,
    consume_queue_ext,
    dledger,
    index,
    inner_batch,
    message,
    message_id,
    rocksdb_config,
    rocksdb_families,
    rocksdb_queue,
    rocksdb_store,
    tiered_index,
    timer,
)
from rmqtool.formats.layout import Layout

MODULES: Final = (
    *(message, inner_batch, dledger, consume_queue, consume_queue_ext, batch_queue, index),
    *(checkpoint, tiered_index, timer, message_id),
    *(rocksdb_queue, rocksdb_store, rocksdb_config, rocksdb_families),
)
LAYOUTS: Final[dict[str, Layout]] = {
    layout.name: layout
    for module in MODULES
    for value in vars(module).values()
    for layout in (value.values() if isinstance(value, dict) else (value,))
    if isinstance(layout, Layout)
}
