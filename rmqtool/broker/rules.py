"""What releases do differently: one table, a row a rule.

A rule has a name of its own, the releases that it holds for and the method that shows it. Whoever
needs one asks for it by that name; nobody compares versions. Each row was found by comparing that
method in the sources of all releases from 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, Generic, Self, TypeVar, overload

from rmqtool.broker.release import Version

T = TypeVar("T")

# What tests compare with real message stores of that very release.
PROVEN: Final = frozenset(
    {
        Version(4, 9, 3),
        Version(5, 1, 4),
        Version(5, 2, 0),
        Version(5, 3, 3),
        Version(5, 3, 4),
        Version(5, 4, 0),
        Version(5, 5, 0),
        Version(5, 5, 1),
    }
)


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
    RESETTING = enum.auto()  # guarded, and a queue without files forgets how far it reached


class TimeSearch(enum.Enum):
    """How the queue offset of a store time is found."""

    NEAREST = enum.auto()  # a file by its modification time, in it the nearest message
    BOUNDED = enum.auto()  # a file by its first and last message, in it the boundary asked for


class NotMultiDispatched(enum.IntEnum):
    """Records of which topics go to no light queue; each release leaves out more."""

    NONE = enum.auto()
    RETRIES = enum.auto()
    AND_WAITING = enum.auto()  # SCHEDULE_TOPIC_XXXX and the timer's topic, too
    AND_SYSTEM = enum.auto()  # all that begin with rmq_sys_, too


class Rule(Generic[T]):
    """One row: what holds from which release on.

    Attributes:
        name: by which it is asked for.
        says: what is the case where it is true, a phrase.
        source: the Java method.
        oldest: what holds for 4.9.
        changes: release and what holds from it on, oldest first.
    """

    def __init__(self, says: str, source: str, oldest: T, *changes: tuple[str, T]) -> None:
        self.name = ""
        self.says, self.source, self.oldest = says, source, oldest
        self.changes = tuple((Version.known(text), value) for text, value in changes)
        self._known: dict[Version, T] = {}  # asked for with every record

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, rules: None, owner: type) -> Self: ...

    @overload
    def __get__(self, rules: Rules, owner: type) -> T: ...

    def __get__(self, rules: Rules | None, owner: type) -> T | Self:
        return self if rules is None else self.of(rules.version)

    def of(self, version: Version) -> T:
        """Give what holds for a release."""
        if version not in self._known:
            in_force = self.oldest
            for since, value in self.changes:
                if since <= version:
                    in_force = value
            self._known[version] = in_force
        return self._known[version]


def _since(release: str, source: str, says: str) -> Rule[bool]:
    """Give a rule that holds from a release on."""
    return Rule(says, source, False, (release, True))


@dataclass(frozen=True, slots=True)
class Rules:
    """What one release does. Picklable."""

    version: Version  # the release

    # Configuration and files
    trims_settings = _since(
        "5.2.0",
        "MixAll#properties2Object",
        "spaces at the end of a text in broker.conf do not count",
    )
    skips_directories = _since(
        "5.1.0",
        "MappedFileQueue#doLoad",
        "the loader skips directories among mapped files",
    )
    deletes_empty_last_file = _since(
        "5.1.3", "MappedFileQueue#doLoad", "the loader deletes a last file of no bytes"
    )
    index_failure_refuses = _since(
        "5.1.0",
        "DefaultMessageStore#load",
        "a key index that cannot be loaded stops the broker, after recovery",
    )
    reads_mappings_and_orders = _since(
        "5.0.0",
        "TopicQueueMappingManager, ConsumerOrderInfoManager",
        "topicQueueMapping.json and consumerOrderInfo.json are read",
    )
    refuses_blank_configuration = _since(
        "5.4.0",
        "RemotingSerializable#fromJson",
        "white space in place of JSON is an error (fastjson2)",
    )
    spreads_number_keys = _since(
        "5.4.0",
        "RemotingSerializable#toJson",
        "numbers that are keys of a map stand on lines of their own (fastjson2)",
    )
    has_metadata_families = _since(
        "5.3.1",
        "ConfigRocksDBStorage#postLoad",
        "databases of topics, groups and offsets have more families than the default one; before, "
        "RocksDB does not open such a database",
    )
    refuses_damaged_metadata = _since(
        "5.3.4",
        "RocksDBConfigManager#loadData",
        "rows of topics, groups or offsets in RocksDB that cannot be read stop the broker; before, "
        "it starts without them",
    )
    has_queues_in_rocksdb = _since(
        "5.2.0",
        "RocksDBMessageStore",
        "storeType=defaultRocksDB puts queues into RocksDB; before, topics, groups and offsets",
    )
    has_timer = _since(
        "5.0.0", "TimerMessageStore", "there is a timer wheel, which must have its length"
    )
    timer_slack = Rule(
        "how many bytes a timer message may be longer than maxMessageSize; a longer one is never "
        "delivered",
        "TimerMessageStore#TimerMessageStore",
        100,
        ("5.5.1", 64 << 10),
    )
    loses_changed_pops = Rule(
        "a changed invisible time that ends in the same ms deletes the record in RocksDB of the "
        "popped message",
        "PopConsumerService#changeInvisibilityDuration",
        False,
        ("5.3.2", True),
        ("5.5.1", False),
    )
    filters_natively = _since(
        "5.5.1",
        "ConsumeQueueRocksDBStorage#postLoad",
        "a native library drops expired units from RocksDB; where it is not loaded, nothing does",
    )
    has_pop = _since("5.0.0", "PopMessageProcessor", "consumers may pop messages")
    has_lite_topics = _since(
        "5.5.0", "LiteLifecycleManager", "topics may be lite: message.type=LITE"
    )
    has_state_version = _since(
        "5.0.0", "DataVersion, TopicConfig", "JSON has stateVersion and attributes"
    )
    records_queued_offset = _since(
        "5.5.0", "StoreCheckpoint#getLogicsPhysicalOffset", "the checkpoint has that field"
    )

    # Records
    has_v2 = _since("5.1.0", "MessageVersion", "records with a topic length of two bytes are known")
    checks_bounds = _since(
        "5.3.2",
        "CommitLog#checkMessageAndReturnSize",
        "totalSize is compared with the rest of the file before memory is allocated for it",
    )
    refuses_negative_sizes = _since(
        "5.5.1",
        "CommitLog#checkMessageAndReturnSize",
        "a totalSize below 0 ends the log, also in a blank",
    )
    verifies_property_crc = _since(
        "5.2.0", "CommitLog#checkMessageAndReturnSize", "forceVerifyPropCRC exists"
    )
    knows_zero_crc = _since(
        "5.3.2",
        "CommitLog#checkMessageAndReturnSize",
        "a property CRC of 0 is one; before, it was none",
    )
    reads_batch_numbers = _since(
        "5.0.0",
        "CommitLog#setBatchSizeIfNeeded",
        "INNER_BASE and INNER_NUM are numbers, or the record is bad",
    )

    # Dispatch
    has_batch_queues = _since(
        "5.0.0", "ConsumeQueueStore#queueTypeShouldBe", "topics may have batch queues"
    )
    not_multi_dispatched = Rule(
        "whose records go to no light queue",
        "ConsumeQueue#checkMultiDispatchQueue, later MultiDispatchUtils",
        NotMultiDispatched.NONE,
        ("5.1.1", NotMultiDispatched.RETRIES),
        ("5.1.2", NotMultiDispatched.AND_WAITING),
        ("5.2.0", NotMultiDispatched.AND_SYSTEM),
    )
    dispatches_without_properties = _since(
        "4.9.4",
        "DefaultMessageStore#checkMultiDispatchQueue",
        "with enableMultiDispatch, too, a record may have no properties; before, Java throws",
    )
    skips_separators = _since(
        "5.1.2",
        "ConsumeQueue#multiDispatchLmqQueue",
        "a light queue with a / in its name is skipped",
    )
    splits_directories = _since(
        "4.9.4",
        "MappedFile#ensureDirOK, UtilAll#ensureDirOK",
        "a directory with a , in its name is never made, so that a new topic of such a name "
        "ends the writing of all queues",
    )
    may_keep_light_queues_in_rocksdb = _since(
        "5.5.0",
        "MultiDispatchUtils#checkMultiDispatchQueue",
        "light queues are in RocksDB alone where two keys say so",
    )
    indexes_tags = _since(
        "5.4.0", "IndexService#buildIndex", "the key index has an entry for the tags, too"
    )

    # Recovery
    normal_start = Rule(
        "the file that recovery after a clean stop begins with",
        "CommitLog#recoverNormally, #isMappedFileMatchedRecover",
        NormalStart.THIRD_LAST,
        ("5.3.2", NormalStart.QUEUE_MAXIMUM),
        ("5.3.4", NormalStart.FIRST_RECORD),
    )
    abnormal_start = Rule(
        "the file that recovery after a crash begins with",
        "CommitLog#isMappedFileMatchedRecover, ConsumeQueueStore#isMappedFileMatchedRecover",
        AbnormalStart.STORE_TIME,
        ("5.3.4", AbnormalStart.CHECKED_STORE_TIME),
        ("5.5.0", AbnormalStart.QUEUED_OFFSET),
    )
    recovers_newest_only = _since(
        "5.4.0",
        "CommitLog#recoverNormally",
        "commitLogRecoverMaxNum limits how many files are gone back",
    )
    normal_dispatches = _since(
        "5.3.2",
        "CommitLog#recoverNormally",
        "recovery after a clean stop dispatches what no queue has",
    )
    cuts_by_new_maximum = _since(
        "5.3.4",
        "ConsumeQueueStore#truncateDirty",
        "queues are cut by their maximum after the scan, not before it",
    )
    dispatches_from_queues = Rule(
        "dispatch begins at the queues' maximum, otherwise at the end of the log",
        "DefaultMessageStore#start",
        True,
        ("5.0.0", False),
    )
    minimum_search = Rule(
        "how the smallest queue offset that still has a record is found",
        "ConsumeQueue#correctMinOffset",
        MinimumSearch.LINEAR,
        ("5.0.0", MinimumSearch.BINARY),
        ("5.5.0", MinimumSearch.GUARDED),
        ("5.5.1", MinimumSearch.RESETTING),
    )
    checks_log_offset = _since(
        "5.5.0", "CommitLog#recoverAbnormally", "checkCommitLogOffsetOnRecover exists"
    )
    accelerates = _since(
        "5.5.0",
        "ConsumeQueueStore#getDispatchFromPhyOffset",
        "enableAcceleratedRecovery works on file queues",
    )

    combines_queue_stores = _since(
        "5.3.4",
        "DefaultMessageStore#createConsumeQueueStore",
        "queues in files and in RocksDB are recovered and read together",
    )
    skips_unstarted_queues = _since(
        "5.5.0",
        "CombineConsumeQueueStore#isMappedFileMatchedRecover",
        "recovery does not go back for queues that were never written",
    )

    has_compaction = _since("5.1.0", "CompactionStore", "topics may be compacted: `compaction/`")
    checks_both_databases = _since(
        "5.5.0",
        "ConsumeQueueStore",
        "queues in the database that is not configured stop the broker",
    )
    reads_on_in_rocksdb = _since(
        "5.5.0",
        "RocksDBConsumeQueue#iterateFrom0, RocksDBReusableIterator",
        "a pull in RocksDB looks at more units than it asks for, and throws at a hole;"
        " before, consumers are sent back to 0",
    )
    pulls_by_place = _since(
        "5.0.0",
        "DefaultMessageStore#getMessage, ConsumeQueue#iterateFrom",
        "a pull ends at the queue's maximum; the next goes on after the place of its last unit",
    )

    # Search by time
    time_search = Rule(
        "how the queue offset of a store time is found",
        "ConsumeQueue#getOffsetInQueueByTime",
        TimeSearch.NEAREST,
        ("5.1.1", TimeSearch.BOUNDED),
    )
    times_end_with_log = _since(
        "5.1.0",
        "CommitLog#pickupStoreTimestamp",
        "a unit that points past the end of the log has no time",
    )

    @property
    def is_proven(self) -> bool:
        """Whether tests compare this very release with a real message store."""
        return self.version in PROVEN


def passes_pre_blank(log_start: int) -> bool:
    """Tell whether a broker passes pre-blank units over, as expired.

    They name byte 0 of the log. Where that is there, it hands them out, finds no record of their
    size, and skips the first segment with all messages in it. Source: ConsumeQueue#correctMinOffset
    and DefaultMessageStore#getMessage, 4.9.3 to 5.5.1; observed.

    Args:
        log_start: physical offset of the first file.
    """
    return log_start > 0


def counts_zeros(unit_before: bytes | None) -> bool:
    """Tell whether a broker counts a unit in the newest file of a queue, of zeros alone.

    It does after a crash, and after a clean stop where a queue reaches the log's end; who pulls
    that unit gets an error. A file that does not go on where the units end recovery deletes.
    Source: ConsumeQueue#recover, #truncateDirtyLogicFiles, 4.9.3 to 5.5.0;
    DefaultPullMessageResultHandler#readGetMessageResult, 5.1.0 to 5.5.0.

    Args:
        unit_before: the unit in front of the file; None where it is the queue's first.
    """
    return unit_before is None or any(unit_before)
