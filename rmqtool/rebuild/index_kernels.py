"""The kernel that adds entries to a key index file, as a broker does.

Source: IndexFile#putKey, IndexHeader, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.formats.index import FIRST_ENTRY, INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT
from rmqtool.machine.compiled import kernel
from rmqtool.machine.intrinsics import load_i4, store_i4, store_i8
from rmqtool.scan.index import seconds

if TYPE_CHECKING:
    import numpy.typing as npt

    UInt8s = npt.NDArray[np.uint8]
    Int32s = npt.NDArray[np.int32]
    Int64s = npt.NDArray[np.int64]

# Numbers of the header's fields in the kernel's state, in the order of the declaration.
BEGIN_TIMESTAMP, END_TIMESTAMP, BEGIN_OFFSET, END_OFFSET, SLOTS_USED, INDEX_COUNT = range(6)

HEADER: Final = INDEX_HEADER.size
SLOT: Final = INDEX_SLOT.size
ENTRY: Final = INDEX_ENTRY.size
_AT: Final = INDEX_ENTRY.positions
AT_HASH: Final = _AT["key_hash"]
AT_OFFSET: Final = _AT["physical_offset"]
AT_DIFFERENCE: Final = _AT["time_difference"]
AT_PREVIOUS: Final = _AT["previous"]


@kernel(
    "int64(UniTuple(uint8[::1], 2), UniTuple(int64, 3), int64[::1],"
    " Tuple((int32[::1], int64[::1], int64[::1])), int64)"
)
def put_keys(
    file: tuple[UInt8s, UInt8s],
    geometry: tuple[int, int, int],
    header: Int64s,
    entries: tuple[Int32s, Int64s, Int64s],
    first: int,
) -> int:
    """Add entries while there is room; return the number of the entry that found none.

    An entry that was added is never looked at again, only its slot is: so that entries need no
    more room than a window of them, wherever in the file that is.

    A record that lies before the newest one of the file is passed over: a broker that dispatches
    again after a restart meets records that it has indexed.

    Args:
        file: uint8, header and slots of the file; uint8, a window of entries.
        geometry: slots, number of the entry after the window or the file, and of the window's
            first entry (the unused entry 0 counted).
        header: int64, shape (6,): the header's fields.
        entries: int32, shape (n,): hashes, none negative; int64, shape (n,): physical offsets;
            int64, shape (n,): store times, ms.
        first: number of the first entry to add.
    """
    (head, window), (slots, limit, base) = file, geometry
    divisor = np.uint32(slots)  # a division of 32 bits takes half the time of one of 64
    hashes, offsets, store_timestamps = entries
    begin, end, count = header[BEGIN_TIMESTAMP], header[END_OFFSET], header[INDEX_COUNT]
    last, used = header[END_TIMESTAMP], 0
    done = first
    while done < hashes.size and count < limit:
        offset, store_timestamp, number = offsets[done], store_timestamps[done], hashes[done]
        done += 1
        if offset < end:
            continue
        slot = HEADER + SLOT * np.int64(np.uint32(number) % divisor)
        previous = load_i4(head, slot)
        if previous <= 0 or previous > count:
            previous = 0
            used += 1
        at = ENTRY * (count - base)
        store_i4(window, at + AT_HASH, number)
        store_i8(window, at + AT_OFFSET, offset)
        store_i4(window, at + AT_DIFFERENCE, seconds(store_timestamp, begin))
        store_i4(window, at + AT_PREVIOUS, previous)
        store_i4(head, slot, count)
        if count <= FIRST_ENTRY:
            header[BEGIN_OFFSET], begin = offset, store_timestamp
        count += 1
        end, last = offset, store_timestamp
    header[BEGIN_TIMESTAMP], header[END_OFFSET], header[INDEX_COUNT] = begin, end, count
    header[END_TIMESTAMP] = last
    header[SLOTS_USED] += used
    return done
