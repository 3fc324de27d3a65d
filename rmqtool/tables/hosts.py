"""Hosts and message IDs of records as texts: few hosts are written often, IDs are all different."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from rmqtool.formats.host import (
    IPV4_BYTES,
    IPV4_HOST_BYTES,
    IPV6_BYTES,
    host_text,
    ipv4_host,
    split_host,
)
from rmqtool.formats.message import MESSAGE_MIDDLES, MESSAGE_PREFIX
from rmqtool.formats.message_id import OffsetMessageId
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.tables import text_kernels as kernels
from rmqtool.tables.arrow import few_words

if TYPE_CHECKING:
    import numpy.typing as npt

    UInt8s: TypeAlias = npt.NDArray[np.uint8]
    Int64s: TypeAlias = npt.NDArray[np.int64]

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
        found = [
            str(OffsetMessageId(*host, int(offset)))
            for host, offset in zip(
                _read(window, places, sys_flags & SysFlag.STOREHOSTADDRESS_V6_FLAG),
                _numbers(window, records + _OFFSET, _OFFSET_BYTES),
                strict=True,
            )
        ]
        return pa.array(found, pa.string())
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
    return few_words(packed, lambda one: host_text(*ipv4_host(one)))


def _read(window: UInt8s, places: Int64s, is_v6: Int64s) -> list[tuple[bytes, int]]:
    """Read address and port of each host."""
    lengths = np.where(is_v6 != 0, _V4 + _V6_EXTRA, _V4)
    return [
        split_host(window[place : place + length].tobytes())
        for place, length in zip(places.tolist(), lengths.tolist(), strict=True)
    ]
