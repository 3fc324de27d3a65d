"""The rows of a column matrix: what a scan knows of each commitlog record.

A window of records is one int64 matrix, `columns[ROW, record]`, so that one allocation serves
each thread for a whole scan and each field is one contiguous array. `*_START` index the batch's
window, all else is as in the file. Rows up to BODY_CRC_FOUND are filled by the walk and the
checksum, the others by reading topic and properties; rows that were not asked for hold what an
earlier batch left there, so ask `Batch.has_texts` first.
"""

from __future__ import annotations

from typing import Final

(
    PHYSICAL_OFFSET,  # where the record lies: start of the segment plus POSITION
    POSITION,  # first byte in the segment; with DLedger after the entry header
    RECORD_START,
    SIZE,
    MAGIC_CODE,
    BODY_CRC,  # as stored
    BODY_CRC_FOUND,  # as computed: 0 without a body, -1 when the body was not read
    QUEUE_ID,
    FLAG,
    QUEUE_OFFSET,
    PHYSICAL_OFFSET_FIELD,  # what the record says of itself; the broker believes this one
    SYS_FLAG,
    BORN_TIMESTAMP,
    STORE_TIMESTAMP,
    RECONSUME_TIMES,
    PREPARED_TRANSACTION_OFFSET,
    BODY_START,
    BODY_LENGTH,  # never negative: readers take that for 0
    TOPIC_START,
    TOPIC_LENGTH,
    PROPERTIES_START,
    PROPERTIES_LENGTH,  # never negative
    TOPIC_NUMBER,  # in the TopicTable
    TAGS_CODE,  # Java hash of TAGS, 0 without
    TAGS_START,
    TAGS_LENGTH,  # 0 when the property is absent: an empty value vanishes; likewise below
    UNIQUE_KEY_START,
    UNIQUE_KEY_LENGTH,
    KEYS_START,
    KEYS_LENGTH,
    DELAY_LEVEL,  # DELAY as a number; ABSENT or UNPARSABLE
    INNER_NUM,  # likewise
    INNER_BASE,  # likewise
    PROPERTY_CRC,  # __CRC32# as stored, likewise
    PROPERTY_CRC_FOUND,  # as computed; -1 when not asked for or not stored
    KEY_COUNT,  # entries of the key index that this record makes
    MARKS,  # bits, below
) = range(37)
ROWS: Final = 37

ABSENT: Final = -(2**63)  # the property is not there
UNPARSABLE: Final = ABSENT + 1  # it is there, but is no decimal number: Java throws

MARK_MULTI_DISPATCH: Final = 1  # INNER_MULTI_DISPATCH and INNER_MULTI_QUEUE_OFFSET are there
MARK_DROPPED_ITEM: Final = 2  # a property item that the broker's reader drops
MARK_DUPLICATE: Final = 4  # one of the properties above, not the unique key, is there twice
MARK_MALFORMED: Final = 8  # topic, tags or a key is not UTF-8

# A table of topics (topics.py), `facts[topic, COLUMN]`: what is known of one shares a cache line.
HASH, TEXT_START, TEXT_LENGTH, KEY_SEED = range(4)
FACTS: Final = 4
TOPICS, TOPICS_TEXT = range(2)  # places of its `counts`
WORD_SLACK: Final = 8  # bytes after its text: kernels compare text by words
