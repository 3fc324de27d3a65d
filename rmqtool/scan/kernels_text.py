"""Kernels that read topic and properties: intern topics, hash tags, collect index keys.

Source: MessageDecoder#string2messageProperties (4.9.1+), IndexService#buildIndex,
MessageExtBrokerInner#tagsString2tagsCode, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.message import SysFlag
from rmqtool.formats.properties import CRC32_RESERVED_LENGTH
from rmqtool.machine.compiled import called, inlined, kernel
from rmqtool.machine.intrinsics import MASK_BYTES, load_i8, mask_of, trailing_zeros
from rmqtool.scan import columns as row
from rmqtool.scan.columns import (
    HASH,
    KEY_SEED,
    TEXT_LENGTH,
    TEXT_START,
    TOPICS,
    TOPICS_TEXT,
    WORD_SLACK,
)
from rmqtool.scan.crc import crc31
from rmqtool.scan.kernels_hash import (
    LOW_32,
    WORD,
    decoded_hash,
    first_bytes,
    index_hash,
    java_hash,
    signed,
)
from rmqtool.scan.kernels_properties import (
    CRC,
    DELAY,
    DISPATCH,
    DISPATCH_OFFSET,
    INNER_BASE,
    INNER_NUM,
    KEYS,
    LARGEST_INT,
    LARGEST_LONG,
    LARGEST_SHORT,
    MARKS,
    STATE,
    TAGS,
    UNIQUE_KEY,
    forget_shapes,
    parse_crc,
    parse_number,
    read_properties,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    from rmqtool.machine.arrays import Checksum, Int64s, Topics, UInt8s

    Keys: TypeAlias = tuple[Int64s, Int64s]  # (record, hash) pairs, and the scratch

# What is wanted of each record, bits.
WANT_KEYS: Final = 1  # entries of the key index
WANT_TAG_KEYS: Final = 2  # 5.4.0+: one more entry for the tags
WANT_PROPERTY_CRC: Final = 4
WANT_WELL_FORMED: Final = 8  # mark text that is no UTF-8

# Why a kernel stopped.
DONE: Final = 0
KEYS_FULL: Final = 1
TOPICS_FULL: Final = 2

KEY_SEPARATOR: Final = 0x20
NUMBER_SIGN: Final = 0x23
SHORTEST_KEY: Final = 2  # bytes of properties that one more key takes at least, its space counted
RESERVED_FOR_CRC: Final = CRC32_RESERVED_LENGTH  # the tail that the sum leaves out
ROLLBACK: Final = SysFlag.TRANSACTION_ROLLBACK_TYPE
MIXER: Final = 0x1E3779B97F4A7C15  # odd; its products wrap
TAG_KEY: Final = tuple(b"T#")  # IndexService: topic#T#tags
MOST_OTHER_KEYS: Final = 3  # the unique key, the tags, and one that rounding hides


@inlined
def mix(window: UInt8s, start: int, length: int) -> int:
    """Give a 64-bit hash of a stretch of bytes; only this process ever sees it."""
    value = length * MIXER
    end = start + length
    for position in range(start, end, WORD):
        word = load_i8(window, position)
        if end - position < WORD:
            word = first_bytes(word, end - position)
        value = (value ^ word) * MIXER
        value ^= value >> 32
    return value


@inlined
def first_slot(value: int, last: int) -> int:
    """Say where in a table of `last + 1` slots a hash is looked for first."""
    return (value ^ (value >> 29)) & last


@inlined
def same_bytes(window: UInt8s, start: int, text: UInt8s, text_start: int, length: int) -> bool:
    """Compare a stretch of the window with one of the arena."""
    for position in range(0, length, WORD):
        word, other = load_i8(window, start + position), load_i8(text, text_start + position)
        if length - position < WORD:
            word = first_bytes(word, length - position)
            other = first_bytes(other, length - position)
        if word != other:
            return False
    return True


@called
def key_seed(window: UInt8s, start: int, length: int) -> int:
    """Give the hash of `topic#`, with which the hashes of its keys begin."""
    return (31 * java_hash(window, start, length, 0) + NUMBER_SIGN) & LOW_32


@inlined
def intern(window: UInt8s, start: int, length: int, topics: Topics) -> int:
    """Give the number of a topic, a new one if need be; -1 when there is no room.

    Args:
        window: uint8, shape (n,).
        start: first byte of the topic.
        length: bytes.
        topics: slots, facts, text and counts of a `TopicTable`.
    """
    slots, facts, text, counts = topics
    value = mix(window, start, length)
    last = slots.size - 1
    slot = first_slot(value, last)
    while slots[slot] >= 0:
        number = slots[slot]
        if (
            facts[number, HASH] == value
            and facts[number, TEXT_LENGTH] == length
            and same_bytes(window, start, text, facts[number, TEXT_START], length)
        ):
            return int(number)
        slot = (slot + 1) & last
    number, used = counts[TOPICS], counts[TOPICS_TEXT]
    if 2 * (number + 1) > slots.size or used + length + WORD_SLACK > text.size:
        return -1
    for position in range(length):
        text[used + position] = window[start + position]
    facts[number, HASH], facts[number, TEXT_START] = value, used
    facts[number, TEXT_LENGTH] = length
    facts[number, KEY_SEED] = key_seed(window, start, length)
    slots[slot] = number
    counts[TOPICS], counts[TOPICS_TEXT] = number + 1, used + length
    return int(number)


@inlined
def add_key(window: UInt8s, value: tuple[int, int], seed: int, number: int, keys: Keys) -> None:
    """Add an entry of the key index.

    Args:
        window: uint8, shape (n,).
        value: start and length of the key.
        seed: hash of what stands before it.
        number: the record's column.
        keys: int64 matrix of (record, hash), and the scratch that counts them.
    """
    pairs, scratch = keys
    count = scratch[STATE, 0]
    pairs[0, count] = number
    pairs[1, count] = index_hash(java_hash(window, value[0], value[1], seed))
    scratch[STATE, 0] = count + 1


@inlined
def collect_keys(
    window: UInt8s, columns: Int64s, number: int, seed: int, keys: Keys, want: int
) -> None:
    """Add the index entries of one record: unique key, keys, and from 5.4.0 on tags."""
    length = columns[row.UNIQUE_KEY_LENGTH, number]
    if length:
        add_key(window, (columns[row.UNIQUE_KEY_START, number], length), seed, number, keys)
    start = columns[row.KEYS_START, number]
    end = start + columns[row.KEYS_LENGTH, number]
    for block in range(start, end + 1 if end > start else start, MASK_BYTES):
        spaces = mask_of(window, block, KEY_SEPARATOR)
        if end - block < MASK_BYTES:  # the end counts as a separator
            last = 1 << (end - block)
            spaces = spaces & (last - 1) | last
        while spaces:
            position = block + trailing_zeros(spaces)
            spaces &= spaces - 1
            if position > start:
                add_key(window, (start, position - start), seed, number, keys)
            start = position + 1
    length = columns[row.TAGS_LENGTH, number]
    if want & WANT_TAG_KEYS and length:
        tag_seed = (31 * (31 * seed + TAG_KEY[0]) + TAG_KEY[1]) & LOW_32
        add_key(window, (columns[row.TAGS_START, number], length), tag_seed, number, keys)


@called
def is_malformed(window: UInt8s, start: int, length: int) -> bool:
    """Tell whether a stretch is no UTF-8, so that Java replaces part of it."""
    return decoded_hash(window, start, length, 0)[1]


@called
def note_seldom(window: UInt8s, columns: Int64s, number: int, scratch: Int64s, items: int) -> None:
    """Write the numbers that few records have; those that are not there stay ABSENT."""
    start = columns[row.PROPERTIES_START, number]
    if scratch[items + DELAY, 1]:
        value = start + scratch[items + DELAY, 0], scratch[items + DELAY, 1]
        columns[row.DELAY_LEVEL, number] = parse_number(window, value, LARGEST_INT)
    if scratch[items + INNER_NUM, 1]:
        value = start + scratch[items + INNER_NUM, 0], scratch[items + INNER_NUM, 1]
        columns[row.INNER_NUM, number] = parse_number(window, value, LARGEST_SHORT)
    if scratch[items + INNER_BASE, 1]:
        value = start + scratch[items + INNER_BASE, 0], scratch[items + INNER_BASE, 1]
        columns[row.INNER_BASE, number] = parse_number(window, value, LARGEST_LONG)
    if scratch[items + CRC, 1]:
        first = start + scratch[items + CRC, 0]
        columns[row.PROPERTY_CRC, number] = parse_crc(window, first, scratch[items + CRC, 1])


@inlined
def note(window: UInt8s, columns: Int64s, number: int, scratch: Int64s, items: int) -> None:
    """Write what was found in the properties into the record's column.

    Args:
        window: uint8, shape (n,).
        columns: int64, shape (ROWS, m).
        number: the record's column.
        scratch: int64, shape SCRATCH.
        items: the row at which that was found.
    """
    start = columns[row.PROPERTIES_START, number]
    tags, tags_length = start + scratch[items + TAGS, 0], scratch[items + TAGS, 1]
    seldom = scratch[items + DELAY, 1] | scratch[items + INNER_NUM, 1]
    seldom |= scratch[items + INNER_BASE, 1] | scratch[items + CRC, 1]
    marks = scratch[items + MARKS, 0]
    if scratch[items + DISPATCH, 1] and scratch[items + DISPATCH_OFFSET, 1]:
        marks |= row.MARK_MULTI_DISPATCH
    columns[row.TAGS_CODE, number] = signed(java_hash(window, tags, tags_length, 0))
    columns[row.TAGS_START, number] = tags
    columns[row.TAGS_LENGTH, number] = tags_length
    columns[row.UNIQUE_KEY_START, number] = start + scratch[items + UNIQUE_KEY, 0]
    columns[row.UNIQUE_KEY_LENGTH, number] = scratch[items + UNIQUE_KEY, 1]
    columns[row.KEYS_START, number] = start + scratch[items + KEYS, 0]
    columns[row.KEYS_LENGTH, number] = scratch[items + KEYS, 1]
    columns[row.MARKS, number] = marks
    columns[row.DELAY_LEVEL, number] = row.ABSENT
    columns[row.INNER_NUM, number] = row.ABSENT
    columns[row.INNER_BASE, number] = row.ABSENT
    columns[row.PROPERTY_CRC, number] = row.ABSENT
    columns[row.PROPERTY_CRC_FOUND, number] = -1
    if seldom:
        note_seldom(window, columns, number, scratch, items)


@called
def check_more(window: UInt8s, columns: Int64s, number: int, want: int, checksum: Checksum) -> None:
    """Do what only a deep reading wants: the property CRC, and whether texts are UTF-8."""
    if want & WANT_PROPERTY_CRC and columns[row.PROPERTY_CRC, number] >= 0:
        columns[row.PROPERTY_CRC_FOUND, number] = crc31(
            window,
            columns[row.RECORD_START, number],
            columns[row.SIZE, number] - RESERVED_FOR_CRC,
            checksum,
        )
    if want & WANT_WELL_FORMED and (
        is_malformed(window, columns[row.TOPIC_START, number], columns[row.TOPIC_LENGTH, number])
        or is_malformed(
            window,
            columns[row.PROPERTIES_START, number],
            columns[row.PROPERTIES_LENGTH, number],
        )
    ):
        columns[row.MARKS, number] |= row.MARK_MALFORMED


@kernel(
    "UniTuple(int64, 3)(uint8[::1], int64[:, ::1], UniTuple(int64, 4),"
    " Tuple((int64[::1], int64[:, ::1], uint8[::1], int64[::1])),"
    " Tuple((int64[:, ::1], int64[:, ::1])), Tuple((int64, uint32[:, ::1])))"
)
def texts(
    window: UInt8s,
    columns: Int64s,
    which: tuple[int, int, int, int],
    topics: Topics,
    keys: Keys,
    checksum: Checksum,
) -> tuple[int, int, int]:
    """Read topic and properties of records; return where it stopped, why, and the keys so far.

    Args:
        window: uint8, shape (n,), with SLACK bytes after the last record.
        columns: int64, shape (ROWS, m); the rows from TOPIC_NUMBER on are filled.
        which: first record, record after the last, keys collected so far, WANT_ bits.
        topics: slots, facts, text and counts of a `TopicTable`.
        keys: int64, shape (2, k), filled with (record, hash) in dispatch order; and scratch,
            int64, shape SCRATCH.
        checksum: `crc.checksum()`.
    """
    first, last, collected, want = which
    pairs, scratch = keys
    scratch[STATE, 0] = collected
    forget_shapes(scratch)
    for number in range(first, last):
        start = columns[row.PROPERTIES_START, number]
        length = columns[row.PROPERTIES_LENGTH, number]
        before = scratch[STATE, 0]
        if before + length // SHORTEST_KEY + MOST_OTHER_KEYS > pairs.shape[1]:
            return number, KEYS_FULL, before
        topic = intern(
            window, columns[row.TOPIC_START, number], columns[row.TOPIC_LENGTH, number], topics
        )
        if topic < 0:
            return number, TOPICS_FULL, before
        columns[row.TOPIC_NUMBER, number] = topic
        items = read_properties(window, start, length, scratch)
        note(window, columns, number, scratch, items)
        if want & WANT_KEYS and columns[row.SYS_FLAG, number] & ROLLBACK != ROLLBACK:
            collect_keys(window, columns, number, topics[1][topic, KEY_SEED], keys, want)
        columns[row.KEY_COUNT, number] = scratch[STATE, 0] - before
        if want & (WANT_PROPERTY_CRC | WANT_WELL_FORMED):
            check_more(window, columns, number, want, checksum)
    return last, DONE, scratch[STATE, 0]


@kernel("void(int64[::1], int64[:, ::1], int64)")
def place_topics(slots: Int64s, facts: Int64s, count: int) -> None:
    """Enter the first `count` topics into an empty table of slots.

    Args:
        slots: int64, shape (power of two,), all -1.
        facts: int64, shape (n, FACTS).
        count: topics, less than half of the slots.
    """
    last = slots.size - 1
    for number in range(count):
        slot = first_slot(facts[number, HASH], last)
        while slots[slot] >= 0:
            slot = (slot + 1) & last
        slots[slot] = number
