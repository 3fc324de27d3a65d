"""What a rebuild cannot derive, and when it writes nothing because of that."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rmqtool.errors import NoSuchQueue, Trouble, UnreadablePath
from rmqtool.findings.registry_layout import FS_READ
from rmqtool.rebuild.options import LostRange
from rmqtool.scan.batch import Extent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.derive.runs import Runs, Stretch
    from rmqtool.rebuild.options import RebuildOptions, RebuildResult
    from rmqtool.store.segment import SegmentPart
    from rmqtool.store.tree import Store

UNREADABLE: Final = "unreadable"


def missing(store: Store) -> Iterator[LostRange]:
    """Yield the stretches between segments that no file holds: it was removed, or is too short."""
    for before, after in pairwise(store.commitlog):
        if after.start > before.end:
            yield LostRange(store.commitlog.path, before.end, after.start - before.end, "missing")


def refuse_nothing(options: RebuildOptions, result: RebuildResult) -> None:
    """Write no empty tree where a topic was mistyped.

    Raises:
        NoSuchQueue: no record belongs to what was asked for.
    """
    if options.topic is not None and not result.queues:
        raise NoSuchQueue(topic=options.topic, queue_id=options.queue_id)


def refuse_unread(lost: Iterable[LostRange]) -> None:
    """Replace nothing when a segment cannot be read: what the store has of it may be all right.

    Damage in a segment is another matter: no later attempt will read more than this one.

    Args:
        lost: of the part that was read last.

    Raises:
        UnreadablePath: it cannot.
    """
    for one in lost:
        if one.code == UNREADABLE:
            reason = (
                f"cannot be read from physical offset {one.physical_offset} on, and what the store "
                "has derived from there would be lost; nothing was replaced: make it readable, or "
                "use --output DIR, which takes what can be read"
            )
            raise UnreadablePath(path=one.path, reason=reason, trouble=Trouble.TOLD)


def account(result: RebuildResult, part: SegmentPart, runs: Runs) -> list[LostRange]:
    """Take note of what a part holds beside records; give what of it is lost."""
    result.bytes += part.length
    result.records += runs.records
    result.undispatched += runs.undispatched
    start = part.segment.start
    lost = [
        LostRange(part.segment.path, start + stretch.position, stretch.length, _why(stretch))
        for stretch in runs.stretches
        if stretch.kind is Extent.GAP
    ]
    result.lost += lost
    return lost


def _why(lost: Stretch) -> str:
    return UNREADABLE if lost.code == FS_READ else lost.code or ""
