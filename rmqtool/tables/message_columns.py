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
    from collections.abc import Callable, Collection

    import numpy.typing as npt

    from rmqtool.scan.batch import Batch

    Int64s: TypeAlias = npt.NDArray[np.int64]
    Maker: TypeAlias = Callable[[Batch, Int64s], pa.Array]

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
EVERYTHING: Final = frozenset(SCHEMA.names)
_BODIES: Final = frozenset(Body._fields)


def stretches(batch: Batch, columns: Int64s, start: int) -> Stretches:
    """Give the stretches whose start is in one row of the columns, and their length in the next."""
    return Stretches(batch.window, columns[start], columns[start + 1])


def message_columns(
    batch: Batch, columns: Int64s, body: BodyOptions, wanted: Collection[str] = EVERYTHING
) -> dict[str, pa.Array]:
    """Give the public columns of some records of a batch; one that is missing is all null.

    Args:
        batch: whose window the columns index.
        columns: int64, shape (ROWS, n); the records.
        body: how bodies are shown.
        wanted: names of the columns to make; others take no time.
    """
    found = {name: make(batch, columns) for name, make in _MAKERS.items() if name in wanted}
    for names, make_all in _TOGETHER:
        if not names.isdisjoint(wanted):
            found |= make_all(batch, columns)
    if body.mode is not BodyMode.NONE and not _BODIES.isdisjoint(wanted):
        found |= _bodies(batch, columns, body)
    if "code" in wanted:
        found |= _codes(columns)
    return found


def _codes(columns: Int64s) -> dict[str, pa.Array]:
    differs = columns[row.BODY_CRC] != columns[row.BODY_CRC_FOUND]
    differs &= columns[row.BODY_LENGTH] > 0  # an empty body is not checked by the broker, either
    if not differs.any():
        return {}
    return {"code": pa.array(["CL-CRC" if one else None for one in differs.tolist()], TEXT)}


def _number(name: str, number: int) -> Maker:
    kind = SCHEMA.field(name).type.to_pandas_dtype()
    return lambda _, columns: pa.array(columns[number].astype(kind))


def _time(number: int) -> Maker:
    return lambda _, columns: arrow.times(columns[number])


def _host(make: Callable[..., pa.Array]) -> Maker:
    return lambda batch, columns: make(
        batch.window, columns[row.RECORD_START], columns[row.SYS_FLAG]
    )


def _text(start: int) -> Maker:
    def make(batch: Batch, columns: Int64s) -> pa.Array:
        found = stretches(batch, columns, start)
        return strings(found, found.lengths == 0)

    return make


def _word(word: Callable[[int], str]) -> Maker:
    return lambda _, columns: arrow.few_words(columns[row.SYS_FLAG], word)


def _versions(_: Batch, columns: Int64s) -> pa.Array:
    is_second = columns[row.MAGIC_CODE] == MESSAGE_MAGIC_CODE_V2
    return pa.array(np.where(is_second, 2, 1).astype(np.int32))


def _texts_of_topics(batch: Batch, columns: Int64s) -> dict[str, pa.Array]:
    topics = pa.array(columns[row.TOPIC_NUMBER]).dictionary_encode()
    raw = [batch.topics[number] for number in topics.dictionary.to_pylist()]
    names = pa.array([java.text(name) for name in raw], TEXT)
    found = {"topic": pa.DictionaryArray.from_arrays(topics.indices, names)}
    exact = [_b64_unless_text(name) for name in raw]
    if any(exact):
        found["topic_b64"] = pa.array(exact, TEXT).take(topics.indices)
    return found


def _b64_unless_text(raw: bytes) -> str | None:
    is_text = raw.decode("utf-8", "replace").encode() == raw
    return None if is_text else base64.b64encode(raw).decode("ascii")


def _properties_columns(batch: Batch, columns: Int64s) -> dict[str, pa.Array]:
    stored = stretches(batch, columns, row.PROPERTIES_START)
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


_MAKERS: Final[dict[str, Maker]] = {
    **{name: _number(name, number) for name, number in _NUMBERS.items()},
    "transaction": _word(sys_flag.transaction),
    "compression": _word(sys_flag.compression),
    "segment": lambda batch, columns: arrow.constant(batch.segment.path, columns.shape[1]),
    "version": _versions,
    "born_time": _time(row.BORN_TIMESTAMP),
    "store_time": _time(row.STORE_TIMESTAMP),
    "born_host": _host(born_hosts),
    "store_host": _host(store_hosts),
    "message_id": _host(message_ids),
    "tags": _text(row.TAGS_START),
    "unique_key": _text(row.UNIQUE_KEY_START),
    "keys": lambda batch, columns: lists_of_keys(stretches(batch, columns, row.KEYS_START)),
}
_TOGETHER: Final = (
    (frozenset({"topic", "topic_b64"}), _texts_of_topics),
    (frozenset({"properties", "properties_b64"}), _properties_columns),
)
