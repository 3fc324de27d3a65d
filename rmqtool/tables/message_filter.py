"""Which records of a batch are wanted, decided on the bytes as they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rmqtool.scan import columns as row
from rmqtool.tables import text_kernels as kernels
from rmqtool.tables.record_columns import stretches
from rmqtool.tables.texts import values_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.scan.batch import Batch
    from rmqtool.scan.topics import TopicTable
    from rmqtool.tables.selection import Range, Selection

    Int64s: TypeAlias = npt.NDArray[np.int64]
    UInt8s: TypeAlias = npt.NDArray[np.uint8]


def wanted_records(batch: Batch, selection: Selection) -> UInt8s:
    """Mark the rows that were asked for."""
    columns, window = batch.columns, batch.window
    mask = np.ones(batch.count, np.uint8)
    if selection.topics:
        numbers = _topic_numbers(batch.topics, selection.topics)
        mask &= np.isin(columns[row.TOPIC_NUMBER], numbers)
    if selection.queue_id is not None:
        mask &= columns[row.QUEUE_ID] == selection.queue_id
    _keep(mask, columns[row.PHYSICAL_OFFSET], selection.offsets)
    _keep(mask, columns[row.QUEUE_OFFSET], selection.queue_offsets)
    _keep(mask, columns[row.STORE_TIMESTAMP], selection.store_time)
    if selection.tag is not None:
        tags = stretches(batch, columns, row.TAGS_START).places
        kernels.match_text(window, tags, _bytes(selection.tag), mask)
    if selection.key is not None:
        keys = stretches(batch, columns, row.KEYS_START).places
        unique_keys = stretches(batch, columns, row.UNIQUE_KEY_START).places
        kernels.match_key(window, keys, unique_keys, _bytes(selection.key), mask)
    for name, value in selection.properties:
        values = values_of(stretches(batch, columns, row.PROPERTIES_START), name)
        kernels.match_text(window, values.places, _bytes(value), mask)
        mask &= values.lengths > 0  # an empty value is not one
    return mask


def _keep(mask: UInt8s, values: Int64s, wanted: Range) -> None:
    """Clear the mask where a value lies outside of a range."""
    start, end = wanted
    if start is not None:
        mask &= values >= start
    if end is not None:
        mask &= values < end


def _topic_numbers(topics: TopicTable, wanted: tuple[str, ...]) -> list[int]:
    names = {name.encode("utf-8", "surrogateescape") for name in wanted}
    return [number for number in range(len(topics)) if topics[number] in names]


def _bytes(text: str) -> UInt8s:
    return np.frombuffer(text.encode("utf-8", "surrogateescape"), np.uint8).copy()
