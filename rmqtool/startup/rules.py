"""What brokers of different versions do differently when they start: one table.

A rule holds from the release that brought it. The stages ask `Rules`; none of them looks at a
version. The releases in `PROVEN` are compared with real brokers by the tests, those between them
follow their sources.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any, Final

from rmqtool.broker.release import LINES, Version

PROVEN: Final = frozenset(LINES[line] for line in ("4.9", "5.1", "5.2", "5.3", "5.5"))


class NormalStart(enum.Enum):
    """Which commitlog file a recovery after a clean stop begins with."""

    THIRD_LAST = enum.auto()
    QUEUE_MAXIMUM = enum.auto()  # newest file that starts at or before the queues' maximum
    FIRST_RECORD = enum.auto()  # the same by the first record, which must pass the full check


class AbnormalStart(enum.Enum):
    """Which commitlog file a recovery after a crash begins with: newest whose first record ..."""

    STORE_TIME = enum.auto()  # ... was stored at or before the checkpoint; only magic is looked at
    CHECKED_STORE_TIME = enum.auto()  # ... the same, and passes the full check
    QUEUED_OFFSET = enum.auto()  # ... lies at or before the last record flushed to a queue


class MinimumSearch(enum.Enum):
    """How the smallest queue offset that still has a record is found."""

    LINEAR = enum.auto()
    BINARY = enum.auto()  # throws when the last file of the queue is empty
    GUARDED = enum.auto()  # binary, and an empty last file is passed over


@dataclass(frozen=True, slots=True)
class Rules:
    """How one version starts; the values given here are those of 4.9.

    Attributes:
        version: the release.
        skips_directories: the loader passes over directories among mapped files.
        deletes_empty_last_file: the loader deletes a last file of no bytes.
        index_failure_refuses: a key index that cannot be loaded stops the broker, after recovery.
        has_batch_queues: there are batch queues, and a topic's type must fit its directory.
        reads_v2: records with a topic length of two bytes are known.
        checks_bounds: the record check compares totalSize with what is left before it allocates.
        verifies_property_crc: `forceVerifyPropCRC` exists.
        knows_zero_crc: a property CRC of 0 is one; before, it was none.
        normal_start: see there.
        abnormal_start: see there.
        recovers_newest_only: `commitLogRecoverMaxNum` limits how many files are gone back.
        normal_dispatches: recovery after a clean stop dispatches what no queue has.
        cuts_by_new_maximum: queues are cut by their maximum after the scan, not before it.
        dispatches_from_queues: start dispatches from the queues' maximum; else from the log's end.
        minimum_search: see there.
        indexes_tags: the key index has an entry for the tags, too.
        checks_log_offset: `checkCommitLogOffsetOnRecover` exists.
        accelerates: `enableAcceleratedRecovery` works on file queues.
    """

    version: Version = LINES["4.9"]
    skips_directories: bool = False
    deletes_empty_last_file: bool = False
    index_failure_refuses: bool = False
    has_batch_queues: bool = False
    reads_v2: bool = False
    checks_bounds: bool = False
    verifies_property_crc: bool = False
    knows_zero_crc: bool = False
    normal_start: NormalStart = NormalStart.THIRD_LAST
    abnormal_start: AbnormalStart = AbnormalStart.STORE_TIME
    recovers_newest_only: bool = False
    normal_dispatches: bool = False
    cuts_by_new_maximum: bool = False
    dispatches_from_queues: bool = True
    minimum_search: MinimumSearch = MinimumSearch.LINEAR
    indexes_tags: bool = False
    checks_log_offset: bool = False
    accelerates: bool = False

    @property
    def is_proven(self) -> bool:
        """Whether the tests compare this very release with the real broker."""
        return self.version in PROVEN


@dataclass(frozen=True, slots=True)
class Change:
    """What a release changed.

    Attributes:
        since: the release.
        source: the method that shows it.
        values: attributes of `Rules`.
    """

    since: Version
    source: str
    values: dict[str, Any]


CHANGES: Final = (
    Change(Version(5, 0, 0), "ConsumeQueueStore#loadConsumeQueues", {"has_batch_queues": True}),
    Change(Version(5, 0, 0), "DefaultMessageStore#start", {"dispatches_from_queues": False}),
    Change(
        Version(5, 0, 0), "ConsumeQueue#correctMinOffset", {"minimum_search": MinimumSearch.BINARY}
    ),
    Change(Version(5, 1, 0), "MappedFileQueue#doLoad", {"skips_directories": True}),
    Change(Version(5, 1, 0), "DefaultMessageStore#load", {"index_failure_refuses": True}),
    Change(Version(5, 1, 0), "MessageVersion", {"reads_v2": True}),
    Change(Version(5, 1, 3), "MappedFileQueue#doLoad", {"deletes_empty_last_file": True}),
    Change(
        Version(5, 2, 0), "CommitLog#checkMessageAndReturnSize", {"verifies_property_crc": True}
    ),
    Change(
        Version(5, 3, 2),
        "CommitLog#checkMessageAndReturnSize",
        {"checks_bounds": True, "knows_zero_crc": True},
    ),
    Change(
        Version(5, 3, 2),
        "CommitLog#recoverNormally",
        {"normal_start": NormalStart.QUEUE_MAXIMUM, "normal_dispatches": True},
    ),
    Change(
        Version(5, 3, 4),
        "CommitLog#isMappedFileMatchedRecover, ConsumeQueueStore#isMappedFileMatchedRecover",
        {
            "normal_start": NormalStart.FIRST_RECORD,
            "abnormal_start": AbnormalStart.CHECKED_STORE_TIME,
        },
    ),
    Change(Version(5, 3, 4), "ConsumeQueueStore#truncateDirty", {"cuts_by_new_maximum": True}),
    Change(Version(5, 4, 0), "CommitLog#recoverNormally", {"recovers_newest_only": True}),
    Change(Version(5, 4, 0), "IndexService#buildIndex", {"indexes_tags": True}),
    Change(
        Version(5, 5, 0),
        "ConsumeQueueStore#getDispatchFromPhyOffset, #isMappedFileMatchedRecover",
        {"abnormal_start": AbnormalStart.QUEUED_OFFSET, "accelerates": True},
    ),
    Change(Version(5, 5, 0), "CommitLog#recoverAbnormally", {"checks_log_offset": True}),
    Change(
        Version(5, 5, 0), "ConsumeQueue#correctMinOffset", {"minimum_search": MinimumSearch.GUARDED}
    ),
)


def rules_of(version: Version) -> Rules:
    """Give the rules of a release."""
    rules = Rules(version=version)
    for change in CHANGES:
        if change.since <= version:
            rules = replace(rules, **change.values)
    return rules
