"""broker.conf: its text, the keys that matter here, and what a broker makes of each.

A broker takes a key that it does not know, and a number that it cannot read, for not given, and
says nothing: then its default counts. So does rmqtool, and `complaints` says it.
Source: BrokerStartup (Properties#load on a byte stream, so ISO 8859-1 and escapes like those of
Java), MixAll#properties2Object, MessageStoreConfig, BrokerConfig, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.formats import batch_queue, consume_queue, index
from rmqtool.formats.java import parse_long

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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
ALIKE: Final = 0.9  # of a key that was meant to be another


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
    since: Version | None = None  # the first release that knows it; None for all

    def given(self, conf: BrokerConf | None, version: Version | None = None) -> T | None:
        """Give what a broker takes from its file; None when that is nothing.

        Args:
            conf: the file; None when nobody gave it to us.
            version: of the broker; None for one that knows the key.
        """
        text = None if conf is None else conf.values.get(self.name)
        if text is None or (version and self.since and version < self.since):
            return None
        return self.read(text)

    def of(self, conf: BrokerConf | None, version: Version | None = None) -> T:
        """Give what counts: what is given, else the default."""
        found = self.given(conf, version)
        return self.default if found is None else found


class Complaint(NamedTuple):
    """One thing about a broker.conf that a broker passes over without a word."""

    key: str  # as it is spelled in the file
    line: int  # its number, from 1; 0 when it is not known
    value: str  # as it is in the file
    says: str  # what is wrong and what counts instead, a phrase
    is_of_later: bool = False  # later releases know the key, as one file is often used for several

    def __str__(self) -> str:
        return f"line {self.line}: {self.key}: {self.says}"


def _integer(text: str) -> int | None:
    """Read as `Integer#parseInt` does: no spaces, not even at the end."""
    number = parse_long(text)
    return None if number is None or not -LARGEST_INT - 1 <= number <= LARGEST_INT else number


def _positive(text: str) -> int | None:
    """Read a number for which brokers put the default when it is not positive."""
    number = _integer(text)
    return None if number is None or number <= 0 else number


def _precision(text: str) -> int | None:
    """Read a precision: brokers take the next of theirs below. Source: #setTimerPrecisionMs."""
    number = _integer(text)
    if number is None:
        return None
    return max((one for one in PRECISIONS_MS if one <= number), default=PRECISIONS_MS[0])


def _boolean(text: str) -> bool:
    """Read as `Boolean#parseBoolean` does: all but "true" is false, "true " too."""
    return text.lower() == "true"


def _text(text: str) -> str | None:
    return text.strip() or None


def _store_type(text: str) -> str | None:
    """Read a kind of queues, whatever its case. Source: StoreType, MessageStoreConfig, 5.3.3+."""
    kind = _text(text)
    return ROCKSDB_STORE if (kind or "").lower() == ROCKSDB_STORE.lower() else kind


def _flag(name: str, since: str = "", *, default: bool = False) -> Key[bool]:
    return Key(name, default, _boolean, "true or false", Version.known(since) if since else None)


def _number(name: str, default: int, since: str = "") -> Key[int]:
    expects = "a number without spaces"
    return Key(name, default, _integer, expects, Version.known(since) if since else None)


def _word(name: str, default: str = "", since: str = "") -> Key[str]:
    return Key(name, default, _text, "a text", Version.known(since) if since else None)


def _kind(name: str, since: str) -> Key[str]:
    return Key(name, "default", _store_type, "a text", Version.known(since))


# Lengths of files, bytes; of the index in items.
COMMITLOG_LENGTH: Final = _number("mappedFileSizeCommitLog", 1 << 30)
CONSUME_QUEUE_LENGTH: Final = _number(
    "mappedFileSizeConsumeQueue", consume_queue.DEFAULT_FILE_LENGTH
)
EXT_LENGTH: Final = _number("mappedFileSizeConsumeQueueExt", 48 << 20)
BATCH_QUEUE_LENGTH: Final = _number(
    "mapperFileSizeBatchConsumeQueue", batch_queue.DEFAULT_FILE_LENGTH, "5.0.0"
)
TIMER_LOG_LENGTH: Final = _number("mappedFileSizeTimerLog", 100 << 20, "5.0.0")
INDEX_SLOTS: Final = _number("maxHashSlotNum", index.DEFAULT_HASH_SLOT_NUM)
INDEX_ENTRIES: Final = _number("maxIndexNum", index.DEFAULT_INDEX_NUM)
COMPACTION_LOG_LENGTH: Final = _number("compactionMappedFileSize", 100 << 20, "5.1.0")
COMPACTION_QUEUE_LENGTH: Final = _number("compactionCqMappedFileSize", 10 << 20, "5.1.0")
COMPACTION: Final = _flag("enableCompaction", "5.1.0", default=True)

# What is written.
MAX_MESSAGE_SIZE: Final = _number("maxMessageSize", 4 << 20)
APPENDS_PROPERTY_CRC: Final = _flag("enabledAppendPropCRC", "5.2.0")
DELAY_LEVELS: Final = _word(
    "messageDelayLevel", "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
)
MULTI_DISPATCH: Final = _flag("enableMultiDispatch")
LMQ: Final = _flag("enableLmq")
EXT: Final = _flag("enableConsumeQueueExt")
BIT_MAPS: Final = _flag("enableCalcFilterBitMap")
INDEX: Final = _flag("messageIndexEnable", default=True)
INDEX_IS_SAFE: Final = _flag("messageIndexSafe")
INDEX_FILES: Final = _flag("indexFileWriteEnable", "5.4.0", default=True)
TIMER_WHEEL: Final = _flag("timerWheelEnable", "5.0.0", default=True)
TIMER_PRECISION_MS: Final = Key(
    "timerPrecisionMs", 1000, _precision, "a number without spaces", Version(5, 0, 0)
)
BLOOM_ERROR_RATE: Final = _number("maxErrorRateOfBloomFilter", 20)
BLOOM_CONSUMERS: Final = _number("expectConsumerNumUseFilter", 32)

# How a broker starts.
CHECKS_CRC: Final = _flag("checkCRCOnRecover", default=True)
FORCES_PROPERTY_CRC: Final = _flag("forceVerifyPropCRC", "5.2.0")
RECHECKS_QUEUES: Final = _flag("recheckReputOffsetFromCq", "5.0.0")
RECOVERED_FILES: Final = Key(
    "commitLogRecoverMaxNum", 10, _positive, "a positive number without spaces", Version(5, 4, 0)
)
CHECKS_LOG_OFFSET: Final = _flag("checkCommitLogOffsetOnRecover", "5.5.0")
ACCELERATES: Final = _flag("enableAcceleratedRecovery", "5.3.4")
CHECKPOINT_MARGIN_MS: Final = 3000  # no key: StoreCheckpoint#getMinTimestamp
BROKER_ID: Final = Key("brokerId", 0, parse_long, "a number without spaces")

# What it deletes.
RESERVED_HOURS: Final = _number("fileReservedTime", 72)
CLEANS_FORCIBLY: Final = _flag("cleanFileForciblyEnable", default=True)

# What keeps queues or offsets elsewhere.
ROCKSDB_STORE: Final = "defaultRocksDB"
STORE_TYPE: Final = _kind("storeType", "5.1.4")
DOUBLE_WRITE: Final = _flag("rocksdbCQDoubleWriteEnable", "5.3.1")
LOADED: Final = _word("combineCQLoadingCQTypes", "default;defaultRocksDB", "5.3.4")
OFFSETS_BY: Final = _kind("combineAssignOffsetCQType", "5.3.4")
READ_FROM: Final = _kind("combineCQPreferCQType", "5.3.4")
FURTHER_FILES: Final = _number("combineCQMaxExtraSearchCommitLogFiles", 3, "5.3.4")
SEPARATE_DATABASE: Final = _flag("useSeparateStorePathForRocksdbCQ", "5.5.0")
INDEX_IN_ROCKSDB: Final = _flag("indexRocksDBEnable", "5.4.0")
TIMER_IN_ROCKSDB: Final = _flag("timerRocksDBEnable", "5.4.0")
HALVES_IN_ROCKSDB: Final = _flag("transRocksDBEnable", "5.4.0")
LIGHT_QUEUES_IN_ROCKSDB: Final = _flag("combineCQUseRocksdbForLmq", "5.5.0")
SELECTIVE: Final = _flag("rocksdbCQSelectiveDoubleWriteEnable", "5.5.1")
ROCKSDB_KEYS: Final = (DOUBLE_WRITE, INDEX_IN_ROCKSDB, TIMER_IN_ROCKSDB, HALVES_IN_ROCKSDB)
CONFIG_MANAGER: Final = _word("configManagerVersion", "v1", "5.3.2")
SECOND_CONFIG_MANAGER: Final = "v2"
ONE_CONFIG_DATABASE: Final = _flag("useSingleRocksDBForAllConfigs", "5.3.4")
POP_DATABASE: Final = _flag("popConsumerKVServiceInit", "5.3.2")
DUPLICATION: Final = _flag("duplicationEnable")
CONTROLLER: Final = _flag("enableControllerMode", "5.0.0")
DLEDGER: Final = _flag("enableDLegerCommitLog")

# Where files lie; empty for the usual place.
ROOT: Final = _word("storePathRootDir")
COMMITLOG: Final = _word("storePathCommitLog")
READ_ONLY_COMMITLOG: Final = _word("readOnlyCommitLogStorePaths")
DLEDGER_COMMITLOG: Final = _word("storePathDLedgerCommitLog", "", "4.9.4")
DLEDGER_ID: Final = _word("dLegerSelfId")
PATHS: Final = frozenset({ROOT, COMMITLOG, READ_ONLY_COMMITLOG, DLEDGER_COMMITLOG})

LENGTHS: Final = frozenset(
    {
        *(COMMITLOG_LENGTH, CONSUME_QUEUE_LENGTH, EXT_LENGTH, BATCH_QUEUE_LENGTH, TIMER_LOG_LENGTH),
        *(INDEX_SLOTS, INDEX_ENTRIES, COMPACTION_LOG_LENGTH, COMPACTION_QUEUE_LENGTH),
    }
)
LIKE_OTHERS: Final = {"popConsumerFSServiceInit"}  # keys of brokers that matter to no file
KEYS: Final = {one.name: one for one in tuple(globals().values()) if isinstance(one, Key)}


def complaints(conf: BrokerConf, version: Version) -> Iterator[Complaint]:
    """Yield what a broker of a release passes over in its file: what it takes for not given.

    A key that is not in `KEYS` is taken for one that does not matter, unless it is much like one
    that does.
    """
    for name, value in conf.values.items():
        key = KEYS.get(name)
        says = _unlike(name) if key is None else _passed_over(key, value, version)
        if says:
            is_of_later = bool(key and key.since and version < key.since)
            yield Complaint(name, conf.lines.get(name, 0), value, says, is_of_later)


def _unlike(name: str) -> str:
    """Say which key was meant by one that no broker knows; empty when it may be any."""
    from difflib import get_close_matches  # seldom needed, and slow to load

    if name in LIKE_OTHERS:
        return ""
    meant = [one for one in KEYS if one.casefold() == name.casefold()]
    meant = meant or get_close_matches(name, KEYS, 1, ALIKE)
    return f"brokers ignore it: the key is {meant[0]}" if meant else ""


def _passed_over(key: Key[Any], value: str, version: Version) -> str:
    found = key.read(value)
    if key.since and version < key.since:
        makes_a_difference = found not in {None, key.default}
        return f"{version} ignores it: {key.since} brought it" if makes_a_difference else ""
    if found is None and key.default != "":
        return f"{value!r} is not {key.expects}: the default {key.default} counts"
    if key in LENGTHS and found is not None and found <= 0:
        return f"{value} is not a length that a broker works with"
    if found is False and value.lower() != "false":
        return f"{value!r} is not {key.expects}: it counts as false"
    if key in PATHS and value != value.strip() and not Rules(version).trims_settings:
        return f"{version} takes the spaces at the end of {value!r} for part of the path"
    return ""


def parse_properties(raw: bytes) -> dict[str, str]:
    """Read Java properties; also the form of DLedger's `checkpoint` and `currterm`."""
    return {key: value for _, key, value in _entries(raw)}


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
