"""The table of messages inside of batch records: one row a message that a client sent in a batch.

Source: MessageDecoder#decodeMessages, BatchConsumeQueue, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from rmqtool.errors import DecodeError
from rmqtool.findings.registry_commitlog import CL_BATCH
from rmqtool.formats import inner_batch, message, properties
from rmqtool.formats.compression import DEFAULT_CEILING_BYTES, decompress
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent
from rmqtool.tables.message_filter import wanted_records
from rmqtool.tables.messages import (
    MessageOptions,
    batches_of,
    damage_before,
    damage_of,
    damaged_record,
)
from rmqtool.tables.record_tables import INNER_BATCH
from rmqtool.tables.selection import EVERYTHING
from rmqtool.tables.single_record import SingleRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.formats.inner_batch import ClientMessage
    from rmqtool.formats.message import Message
    from rmqtool.rows import Row
    from rmqtool.scan.batch import Batch
    from rmqtool.store.segment import SegmentPart
    from rmqtool.table import Table
    from rmqtool.tables.selection import Selection

    Int64s: TypeAlias = npt.NDArray[np.int64]

_DAMAGE: Final = CL_BATCH


def inner_rows(part: SegmentPart, options: MessageOptions) -> Iterator[Row]:
    """Give the messages of the batch records that were asked for.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    with part.segment.open() as file:
        yield from damage_before(part, options)
        for batch in batches_of(part, options, start=None):
            if batch.kind is not Extent.RECORD:
                yield from damage_of(batch, options)
                continue
            for number in batch_records(batch, options.selection).tolist():
                position = int(batch.columns[row.POSITION, number])
                size = int(batch.columns[row.SIZE, number])
                raw = file.read_at(position, min(size, DEFAULT_CEILING_BYTES))
                if position in batch.damage:
                    yield damaged_record(batch, position)
                yield from messages_of(raw, part.segment.path, position, options)


def batch_records(batch: Batch, selection: Selection) -> Int64s:
    """Give the numbers of the batch records in which wanted messages may lie.

    Tags, keys and queue offsets are those of the messages inside: they do not count here.
    """
    outer = replace(selection, tag=None, key=None, properties=(), queue_offsets=EVERYTHING)
    is_batch = (batch.columns[row.SYS_FLAG] & SysFlag.INNER_BATCH_FLAG) != 0
    if not is_batch.any():
        return np.empty(0, np.int64)
    return np.flatnonzero(wanted_records(batch, outer) & is_batch)


def messages_of(
    raw: bytes, path: str, position: int, options: MessageOptions, table: Table = INNER_BATCH
) -> Iterator[Row]:
    """Take one batch record apart; what cannot be is a row.

    Args:
        raw: the whole record.
        path: of the segment.
        position: of the record there.
        options: which messages, and how their bodies are shown.
        table: whose columns the rows have.
    """
    damage: dict[str, object] = {"segment": path, "extent": "gap", "code": _DAMAGE}
    try:
        record = message.decode(raw, path=path, position=position)
    except DecodeError as error:
        yield {**damage, "reason": str(error)}
        return
    damage["physical_offset"] = record.physical_offset
    body = decompress(record.body, record.sys_flag)
    if body.body is None:
        yield {**damage, "reason": body.reason}
        return
    try:
        for number, inner in enumerate(inner_batch.messages(body.body)):
            if _is_wanted(inner, record.queue_offset + number, options.selection):
                yield _row(record, inner, number, path, options).row(table)
    except DecodeError as error:
        yield {**damage, "position": error.position, "reason": error.reason}


def _is_wanted(inner: ClientMessage, queue_offset: int, selection: Selection) -> bool:
    decoded = inner.properties
    keys = {*properties.keys(decoded), decoded.get(properties.UNIQ_KEY)}
    start, end = selection.queue_offsets
    return (
        (selection.tag is None or decoded.get(properties.TAGS) == selection.tag)
        and (selection.key is None or selection.key in keys)
        and all(decoded.get(name) == value for name, value in selection.properties)
        and (start is None or queue_offset >= start)
        and (end is None or queue_offset < end)
    )


def _row(
    record: Message, inner: ClientMessage, number: int, path: str, options: MessageOptions
) -> SingleRecord:
    """Give a message inside as a record, which has its own length, queue offset, flag and texts."""
    own = record._replace(
        total_size=inner.total_size,
        queue_offset=record.queue_offset + number,
        flag=inner.flag,
        sys_flag=0,  # its body is decompressed
        body=inner.body,
        properties_bytes=inner.properties_bytes,
    )
    return SingleRecord(own, path, inner.position, options.body, number=number)
