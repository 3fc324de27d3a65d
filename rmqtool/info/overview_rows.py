"""Rows of an overview: one class a section, fields in the order they are shown.

Named tuples, as sixteen dataclasses would take a tenth of the whole command to declare.
Names of fields are public. Times are ms since 1970; None is "not known" or "there is none".
"""

from __future__ import annotations

from typing import NamedTuple


class StoreRow(NamedTuple):
    """The store as a whole.

    Attributes:
        path: the store root, or what was asked for.
        recognised_as: what it is.
        recognised_by: place or content.
        release: which releases may have written it last, as a phrase.
        at_least: the oldest of these.
        below: the first release that cannot have written it.
        rules_of: the release by whose rules every command judges it, unless told another.
        stopped: how the broker stopped, a phrase.
        lock_held: a process on this machine holds the lock.
        commitlog: plain or DLedger.
    """

    path: str
    recognised_as: str
    recognised_by: str
    release: str
    at_least: str
    below: str
    rules_of: str
    stopped: str
    lock_held: bool | None
    commitlog: str


class EvidenceRow(NamedTuple):
    """One trace of the release that wrote the store; `at_least` or `below` is empty."""

    path: str
    says: str
    at_least: str
    below: str


class LengthRow(NamedTuple):
    """One length of the geometry: bytes, or items for the index."""

    name: str
    value: int
    source: str


class SegmentRow(NamedTuple):
    """One commitlog file.

    Attributes:
        path: relative to the store root.
        state: full, last or unused.
        start: first physical offset, from the name.
        end: physical offset behind the file.
        size: bytes on disk.
        allocated: bytes that the disk really holds.
        first_store_timestamp: of the first record.
        last_store_timestamp: of the last record.
    """

    path: str
    state: str
    start: int
    end: int
    size: int
    allocated: int
    first_store_timestamp: int | None
    last_store_timestamp: int | None


class OddityRow(NamedTuple):
    """Something about names, lengths or kinds of files that a broker does not leave behind."""

    oddity: str
    path: str
    expected: str
    actual: str
    start: int | None
    length: int | None


class EndRow(NamedTuple):
    """The real end of data.

    Attributes:
        physical_offset: first byte behind the last record.
        path: file that it lies in; empty when it lies behind all files.
        position: the same in that file.
        last_store_timestamp: of the last record.
        found_by: how it was found.
        stopped_at: what lies there.
        data_beyond: offset of something behind it that is not zero; None when samples show none.
    """

    physical_offset: int
    path: str
    position: int | None
    last_store_timestamp: int | None
    found_by: str
    stopped_at: str
    data_beyond: int | None


class DispatchRow(NamedTuple):
    """How far the queues follow the commitlog.

    Attributes:
        dispatched_to: physical offset behind the last record that a queue names.
        end: physical offset behind the last record.
        lag_bytes: bytes that no queue names yet; negative when queues name what is not there.
        lag_records: records in these; None where too many to count, or where the queues are ahead.
    """

    dispatched_to: int | None
    end: int
    lag_bytes: int | None
    lag_records: int | None


class TopicRow(NamedTuple):
    """One topic.

    Attributes:
        topic: its name.
        queue_kind: plain or batch queues.
        queues: number of its queues.
        messages: that queues and commitlog still have.
        message_bytes: of these in the commitlog.
        is_estimate: `message_bytes` is extrapolated from the newest units of each queue.
        first_store_timestamp: of the oldest message.
        last_store_timestamp: of the newest message.
        expired: messages that only the queues still name.
        files: of its queues.
        size: bytes of these files.
        allocated: bytes that the disk really holds for them.
    """

    topic: str
    queue_kind: str
    queues: int
    messages: int
    message_bytes: int
    is_estimate: bool
    first_store_timestamp: int | None
    last_store_timestamp: int | None
    expired: int
    files: int
    size: int
    allocated: int


class QueueRow(NamedTuple):
    """One queue; fields as for a topic.

    Attributes:
        min_queue_offset: of the first message that is still there.
        max_queue_offset: of the next message.
    """

    topic: str
    queue_id: int
    queue_kind: str
    min_queue_offset: int
    max_queue_offset: int
    messages: int
    message_bytes: int
    is_estimate: bool
    first_store_timestamp: int | None
    last_store_timestamp: int | None
    expired: int
    files: int
    size: int
    allocated: int


class IndexRow(NamedTuple):
    """One key index file.

    Attributes:
        path: relative to the store root.
        keys: entries in use.
        capacity: entries that it can hold; 0 when its geometry is unknown.
        fill_percent: of the capacity; None when that is unknown.
        slots: hash slots; 0 when unknown.
        used_slots: of these.
        first_store_timestamp: of the first entry.
        last_store_timestamp: of the newest entry.
        first_physical_offset: of the first entry.
        last_physical_offset: of the newest entry.
        size: bytes on disk.
        allocated: bytes that the disk really holds.
    """

    path: str
    keys: int
    capacity: int
    fill_percent: float | None
    slots: int
    used_slots: int
    first_store_timestamp: int | None
    last_store_timestamp: int | None
    first_physical_offset: int | None
    last_physical_offset: int | None
    size: int
    allocated: int


class CheckpointRow(NamedTuple):
    """One field of the checkpoint beside what the files show.

    Attributes:
        field: its name.
        stored: what the checkpoint says; ms or a physical offset.
        actual: what the files show; None when they do not tell.
        difference: actual - stored; positive when the checkpoint is behind.
        unit: of the three, ms or bytes.
    """

    field: str
    stored: int
    actual: int | None
    difference: int | None
    unit: str


class GroupRow(NamedTuple):
    """One consumer group on one topic.

    Attributes:
        group: the consumer group.
        topic: what it consumes.
        queues: queues for which it has stored an offset.
        queues_without_offset: queues of the topic for which it has stored none; these are not
            counted in the lag, as where it would begin is the consumer's to say.
        lag: messages that it has not consumed, in the queues for which it has an offset.
        expired: messages that it never consumed and that are gone.
        ahead: offsets behind the end of a queue, summed up: the queue was cut, or lost.
        dead_letters: messages in the group's dead letter topic, whatever topic they came from.
        retries: messages in the group's retry topic, consumed or not.
    """

    group: str
    topic: str
    queues: int
    queues_without_offset: int
    lag: int
    expired: int
    ahead: int
    dead_letters: int
    retries: int


class DatabaseRow(NamedTuple):
    """One RocksDB database: recognised, not read."""

    path: str
    holds: str
    since: str
    is_empty: bool
    table_files: int
    size: int
    allocated: int


class DiskRow(NamedTuple):
    """Disk use of one name in the store root; apparent size and what the disk really holds."""

    name: str
    files: int
    size: int
    allocated: int


class ProblemRow(NamedTuple):
    """Something that could not be read, and is missing in the other sections."""

    path: str
    reason: str
