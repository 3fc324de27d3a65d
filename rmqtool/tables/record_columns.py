"""The records of a batch of a scan as columns, made from its matrix and its window."""

from __future__ import annotations

import base64
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqtool.formats import java
from rmqtool.formats import properties as names
from rmqtool.formats.host import (
    IPV4_BYTES,
    IPV4_HOST_BYTES,
    IPV6_BYTES,
    host_text,
    ipv4_host,
    split_host,
)
from rmqtool.formats.message import MESSAGE_MAGIC_CODE_V2, MESSAGE_MIDDLES, MESSAGE_PREFIX
from rmqtool.formats.message_id import OffsetMessageId
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.scan import columns as row
from rmqtool.tables import arrow
from rmqtool.tables import text_kernels as kernels
from rmqtool.tables.arrow import TEXT, few_words
from rmqtool.tables.record_tables import MESSAGES
from rmqtool.tables.texts import (
    Properties,
    TextStretches,
    lists_of_keys,
    properties,
    strings,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import numpy.typing as npt

    from rmqtool.scan.batch import Batch
    from rmqtool.tables.body_groups import BodyColumns

    Int64s: TypeAlias = npt.NDArray[np.int64]
    import numpy.typing as npt

    UInt8s: TypeAlias = npt.NDArray[np.uint8]


SCHEMA: Final = MESSAGES.arrow
EVERYTHING: Final = frozenset(MESSAGES.names)
_SOURCES: Final = [
    (column.name, column.source) for column in MESSAGES.columns if column.source is not None
]
# Properties whose place the scan has found already: the row in which it begins.
_FOUND: Final = {names.TAGS: row.TAGS_START, names.UNIQ_KEY: row.UNIQUE_KEY_START}


def stretches(batch: Batch, columns: Int64s, start: int) -> TextStretches:
    """Give the stretches whose start is in one row of the columns, and their length in the next."""
    return TextStretches(batch.window, columns[start], columns[start + 1])


def message_columns(
    batch: Batch,
    columns: Int64s,
    bodies: BodyColumns | None,
    wanted: Collection[str] = EVERYTHING,
) -> dict[str, pa.Array]:
    """Give the public columns of some records of a batch; one that is missing is all null.

    Args:
        batch: whose window the columns index.
        columns: int64, shape (ROWS, n); the records.
        bodies: of the records; None where they are not shown.
        wanted: names of the columns to make; others take no time.
    """
    records = RecordColumns(batch, columns, bodies)
    by_name = {}
    for name, source in _SOURCES:
        if name in wanted:
            values = source.read(records)
            if isinstance(values, np.ndarray):
                values = pa.array(values.astype(_kind(name)))
            if values is not None:
                by_name[name] = values
    return by_name


@cache
def _kind(name: str) -> npt.DTypeLike:
    """Give the type of a column as numpy has it; of times, that would load pandas."""
    kind: npt.DTypeLike = SCHEMA.field(name).type.to_pandas_dtype()
    return kind


class RecordColumns:
    """Records of a batch, as `record_tables.Records`: integers as int64, all else as Arrow has it.

    A column that is all null is None.

    Args:
        batch: whose window the columns index.
        columns: int64, shape (ROWS, n); the records.
        bodies: of the records; None where they are not shown.
    """

    def __init__(self, batch: Batch, columns: Int64s, bodies: BodyColumns | None) -> None:
        self.batch, self.columns, self.bodies = batch, columns, bodies
        self.number = None  # of no batch
        self.position, self.body_size = columns[row.POSITION], columns[row.BODY_LENGTH]

    def stored(self, _field: str, number: int) -> Int64s:
        """Give a row of the scan's columns."""
        values: Int64s = self.columns[number]
        return values

    def time(self, _field: str, number: int) -> pa.Array:
        """Give a row of the scan's columns as times."""
        return arrow.times(self.columns[number])

    def flag_word(self, word: Callable[[int], str]) -> pa.DictionaryArray:
        """Give what the flags say."""
        return arrow.few_words(self.columns[row.SYS_FLAG], word)

    def property_value(self, name: str) -> pa.StringArray:
        """Give the values of a property."""
        if name in _FOUND:
            texts = stretches(self.batch, self.columns, _FOUND[name])
        else:
            texts = values_of(self._stored_properties, name)
        return strings(texts, texts.lengths == 0)

    @property
    def segment(self) -> pa.DictionaryArray:
        """The file."""
        return arrow.constant(self.batch.segment.path, self.columns.shape[1])

    @property
    def version(self) -> Int64s:
        """1, or 2 where the topic's length has two bytes."""
        return np.where(self.columns[row.MAGIC_CODE] == MESSAGE_MAGIC_CODE_V2, 2, 1)

    @cached_property
    def _topics(self) -> tuple[pa.Array, list[bytes]]:
        """The number of each record's topic among those of the batch, and their bytes."""
        topics = pa.array(self.columns[row.TOPIC_NUMBER]).dictionary_encode()
        return topics.indices, [
            self.batch.topics[number] for number in topics.dictionary.to_pylist()
        ]

    @property
    def topic(self) -> pa.DictionaryArray:
        """The topics as text."""
        indices, raw = self._topics
        return arrow.among(indices, [java.text(name) for name in raw])

    @property
    def topic_b64(self) -> pa.StringArray | None:
        """The topics that are no UTF-8."""
        indices, raw = self._topics
        exact = [_b64_unless_text(name) for name in raw]
        return pa.array(exact, TEXT).take(indices) if any(exact) else None

    def _host(self, make: Callable[..., pa.Array]) -> pa.Array:
        columns = self.columns
        return make(self.batch.window, columns[row.RECORD_START], columns[row.SYS_FLAG])

    @property
    def born_host(self) -> pa.DictionaryArray:
        """The clients."""
        return self._host(born_hosts)

    @property
    def store_host(self) -> pa.DictionaryArray:
        """The brokers."""
        return self._host(store_hosts)

    @property
    def message_id(self) -> pa.StringArray:
        """The offset message IDs."""
        return self._host(message_ids)

    @property
    def keys(self) -> pa.ListArray:
        """The user's keys."""
        return lists_of_keys(stretches(self.batch, self.columns, row.KEYS_START))

    @property
    def _stored_properties(self) -> TextStretches:
        return stretches(self.batch, self.columns, row.PROPERTIES_START)

    @cached_property
    def _properties(self) -> Properties:
        return properties(self._stored_properties)

    @property
    def properties(self) -> pa.MapArray:
        """Names and values as the broker's reader gives them."""
        return self._properties.maps

    @property
    def properties_b64(self) -> pa.StringArray | None:
        """The properties where the map does not hold all of them."""
        lossy = self._properties.lossy
        if not lossy.size:
            return None
        raw = self._stored_properties
        exact: list[str | None] = [None] * len(raw.starts)
        for number in lossy.tolist():
            exact[number] = base64.b64encode(raw.raw(number)).decode("ascii")
        return pa.array(exact, TEXT)

    @property
    def body(self) -> pa.StringArray | None:
        """The bodies as they were asked for."""
        return None if self.bodies is None else self.bodies.body

    @property
    def body_b64(self) -> pa.StringArray | None:
        """The bodies that are no text."""
        return None if self.bodies is None else self.bodies.body_b64

    @property
    def body_error(self) -> pa.StringArray | None:
        """Why there is no body."""
        return None if self.bodies is None else self.bodies.body_error

    @property
    def code(self) -> pa.StringArray | None:
        """The finding codes of records that are damaged."""
        damage = self.batch.damage
        codes_at = [damage.get(position) for position in self.position.tolist()] if damage else []
        of_bodies = None if self.bodies is None else self.bodies.code
        if not any(codes_at):
            return of_bodies
        codes = pa.array(codes_at, TEXT)
        return codes if of_bodies is None else pc.coalesce(codes, of_bodies)


def _b64_unless_text(raw: bytes) -> str | None:
    is_text = raw.decode("utf-8", "replace").encode() == raw
    return None if is_text else base64.b64encode(raw).decode("ascii")


# Hosts and message IDs of records as texts: few hosts are written often, IDs are all different.


_V4: Final = IPV4_HOST_BYTES
_V6_EXTRA: Final = IPV6_BYTES - IPV4_BYTES
_BORN: Final = MESSAGE_PREFIX.size
_STORE: Final = _BORN + MESSAGE_MIDDLES[False, False].positions["store_address"]
_OFFSET: Final = MESSAGE_PREFIX.positions["physical_offset"]
_OFFSET_BYTES: Final = MESSAGE_PREFIX["physical_offset"].size
_ID_BYTES: Final = _V4 + _OFFSET_BYTES
_HEX: Final = np.array([[ord(digit) for digit in f"{byte:02X}"] for byte in range(256)], np.uint8)


def born_hosts(window: UInt8s, records: Int64s, sys_flags: Int64s) -> pa.DictionaryArray:
    """Give the clients that sent the records.

    Args:
        window: the records.
        records: int64, shape (n,); where each begins in the window.
        sys_flags: int64, shape (n,).
    """
    return _hosts(window, records + _BORN, sys_flags & SysFlag.BORNHOST_V6_FLAG)


def store_hosts(window: UInt8s, records: Int64s, sys_flags: Int64s) -> pa.DictionaryArray:
    """Give the brokers that stored the records; arguments as for `born_hosts`."""
    places = _store_places(records, sys_flags)
    return _hosts(window, places, sys_flags & SysFlag.STOREHOSTADDRESS_V6_FLAG)


def message_ids(window: UInt8s, records: Int64s, sys_flags: Int64s) -> pa.StringArray:
    """Give the offset message IDs, as brokers make them; arguments as for `born_hosts`.

    Source: MessageDecoder#createMessageId, 4.9.3 to 5.5.0.
    """
    places = _store_places(records, sys_flags)
    if (sys_flags & SysFlag.STOREHOSTADDRESS_V6_FLAG).any():
        ids = [
            str(OffsetMessageId(*host, int(offset)))
            for host, offset in zip(
                _read(window, places, sys_flags & SysFlag.STOREHOSTADDRESS_V6_FLAG),
                _numbers(window, records + _OFFSET, _OFFSET_BYTES),
                strict=True,
            )
        ]
        return pa.array(ids, pa.string())
    rows = len(records)
    digits = np.empty((rows, 2 * _ID_BYTES), np.uint8)
    kernels.write_hex(window, (places, records + _OFFSET), (_V4, _OFFSET_BYTES), _HEX, digits)
    offsets = np.arange(rows + 1, dtype=np.int32) * (2 * _ID_BYTES)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(digits)]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def _store_places(records: Int64s, sys_flags: Int64s) -> Int64s:
    """Give where the store host of each record lies in the window."""
    longer = (sys_flags & SysFlag.BORNHOST_V6_FLAG) != 0
    places: Int64s = records + _STORE + _V6_EXTRA * longer
    return places


def _numbers(window: UInt8s, places: Int64s, width: int) -> Int64s:
    """Read big-endian integers."""
    every = max(len(window) - width + 1, 0)  # one begins at each byte
    at_each_byte = np.ndarray((every,), f">i{width}", window, strides=(1,))
    numbers: Int64s = at_each_byte[places].astype(np.int64)
    return numbers


def _hosts(window: UInt8s, places: Int64s, is_v6: Int64s) -> pa.DictionaryArray:
    if is_v6.any():
        texts = [host_text(*host) for host in _read(window, places, is_v6)]
        return pa.array(texts, pa.string()).dictionary_encode()
    packed = _numbers(window, places, _V4)
    return few_words(packed, lambda host: host_text(*ipv4_host(host)))


def _read(window: UInt8s, places: Int64s, is_v6: Int64s) -> list[tuple[bytes, int]]:
    """Read address and port of each host."""
    lengths = np.where(is_v6 != 0, _V4 + _V6_EXTRA, _V4)
    return [
        split_host(window[place : place + length].tobytes())
        for place, length in zip(places.tolist(), lengths.tolist(), strict=True)
    ]
