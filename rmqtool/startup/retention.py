"""What a broker deletes of the log in its first day, as it is older than fileReservedTime.

A start loses nothing by it; the day after does. Files go by the time of their last change, the
oldest first, until one is not old enough; the newest never goes. A file dated in the future keeps
all that come after it. So a restored backup, or a broker that was down for long, may lose most of
its log although it starts well.
Source: CleanCommitLogService#isTimeToDelete, #isSpaceToDelete, UtilAll#isItTimeToDo,
MappedFileQueue#deleteExpiredFileByTime, 4.9.3 to 5.5.1.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker.conf import (
    DELETE_WHEN,
    FILES_AT_ONCE,
    FULL_PERCENT,
    RESERVED_HOURS,
    parse_integer,
)
from rmqtool.broker.names import LMQ_PREFIX, is_system_topic
from rmqtool.errors import RmqtoolError
from rmqtool.plural import counted
from rmqtool.queues.discovery import Queues
from rmqtool.store.config_sources import committed_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.broker.release import Version
    from rmqtool.startup.files import ModelFile
    from rmqtool.startup.model import Model
    from rmqtool.store.tree import Store

HOUR_MS: Final = 3_600_000
MS_NS: Final = 1_000_000
HOURS: Final = range(24)
DEFAULT_HOURS: Final = RESERVED_HOURS.default


class Retention(NamedTuple):
    """Files of the log that a broker deletes as soon as the time of deletion comes."""

    paths: tuple[str, ...]  # of these files, the oldest first
    files: int  # that the log has then, these among them
    # of queues that consumers read, as far as they lie in these files; None: a queue is unreadable
    messages_deleted_soon: int | None
    # of these, such that no consumer group has consumed; None likewise
    messages_unconsumed: int | None
    hours: tuple[int, ...]  # of the day, by the broker's clock, in which it deletes; sorted
    reserved_hours: int  # fileReservedTime
    full_percent: int  # of the disk; used more than that, it deletes them at once
    hours_to_keep: int  # fileReservedTime with which they stay for three more days

    @property
    def when(self) -> str:
        """When it deletes them: in these hours, or as soon as the disk is fuller than it may be."""
        full = f"as soon as {self.full_percent}% of the disk are used"
        if not self.hours:
            return full
        return f"each day at {', '.join(f'{hour:02}:00' for hour in self.hours)}, or {full}"

    @property
    def what(self) -> str:
        """What goes."""
        return _with_messages(self.which, self.messages_deleted_soon, self.messages_unconsumed)

    @property
    def files_deleted_soon(self) -> int:
        """How many files go."""
        return len(self.paths)

    @property
    def which(self) -> str:
        """How many files of all go."""
        return f"{self.files_deleted_soon:,} of {counted(self.files, 'commitlog file')}"

    @property
    def why(self) -> str:
        """Why they go."""
        return f"last changed more than fileReservedTime={self.reserved_hours} hours ago"


class EarlyDeletion(NamedTuple):
    """Files of the log that a broker deletes before their time, as its disk is too full."""

    files_deleted: int  # the oldest ones
    files: int  # that the log has, these among them
    messages: int | None  # in them, of queues that consumers read; None: a queue is unreadable
    messages_unconsumed: int | None  # of these, such that no consumer group has consumed

    @property
    def what(self) -> str:
        """What goes."""
        which = f"{self.files_deleted:,} of {counted(self.files, 'commitlog file')}"
        return _with_messages(which, self.messages, self.messages_unconsumed)


def early_deletion(store: Store, version: Version, over: int) -> EarlyDeletion | None:
    """Find what goes while the disk is too full; None for nothing.

    Each ten seconds so many files go at once, whatever their age, until there is room; the newest
    file stays. Room that queues and index leave is not counted: it comes later.
    Source: CleanCommitLogService#isSpaceToDelete, MappedFileQueue#deleteExpiredFileByTime, 4.9.3
    to 5.5.1.

    Args:
        store: whose log it is.
        version: of the broker.
        over: bytes that must go, until no file does.
    """
    files = [segment for segment in store.commitlog.segments if segment.size]
    at_once = FILES_AT_ONCE.of(store.broker_conf, version)
    freed = count = 0
    while freed < over and count < len(files) - 1:
        batch = files[count : min(count + at_once, len(files) - 1)]
        freed += sum(segment.size for segment in batch)
        count += len(batch)
    if not count:
        return None
    messages, unconsumed = None, None
    with suppress(RmqtoolError):
        messages, unconsumed = _messages(store, files[0].start, files[count - 1].end)
    return EarlyDeletion(count, len(files), messages, unconsumed)


def _with_messages(which: str, messages: int | None, unconsumed: int | None) -> str:
    """Say which files go, and what is in them."""
    if messages is None:
        return f"{which}, whose messages cannot be counted"
    also = f", {unconsumed:,} consumed by no group" if unconsumed else ""
    return f"{which} with {counted(messages, 'message')}{also}"


def retention(store: Store, model: Model, now_ms: int) -> Retention | None:
    """Find what goes; None for nothing.

    Args:
        store: as the release sees it.
        model: after the start.
        now_ms: when the broker starts, ms since 1970.
    """
    conf, version = store.broker_conf, model.rules.version
    hours = RESERVED_HOURS.of(conf, version)
    files = model.commitlog.files
    old = list(_expired(files, now_ms - hours * HOUR_MS))
    if not old:
        return None
    messages, unconsumed = None, None
    with suppress(RmqtoolError):  # a queue or an offset cannot be read: its own finding says so
        messages, unconsumed = _messages(store, files[0].start, old[-1][0].end)
    return Retention(
        paths=tuple(file.path for file, _ in old),
        files=len(files),
        messages_deleted_soon=messages,
        messages_unconsumed=unconsumed,
        hours=tuple(_hours(DELETE_WHEN.of(conf, version))),
        reserved_hours=hours,
        full_percent=FULL_PERCENT.of(conf, version),
        hours_to_keep=(now_ms - min(changed for _, changed in old)) // HOUR_MS + 1 + DEFAULT_HOURS,
    )


def _expired(files: Sequence[ModelFile], limit_ms: int) -> Iterator[tuple[ModelFile, int]]:
    """Yield the files that go, each with the time of its last change, ms."""
    for file in files[:-1]:
        entry = file.place.stat() if file.place else None
        if entry is None or entry.mtime_ns // MS_NS > limit_ms:
            return
        yield file, entry.mtime_ns // MS_NS


def _hours(text: str) -> list[int]:
    """Read deleteWhen: up to the first that is no number, at which Java throws."""
    hours = set()
    for part in text.split(";"):
        hour = parse_integer(part)
        if hour is None:
            break
        hours.add(hour)
    return sorted(hours.intersection(HOURS))


def _messages(store: Store, begin: int, end: int) -> tuple[int, int]:
    """Count the messages in [begin, end) of the log, and those that no group has consumed."""
    consumed: dict[tuple[str, int], int] = {}
    for offset in committed_offsets(store):
        name = (offset.topic, offset.queue_id)
        consumed[name] = max(consumed.get(name, 0), offset.queue_offset or 0)
    messages = unconsumed = 0
    with Queues(store) as queues:
        for topic in queues.topics():
            if is_system_topic(topic) or topic.startswith(LMQ_PREFIX):
                continue
            for queue in queues.queues_of(topic):
                first, after = queue.span(begin), queue.span(end).min_offset
                messages += after - first.min_offset
                next_offset = max(first.min_offset, consumed.get((topic, queue.queue_id), 0))
                unconsumed += max(after - next_offset, 0)
    return messages, unconsumed
