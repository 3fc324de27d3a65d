"""Store times of records, read from the log for many records at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.message import MESSAGE_PREFIX, SysFlag
from rmqtool.store.record_heads import HEAD_BYTES, STORE_TIMESTAMP, TIMESTAMPS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rmqtool.store.record_heads import LogReader

    Int64s = npt.NDArray[np.int64]

WINDOW_BYTES: Final = 1 << 20
FLAG_AT: Final = MESSAGE_PREFIX.positions["sys_flag"] + 3  # its lowest byte
AFTER_IPV4: Final = TIMESTAMPS[0]
AFTER_IPV6: Final = TIMESTAMPS[int(SysFlag.BORNHOST_V6_FLAG)]
UNKNOWN: Final = -1


def record_times(log: LogReader, physical_offsets: Int64s) -> Int64s:
    """Give the store timestamp of each record, ms since 1970; UNKNOWN where none can be read.

    Args:
        log: where they lie.
        physical_offsets: int64, shape (n,), ascending.

    Raises:
        UnreadablePath: a segment may not be read.
    """
    import numpy as np

    times = np.full(len(physical_offsets), UNKNOWN, np.int64)
    done = 0
    while done < len(physical_offsets):
        begin = int(physical_offsets[done])
        raw = np.frombuffer(log.read_at(begin, WINDOW_BYTES), np.uint8)
        usable = begin + len(raw) - HEAD_BYTES
        until = done + int(np.searchsorted(physical_offsets[done:], usable, "right"))
        if until == done:  # the last record of a file is shorter than the longest head
            head = log.head_at(begin)
            times[done] = head.store_timestamp if head else UNKNOWN
            done += 1
            continue
        starts = physical_offsets[done:until] - begin
        is_long = (raw[starts + FLAG_AT] & int(SysFlag.BORNHOST_V6_FLAG)) != 0
        places = starts + np.where(is_long, AFTER_IPV6, AFTER_IPV4)
        found = np.ascontiguousarray(raw[places[:, None] + np.arange(STORE_TIMESTAMP.size)])
        times[done:until] = found.view(STORE_TIMESTAMP.numpy_type)[:, 0]
        done = until
    return times
