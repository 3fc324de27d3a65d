"""Files of the log that another broker wrote.

Records name their own place, so a file of another broker's log, copied to the same name, looks
sound. But its records name another store host than those before and after it, and another time. A
broker that was moved to another host writes on in order of time, so both must differ.
Source: MessageExtEncoder, CommitLog#checkMessageAndReturnSize, which looks at neither, 4.9.3 to
5.5.1.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.errors import NotSound, UnreadablePath
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_commitlog import CL_FOREIGN
from rmqtool.formats.message import MESSAGE_MAGIC_BYTES, MESSAGE_MIDDLES, MESSAGE_PREFIX, middle_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqtool.findings.finding import Finding
    from rmqtool.store.segment import Segment

HEAD_BYTES: Final = MESSAGE_PREFIX.size + max(middle.size for middle in MESSAGE_MIDDLES.values())
FEWEST: Final = 3  # files; of two nobody can say which is the other one's
_MAGIC: Final = slice(MESSAGE_PREFIX["magic_code"].position, MESSAGE_PREFIX["magic_code"].end)


class FirstRecord(NamedTuple):
    """What the first record of a file says of its writer."""

    start: int  # physical offset of the file
    host: tuple[bytes, int]  # address and port of the broker
    store_timestamp: int  # ms since 1970


def first_record(start: int, raw: bytes) -> FirstRecord | None:
    """Read it; None where no record begins the file that says so itself.

    Args:
        start: physical offset of the file.
        raw: its first `HEAD_BYTES` bytes, or all that it has.
    """
    if len(raw) < HEAD_BYTES or raw[_MAGIC] not in MESSAGE_MAGIC_BYTES:
        return None
    if MESSAGE_PREFIX["physical_offset"].of(raw) != start:
        return None
    middle = middle_of(MESSAGE_PREFIX["sys_flag"].of(raw)).parse(raw[MESSAGE_PREFIX.size :])
    host = middle["store_address"], middle["store_port"]
    return FirstRecord(start, host, middle["store_timestamp"])


def foreign_files(heads: Iterable[tuple[int, bytes]]) -> frozenset[int]:
    """Give the starts of the files that another broker wrote.

    Args:
        heads: of each file of the log, in order, its start and its first bytes.
    """
    firsts = [record for start, raw in heads if (record := first_record(start, raw)) is not None]
    if len(firsts) < FEWEST or len({first.host for first in firsts}) == 1:
        return frozenset()
    return frozenset(
        record.start for number, record in enumerate(firsts) if _is_foreign(firsts, number, record)
    )


def foreign_segments(segments: Sequence[Segment]) -> list[Segment]:
    """Give the files of a log that another broker wrote; one that cannot be read is none."""
    heads = []
    for segment in segments if len(segments) >= FEWEST else ():
        with suppress(UnreadablePath), segment.open() as file:
            heads.append((segment.start, file.read_at(0, HEAD_BYTES)))
    starts = foreign_files(heads)
    return [segment for segment in segments if segment.start in starts]


def refuse_foreign(segments: Sequence[Segment]) -> None:
    """Refuse to derive anything from a log with such a file.

    Raises:
        NotSound: queues and index would lead to messages of another broker.
    """
    for segment in foreign_segments(segments):
        raise NotSound(path=segment.path, harm=CL_FOREIGN.meaning, instead=CL_FOREIGN.remedy)


def of_foreign(segment: Segment) -> Finding:
    """Give the finding of such a file."""
    return finding(CL_FOREIGN, At(segment.path))


def _is_foreign(firsts: Sequence[FirstRecord], number: int, record: FirstRecord) -> bool:
    first = min(max(number - 1, 0), len(firsts) - FEWEST)
    others = [other for other in firsts[first : first + FEWEST] if other is not record]
    if len({other.host for other in others}) > 1 or record.host == others[0].host:
        return False
    in_order = sorted([record, *others], key=lambda other: other.start)
    times = [other.store_timestamp for other in in_order]
    return times != sorted(times)
