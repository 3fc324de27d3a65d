"""Texts of a window as Arrow arrays, decoded as Java decodes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from rmqtool.formats import java
from rmqtool.formats import properties as items_of
from rmqtool.tables import text_kernels as kernels

if TYPE_CHECKING:
    import numpy.typing as npt

    UInt8s: TypeAlias = npt.NDArray[np.uint8]
    Int64s: TypeAlias = npt.NDArray[np.int64]


class TextStretches(NamedTuple):
    """TextStretches of a window."""

    window: UInt8s  # the bytes
    starts: Int64s  # int64, shape (n,)
    lengths: Int64s  # int64, shape (n,)

    @property
    def places(self) -> tuple[Int64s, Int64s]:
        """Starts and lengths, as kernels take them."""
        return np.ascontiguousarray(self.starts), np.ascontiguousarray(self.lengths)

    def raw(self, number: int) -> bytes:
        """Give the bytes of one stretch."""
        start = int(self.starts[number])
        return self.window[start : start + int(self.lengths[number])].tobytes()


class Properties(NamedTuple):
    """The properties of records."""

    maps: pa.MapArray  # a map of strings a record
    lossy: Int64s  # the numbers of the records whose map does not hold all that is stored


def strings(
    stretches: TextStretches, is_null: npt.NDArray[np.bool_] | None = None
) -> pa.StringArray:
    """Give stretches as strings; malformed UTF-8 has replacement characters, as in Java.

    Args:
        stretches: n of them.
        is_null: shape (n,), what is null; None for nothing.
    """
    texts = _gathered(stretches, is_null)
    if pa.types.is_string(texts.type):
        return texts
    return pa.array(
        [None if value is None else java.text(value) for value in texts.to_pylist()], pa.string()
    )


def exact_strings(stretches: TextStretches) -> pa.StringArray | None:
    """Give stretches as strings; None where one of them is malformed UTF-8."""
    texts = _gathered(stretches, None)
    return texts if pa.types.is_string(texts.type) else None


def _gathered(
    stretches: TextStretches, is_null: npt.NDArray[np.bool_] | None
) -> pa.StringArray | pa.BinaryArray:
    """Copy stretches after each other: strings, or bytes where one of them is malformed."""
    offsets = np.empty(len(stretches.starts) + 1, np.int32)
    text = np.empty(int(stretches.lengths.sum()), np.uint8)
    is_ascii = kernels.gather(stretches.window, stretches.places, offsets, text)
    validity, count = None, 0
    if is_null is not None and is_null.any():
        validity = pa.array(~is_null).buffers()[1]
        count = int(is_null.sum())
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(text)]
    if is_ascii:
        return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers, count)
    raw = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers, count)
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return raw


def lists_of_keys(stretches: TextStretches) -> pa.ListArray:
    """Cut KEYS into lists of keys."""
    offsets = np.empty(len(stretches.starts) + 1, np.int32)
    room = int((stretches.lengths // 2 + 1).sum())
    places = np.empty((2, room), np.int64)
    count = kernels.cut_keys(stretches.window, stretches.places, offsets, places)
    keys = strings(TextStretches(stretches.window, places[0, :count], places[1, :count]))
    return pa.ListArray.from_arrays(pa.array(offsets), keys)


def values_of(stretches: TextStretches, name: str) -> TextStretches:
    """Find the value of one property in each record; its length is 0 where there is not one."""
    values = np.empty((2, len(stretches.starts)), np.int64)
    raw = np.frombuffer(name.encode("utf-8", "surrogateescape"), np.uint8).copy()
    kernels.find_values(stretches.window, stretches.places, raw, values)
    return TextStretches(stretches.window, values[0], values[1])


def properties(stretches: TextStretches) -> Properties:
    """Read properties as brokers and clients since 4.9.1 do."""
    rows = len(stretches.starts)
    offsets = np.empty(rows + 1, np.int32)
    room = int((stretches.lengths // 4 + 1).sum())
    items = np.empty((kernels.ITEM_ROWS, room), np.int64)
    lossy = np.empty(rows, np.uint8)
    count = kernels.cut_properties(stretches.window, stretches.places, offsets, items, lossy)
    names = TextStretches(stretches.window, items[0, :count], items[1, :count])
    values = TextStretches(stretches.window, items[2, :count], items[3, :count])
    malformed = _malformed(stretches)
    if malformed.size:
        return _properties_one_by_one(stretches, lossy, malformed)
    maps = pa.MapArray.from_arrays(pa.array(offsets), strings(names), strings(values))
    return Properties(maps, np.flatnonzero(lossy))


def _malformed(stretches: TextStretches) -> Int64s:
    """Give the numbers of stretches that are no UTF-8."""
    raw = _gathered(stretches, None)
    if pa.types.is_string(raw.type):
        return np.empty(0, np.int64)
    return np.array([n for n in range(len(raw)) if not _is_text(raw[n].as_py())], np.int64)


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _properties_one_by_one(
    stretches: TextStretches, lossy: UInt8s, malformed: Int64s
) -> Properties:
    """Read properties where some are no UTF-8: two names may then be the same text."""
    rows = [list(items_of.decode(stretches.raw(n)).items()) for n in range(len(lossy))]
    maps = pa.array(rows, pa.map_(pa.string(), pa.string()))
    return Properties(maps, np.union1d(np.flatnonzero(lossy), malformed))
