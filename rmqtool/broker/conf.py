"""broker.conf: its text, the keys that matter here, and what a broker makes of each.

A broker takes a key that it does not know, and a number that it cannot read, for not given, and
says nothing: then its default counts. So does rmqtool; complaints.py says it. Which release knows
a key stands in keys.py.
Source: BrokerStartup (Properties#load on a byte stream, so ISO 8859-1 and escapes like those of
Java), MixAll#properties2Object, MessageStoreConfig, BrokerConfig, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from rmqtool.formats import batch_queue, consume_queue, index
from rmqtool.formats.java import parse_long

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rmqtool.broker.release import Version

T = TypeVar("T")

MULTI_PATH_SPLITTER: Final = ","  # JVM property rocketmq.broker.multiPathSplitter; not in the file
# Compiled where they are used: most stores come without a broker.conf.
CONTINUED_LINE: Final = r"(?<!\\)(?:\\\\)*\\$"
ESCAPE: Final = r"(?s)\\(u[0-9a-fA-F]{4}|.)"
KEY_AND_VALUE: Final = r"""(?sx)
    ((?:\\.|[^\\=:\s])*)   # a key ends at the first separator that is not escaped
    [ \t\f]*[=:]?[ \t\f]*  # one sign, spaces around it
    (.*)"""
ESCAPED_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
LARGEST_INT: Final = 2**31 - 1
PRECISIONS_MS: Final = (100, 200, 500, 1000)


class BrokerConf(NamedTuple):
    """What a broker.conf says, as text by key."""

    path: str  # where it was read from
    values: Mapping[str, str] = {}  # keys as they are spelled; the last of equal keys counts
    lines: Mapping[str, int] = {}  # number of the line of each, from 1

    @classmethod
    def parse(cls, path: str, raw: bytes) -> BrokerConf:
        """Read the bytes of a file."""
        values, lines = {}, {}
        for number, key, value in _entries(raw):
            values[key], lines[key] = value, number
        return cls(path, values, lines)

    def text(self, key: str) -> str | None:
        """Give one value without spaces around it; None when it is not set, or to nothing."""
        return self.values.get(key, "").strip() or None

    def paths(self, key: str) -> tuple[str, ...]:
        """Give one value as a list of directories, sorted as MultiPathMappedFileQueue does."""
        value = self.text(key) or ""
        return tuple(sorted({part.strip() for part in value.split(MULTI_PATH_SPLITTER)} - {""}))


class Key(NamedTuple, Generic[T]):
    """One key."""

    name: str  # as RocketMQ spells it
    default: T  # what holds when it is not given; the same in all releases that know it
    read: Callable[[str], T | None]  # what Java makes of a text; None where it leaves the default
    expects: str  # what the text should be, a phrase

    def is_known_to(self, version: Version) -> bool:
        """Tell whether a release knows it."""
        from rmqtool.broker.keys import known_keys  # a table that few commands ask

        return known_keys()[self.name].is_known_to(version)

    def given(self, conf: BrokerConf | None, version: Version | None = None) -> T | None:
        """Give what a broker takes from its file; None when that is nothing.

        Args:
            conf: the file; None when nobody gave it to us.
            version: of the broker; None for one that knows the key.
        """
        text = None if conf is None else conf.values.get(self.name)
        if text is None or (version and not self.is_known_to(version)):
            return None
        return self.read(text)

    def of(self, conf: BrokerConf | None, version: Version | None = None) -> T:
        """Give what counts: what is given, else the default."""
        value = self.given(conf, version)
        return self.default if value is None else value


def parse_integer(text: str) -> int | None:
    """Read as `Integer#parseInt` does: no spaces, not even at the end."""
    number = parse_long(text)
    return None if number is None or not -LARGEST_INT - 1 <= number <= LARGEST_INT else number


def _positive(text: str) -> int | None:
    """Read a number for which brokers put the default when it is not positive."""
    number = parse_integer(text)
    return None if number is None or number <= 0 else number


def _precision(text: str) -> int | None:
    """Read a precision: brokers take the next of theirs below. Source: #setTimerPrecisionMs."""
    number = parse_integer(text)
    if number is None:
        return None
    return max(
        (precision for precision in PRECISIONS_MS if precision <= number), default=PRECISIONS_MS[0]
    )


def parse_boolean(text: str) -> bool:
    """Read as `Boolean#parseBoolean` does: all but "true" is false, "true " too."""
    return text.lower() == "true"


def _text(text: str) -> str | None:
    return text.strip() or None


def _store_type(text: str) -> str | None:
    """Read a kind of queues, whatever its case. Source: StoreType, MessageStoreConfig, 5.3.3+."""
    kind = _text(text)
    return ROCKSDB_STORE if (kind or "").lower() == ROCKSDB_STORE.lower() else kind


def _full_percent(text: str) -> int | None:
    """Read diskMaxUsedSpaceRatio: MessageStoreConfig#getDiskMaxUsedSpaceRatio keeps to 10 to 95."""
    number = parse_integer(text)
    return None if number is None else min(max(number, 10), 95)


def _flag(name: str, *, default: bool = False) -> Key[bool]:
    return Key(name, default, parse_boolean, "true or false")


def _number(name: str, default: int) -> Key[int]:
    return Key(name, default, parse_integer, "a number without spaces")


def _word(name: str, default: str = "") -> Key[str]:
    return Key(name, default, _text, "a text")


def _kind(name: str) -> Key[str]:
    return Key(name, "default", _store_type, "a text")


# Lengths of files, bytes; of the index in items.
COMMITLOG_LENGTH: Final = _number("mappedFileSizeCommitLog", 1 << 30)
CONSUME_QUEUE_LENGTH: Final = _number(
    "mappedFileSizeConsumeQueue", consume_queue.DEFAULT_FILE_LENGTH
)
EXT_LENGTH: Final = _number("mappedFileSizeConsumeQueueExt", 48 << 20)
BATCH_QUEUE_LENGTH: Final = _number(
    "mapperFileSizeBatchConsumeQueue", batch_queue.DEFAULT_FILE_LENGTH
)
TIMER_LOG_LENGTH: Final = _number("mappedFileSizeTimerLog", 100 << 20)
INDEX_SLOTS: Final = _number("maxHashSlotNum", index.DEFAULT_HASH_SLOT_NUM)
INDEX_ENTRIES: Final = _number("maxIndexNum", index.DEFAULT_INDEX_NUM)
COMPACTION_LOG_LENGTH: Final = _number("compactionMappedFileSize", 100 << 20)
COMPACTION_QUEUE_LENGTH: Final = _number("compactionCqMappedFileSize", 10 << 20)
COMPACTION: Final = _flag("enableCompaction", default=True)

# What is written.
MAX_MESSAGE_SIZE: Final = _number("maxMessageSize", 4 << 20)
APPENDS_PROPERTY_CRC: Final = _flag("enabledAppendPropCRC")
DELAY_LEVELS: Final = _word(
    "messageDelayLevel", "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
)
MULTI_DISPATCH: Final = _flag("enableMultiDispatch")
LMQ: Final = _flag("enableLmq")
EXT: Final = _flag("enableConsumeQueueExt")
BIT_MAPS: Final = _flag("enableCalcFilterBitMap")
INDEX: Final = _flag("messageIndexEnable", default=True)
INDEX_IS_SAFE: Final = _flag("messageIndexSafe")
INDEX_FILES: Final = _flag("indexFileWriteEnable", default=True)
TIMER_WHEEL: Final = _flag("timerWheelEnable", default=True)
TIMER_PRECISION_MS: Final = Key("timerPrecisionMs", 1000, _precision, "a number without spaces")
BLOOM_ERROR_RATE: Final = _number("maxErrorRateOfBloomFilter", 20)
BLOOM_CONSUMERS: Final = _number("expectConsumerNumUseFilter", 32)

# How a broker starts.
CHECKS_CRC: Final = _flag("checkCRCOnRecover", default=True)
FORCES_PROPERTY_CRC: Final = _flag("forceVerifyPropCRC")
RECHECKS_QUEUES: Final = _flag("recheckReputOffsetFromCq")
RECOVERED_FILES: Final = Key(
    "commitLogRecoverMaxNum", 10, _positive, "a positive number without spaces"
)
CHECKS_LOG_OFFSET: Final = _flag("checkCommitLogOffsetOnRecover")
ACCELERATES: Final = _flag("enableAcceleratedRecovery")
CHECKPOINT_MARGIN_MS: Final = 3000  # no key: StoreCheckpoint#getMinTimestamp
BROKER_ID: Final = Key("brokerId", 0, parse_long, "a number without spaces")

# What it deletes.
RESERVED_HOURS: Final = _number("fileReservedTime", 72)
DELETE_WHEN: Final = _word("deleteWhen", "04")
FULL_PERCENT: Final = Key("diskMaxUsedSpaceRatio", 75, _full_percent, "a number without spaces")
CLEANS_FORCIBLY: Final = _flag("cleanFileForciblyEnable", default=True)
CLEANS_ABOVE: Final = _number("diskSpaceCleanForciblyRatio", 85)
CLEANED_ABOVE: Final = (30, 85)  # percent; brokers take the nearer one of these instead
FILES_AT_ONCE: Final = _number("deleteFileBatchMax", 10)

# What keeps queues or offsets elsewhere.
ROCKSDB_STORE: Final = "defaultRocksDB"
STORE_TYPE: Final = _kind("storeType")
DOUBLE_WRITE: Final = _flag("rocksdbCQDoubleWriteEnable")
LOADED: Final = _word("combineCQLoadingCQTypes", "default;defaultRocksDB")
OFFSETS_BY: Final = _kind("combineAssignOffsetCQType")
READ_FROM: Final = _kind("combineCQPreferCQType")
MORE_FILES: Final = _number("combineCQMaxExtraSearchCommitLogFiles", 3)
SEPARATE_DATABASE: Final = _flag("useSeparateStorePathForRocksdbCQ")
INDEX_IN_ROCKSDB: Final = _flag("indexRocksDBEnable")
TIMER_IN_ROCKSDB: Final = _flag("timerRocksDBEnable")
HALVES_IN_ROCKSDB: Final = _flag("transRocksDBEnable")
LIGHT_QUEUES_IN_ROCKSDB: Final = _flag("combineCQUseRocksdbForLmq")
SELECTIVE: Final = _flag("rocksdbCQSelectiveDoubleWriteEnable")
ROCKSDB_KEYS: Final = (DOUBLE_WRITE, INDEX_IN_ROCKSDB, TIMER_IN_ROCKSDB, HALVES_IN_ROCKSDB)
CONFIG_MANAGER: Final = _word("configManagerVersion", "v1")
SECOND_CONFIG_MANAGER: Final = "v2"
ONE_CONFIG_DATABASE: Final = _flag("useSingleRocksDBForAllConfigs")
POP_DATABASE: Final = _flag("popConsumerKVServiceInit")
DUPLICATION: Final = _flag("duplicationEnable")
CONTROLLER: Final = _flag("enableControllerMode")
DLEDGER: Final = _flag("enableDLegerCommitLog")

# Where files lie; empty for the usual place.
ROOT: Final = _word("storePathRootDir")
COMMITLOG: Final = _word("storePathCommitLog")
READ_ONLY_COMMITLOG: Final = _word("readOnlyCommitLogStorePaths")
DLEDGER_COMMITLOG: Final = _word("storePathDLedgerCommitLog")
DLEDGER_ID: Final = _word("dLegerSelfId")
PATHS: Final = frozenset({ROOT, COMMITLOG, READ_ONLY_COMMITLOG, DLEDGER_COMMITLOG})

LENGTHS: Final = frozenset(
    {
        *(COMMITLOG_LENGTH, CONSUME_QUEUE_LENGTH, EXT_LENGTH, BATCH_QUEUE_LENGTH, TIMER_LOG_LENGTH),
        *(INDEX_SLOTS, INDEX_ENTRIES, COMPACTION_LOG_LENGTH, COMPACTION_QUEUE_LENGTH),
    }
)
KEYS: Final = {key.name: key for key in tuple(globals().values()) if isinstance(key, Key)}


def keeps_index_files(conf: BrokerConf | None, version: Version | None) -> bool:
    """Tell whether a release indexes keys in files, by its `broker.conf` or by default.

    Source: IndexService#buildIndex; MessageStoreConfig#isIndexFileWriteEnable, 5.4.0 and newer.
    """
    return INDEX.of(conf, version) and INDEX_FILES.of(conf, version)


def _entries(raw: bytes) -> Iterator[tuple[int, str, str]]:
    """Yield line, key and value."""
    for number, line in _logical_lines(raw.decode("iso-8859-1")):
        match = re.match(KEY_AND_VALUE, line)
        if match and match[1]:
            yield number, _unescaped(match[1]), _unescaped(match[2])


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join continued lines; drop comments and empty lines; number them by their first line."""
    begun, first = "", 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(" \t\f")
        if not first and (not line or line[0] in "#!"):
            continue
        first, begun = first or number, begun + line
        if re.search(CONTINUED_LINE, begun):
            begun = begun[:-1]
        else:
            yield first, begun
            begun, first = "", 0
    if begun:
        yield first, begun


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        escaped = match[1]
        if len(escaped) > 1:
            return chr(int(escaped[1:], 16))
        return ESCAPED_CONTROLS.get(escaped, escaped)

    return re.sub(ESCAPE, character, text)
