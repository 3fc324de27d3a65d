"""The kernel that compares index entries with those that the log asks for.

Source: IndexFile#putKey, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.index import FIRST_ENTRY, INDEX_ENTRY
from rmqtool.machine.compiled import kernel
from rmqtool.machine.intrinsics import load_i4, load_i8
from rmqtool.scan.index import seconds

if TYPE_CHECKING:
    from rmqtool.machine.arrays import Int64s, UInt8s

# Places of the state: how far run and window are, and what was passed over.
RUN, ENTRY, SKIPPED, MAY_SKIP = range(4)
STATE: Final = 4

# Why the comparison stopped.
RUN_DONE: Final = 0
WINDOW_DONE: Final = 1
DIFFERS: Final = 2
WRONG_TIME: Final = 3

SIZE: Final = INDEX_ENTRY.size
_AT: Final = INDEX_ENTRY.positions
AT_HASH: Final = _AT["key_hash"]
AT_OFFSET: Final = _AT["physical_offset"]
AT_DIFFERENCE: Final = _AT["time_difference"]
NO_TIMES: Final = -1  # in place of a begin: times are not compared


@kernel(
    "int64(uint8[::1], UniTuple(int64, 3), Tuple((int32[::1], int64[::1], int64[::1])), int64[::1])"
)
def compare(
    raw: UInt8s, window: tuple[int, int, int], run: tuple[Int64s, Int64s, Int64s], state: Int64s
) -> int:
    """Go on while entries are those of the run; return why not further.

    The last entry of a record may be missing where MAY_SKIP is set: brokers before 5.4.0, from
    which the store may have been upgraded, write none for the tags.

    Args:
        raw: uint8, shape (SIZE * n,): entries of a file.
        window: number of the first of them, how many, and the file's begin timestamp, ms.
        run: hashes, physical offsets, store timestamps.
        state: int64, shape (STATE,).
    """
    first, count, begin = window
    hashes, offsets, times = run
    at, number = state[ENTRY], state[RUN]
    why = RUN_DONE
    while number < hashes.size:
        if at >= count:
            why = WINDOW_DONE
            break
        place = at * SIZE
        key_hash = load_i4(raw, place + AT_HASH)
        offset = load_i8(raw, place + AT_OFFSET)
        if key_hash != hashes[number] or offset != offsets[number]:
            following = number + 1
            is_last = following < hashes.size and offsets[following] != offsets[number]
            if (
                state[MAY_SKIP]
                and is_last
                and key_hash == hashes[following]
                and offset == offsets[following]
            ):
                state[SKIPPED] += 1
                number = following
                continue
            why = DIFFERS
            break
        difference = load_i4(raw, place + AT_DIFFERENCE)
        is_compared = begin != NO_TIMES and first + at != FIRST_ENTRY
        if is_compared and difference != seconds(times[number], begin):
            why = WRONG_TIME
            break
        at, number = at + 1, number + 1
    state[ENTRY], state[RUN] = at, number
    return why
