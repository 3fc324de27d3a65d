"""The public columns of message rows, made from the columns and the window of a scan."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from rmqtool.formats import java, sys_flag
from rmqtool.formats.message import MESSAGE_MAGIC_CODE_V2, MESSAGE_PREFIX, middle_of
from rmqtool.scan import columns as row
from rmqtool.tables import arrow
from rmqtool.tables.arrow import TEXT, TIME
from rmqtool.tables.bodies import Body, BodyMode, BodyOptions, show
from rmqtool.tables.hosts import born_hosts, message_ids, store_hosts
from rmqtool.tables.texts import Stretches, lists_of_keys, properties, strings

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from rmqtool.scan.batch import Batch
    from rmqtool.scan.topics import TopicTable

    Int64s: TypeAlias = npt.NDArray[np.int64]

SCHEMA: Final = pa.schema(
    [
        ("physical_offset", pa.int64()),
        ("size", pa.int64()),
        ("segment", TEXT),
        ("position", pa.int64()),
        ("version", pa.int32()),
        ("topic", TEXT),
        ("topic_b64", TEXT),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("flag", pa.int32()),
        ("sys_flag", pa.int32()),
        ("transaction", TEXT),
        ("compression", TEXT),
        ("born_time", TIME),
        ("born_host", TEXT),
        ("store_time", TIME),
        ("store_host", TEXT),
        ("reconsume_times", pa.int32()),
        ("prepared_transaction_offset", pa.int64()),
        ("body_crc", pa.int32()),
        ("body_size", pa.int32()),
        ("tags", TEXT),
        ("keys", pa.list_(TEXT)),
        ("unique_key", TEXT),
        ("message_id", TEXT),
        ("properties", pa.map_(TEXT, TEXT)),
        ("properties_b64", TEXT),
        ("body", TEXT),
        ("body_b64", TEXT),
        ("body_error", TEXT),
        ("extent", TEXT),
        ("code", TEXT),
    ]
)
_NUMBERS: Final = {
    "physical_offset": row.PHYSICAL_OFFSET,
    "size": row.SIZE,
    "position": row.POSITION,
    "queue_id": row.QUEUE_ID,
    "queue_offset": row.QUEUE_OFFSET,
    "flag": row.FLAG,
    "sys_flag": row.SYS_FLAG,
    "reconsume_times": row.RECONSUME_TIMES,
    "prepared_transaction_offset": row.PREPARED_TRANSACTION_OFFSET,
    "body_crc": row.BODY_CRC,
    "body_size": row.BODY_LENGTH,
}
_WORDS_OF_FLAGS: Final = {"transaction": sys_flag.transaction, "compression": sys_flag.compression}


def stretches(batch: Batch, columns: Int64s, start: int) -> Stretches:
    """Give the stretches whose start is in one row of the columns, and their length in the next."""
    return Stretches(batch.window, columns[start], columns[start + 1])


def message_columns(batch: Batch, columns: Int64s, body: BodyOptions) -> dict[str, pa.Array]:
    """Give the public columns of some records of a batch; one that is missing is all null."""
    flags, records = columns[row.SYS_FLAG], columns[row.RECORD_START]
    tags = stretches(batch, columns, row.TAGS_START)
    unique_keys = stretches(batch, columns, row.UNIQUE_KEY_START)
    found: dict[str, pa.Array] = {
        name: pa.array(columns[number].astype(SCHEMA.field(name).type.to_pandas_dtype()))
        for name, number in _NUMBERS.items()
    }
    found |= {name: _flag_words(flags, word) for name, word in _WORDS_OF_FLAGS.items()}
    found |= _texts_of_topics(batch.topics, columns[row.TOPIC_NUMBER])
    found |= _properties_columns(stretches(batch, columns, row.PROPERTIES_START))
    found["segment"] = arrow.constant(batch.segment.path, len(flags))
    found["version"] = pa.array(
        np.where(columns[row.MAGIC_CODE] == MESSAGE_MAGIC_CODE_V2, 2, 1).astype(np.int32)
    )
    found["born_time"] = arrow.times(columns[row.BORN_TIMESTAMP])
    found["store_time"] = arrow.times(columns[row.STORE_TIMESTAMP])
    found["born_host"] = born_hosts(batch.window, records, flags)
    found["store_host"] = store_hosts(batch.window, records, flags)
    found["message_id"] = message_ids(batch.window, records, flags)
    found["tags"] = strings(tags, tags.lengths == 0)
    found["unique_key"] = strings(unique_keys, unique_keys.lengths == 0)
    found["keys"] = lists_of_keys(stretches(batch, columns, row.KEYS_START))
    if body.mode is not BodyMode.NONE:
        found |= _bodies(batch, columns, body)
    differs = columns[row.BODY_CRC] != columns[row.BODY_CRC_FOUND]
    differs &= columns[row.BODY_LENGTH] > 0  # an empty body is not checked by the broker, either
    if differs.any():
        found["code"] = pa.array(["CL-CRC" if one else None for one in differs.tolist()], TEXT)
    return found


def _flag_words(flags: Int64s, word: Callable[[int], str]) -> pa.DictionaryArray:
    few, numbers = np.unique(flags, return_inverse=True)
    return arrow.words(numbers.astype(np.int64), [word(int(flag)) for flag in few])


def _texts_of_topics(topics: TopicTable, numbers: Int64s) -> dict[str, pa.Array]:
    few, places = np.unique(numbers, return_inverse=True)
    raw = [topics[int(number)] for number in few]
    indices = pa.array(places.astype(np.int32))
    names = pa.array([java.text(name) for name in raw], TEXT)
    exact = [_b64_unless(name, name.decode("utf-8", "replace").encode() == name) for name in raw]
    return {
        "topic": pa.DictionaryArray.from_arrays(indices, names),
        "topic_b64": pa.array(exact, TEXT).take(indices),
    }


def _b64_unless(raw: bytes, is_text: bool) -> str | None:
    return None if is_text else base64.b64encode(raw).decode("ascii")


def _properties_columns(stored: Stretches) -> dict[str, pa.Array]:
    found = properties(stored)
    if not found.lossy.size:
        return {"properties": found.maps}
    exact: list[str | None] = [None] * len(stored.starts)
    for number in found.lossy.tolist():
        exact[number] = base64.b64encode(stored.raw(number)).decode("ascii")
    return {"properties": found.maps, "properties_b64": pa.array(exact, TEXT)}


def _bodies(batch: Batch, columns: Int64s, options: BodyOptions) -> dict[str, pa.Array]:
    shown = [_body(batch, columns[:, number], options) for number in range(columns.shape[1])]
    return {name: pa.array([getattr(one, name) for one in shown], TEXT) for name in Body._fields}


def _body(batch: Batch, record: Int64s, options: BodyOptions) -> Body:
    start, length = int(record[row.BODY_START]), int(record[row.BODY_LENGTH])
    flags = int(record[row.SYS_FLAG])
    if length > options.ceiling:
        return Body(body_error=f"{length} bytes, {options.ceiling} are the limit")
    if start >= 0:
        return show(batch.text(start, length), flags, options)
    with batch.segment.open() as file:  # a record that is too long for a window
        position = int(record[row.POSITION]) + MESSAGE_PREFIX.size + middle_of(flags).size
        return show(file.read_at(position, length), flags, options)
