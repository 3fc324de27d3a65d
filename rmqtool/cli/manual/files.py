"""What `rmqtool-formats(5)` says around its byte tables: which file holds them, and how.

Source: the classes that the modules of `formats/` name, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Artefact:
    """One kind of file."""

    title: str  # its heading
    before: str  # paragraphs before the byte tables
    layouts: tuple[str, ...]  # names of its structures, in the order of the file
    after: str = ""  # paragraphs after them
    names: tuple[str, ...] = ()  # of files and directories, as people see them


ARTEFACTS: Final = (
    Artefact(
        "Commitlog",
        """
        commitlog/*, mapped files of 1 GiB by default: all messages of all topics in the order of
        arrival. A record never crosses the end of a file. A finished file ends in a blank record;
        after the last record of the last file are zeros, or bytes that a truncation left.

        A record is message_prefix, one of the four message_middle structures, then body, topic and
        properties. The middle follows from two bits of sys_flag: 0x10 means a client address of 16
        bytes, 0x20 a broker address of 16 bytes.
        """,
        (
            "message_prefix",
            "message_middle_v4_v4",
            "message_middle_v4_v6",
            "message_middle_v6_v4",
            "message_middle_v6_v6",
            "blank",
        ),
        """
        After the middle: body_length bytes of body; the length of the topic, one byte in V1 and
        two in V2, signed; the topic; the length of the properties, two bytes, signed; the
        properties. They are UTF-8, each a name, 0x01, a value, 0x02; the last 0x02 may be missing.
        The smallest record has 91 bytes.

        sys_flag: 0x001 the body is compressed, and 0x700 says how: 0x000 and 0x300 zlib, 0x100
        lz4, 0x200 zstd. 0x002 TAGS holds several tags. 0x00C is the transaction: 0x4 prepared, 0x8
        commit, 0xC rollback. 0x040 and 0x080 mark an inner batch.

        body_crc is over the body as it is stored, and protects nothing else. With
        enabledAppendPropCRC (5.2.0 and later) the last 20 bytes of the properties are __CRC32#,
        0x01, ten decimal digits in reverse, 0x02: the CRC of all bytes of the record before them.
        """,
        names=("commitlog",),
    ),
    Artefact(
        "Inner batch",
        """
        The body of a record with bits 0x040 and 0x080 of sys_flag: messages as the client encoded
        them, one after the other. Each is client_message_prefix, the body, the length of the
        properties in two bytes, and the properties. The properties INNER_NUM and INNER_BASE of the
        record say how many they are, and the first one's queue offset.
        """,
        ("client_message_prefix",),
    ),
    Artefact(
        "DLedger log",
        """
        dledger-<id>/data/* and dledger-<id>/index/*, with enableDLegerCommitLog. Each entry's body
        is one record of the commitlog, whose physical_offset is that of the body: 48 bytes after
        the entry. The blank has magic and size in the opposite order of the commitlog's.
        """,
        ("dledger_entry", "dledger_blank", "dledger_index_unit"),
        names=("dledger", "dledger-id"),
    ),
    Artefact(
        "Consume queue",
        """
        consumequeue/<topic>/<queue id>/*, mapped files of 6,000,000 bytes by default. The unit of
        queue offset n lies at byte 20 n of the queue. Transactions that are prepared or rolled
        back have none.
        """,
        ("consume_queue_unit",),
        """
        A unit with physical_offset 0 and size 0x7FFFFFFF stands for nothing: it fills the first
        file of a queue that does not begin at its start. tags_code is 0 without tags, else Java's
        hashCode of the tags. In SCHEDULE_TOPIC_XXXX it is the deliver time in ms. Below -2147483648
        it is the address of an extension unit.
        """,
        names=("consumequeue",),
    ),
    Artefact(
        "Consume queue extension",
        """
        consumequeue_ext/<topic>/<queue id>/*, with enableConsumeQueueExt: tags code, time and the
        bit map of the filters that match. A unit is the head and its bit map, and never crosses
        the end of a file. An address in a consume queue is the position in this range of bytes
        minus 2 to the power of 63.
        """,
        ("consume_queue_ext_unit",),
        names=("consumequeue_ext",),
    ),
    Artefact(
        "Batch consume queue",
        """
        batchconsumequeue/<topic>/<queue id>/* for topics of queue.type BatchCQ (5.0.0 and later),
        and compaction/compactionCq/<topic>/<queue id>/* (5.1.0 and later). Files of the latter bear
        the names of the log files beside them. A unit is found by its msg_base_offset, not by its
        place.
        """,
        ("batch_consume_queue_unit",),
        """
        In a compaction queue each finished file is closed by a unit with physical_offset -1 and
        zeros.
        """,
        names=("batchconsumequeue", "compactionCq"),
    ),
    Artefact(
        "Key index",
        """
        index/*, named by the time of creation in the zone of the broker's JVM. A file is the
        header, the slots (5,000,000 by default) and the entries (20,000,000 by default); neither
        number is in the file. A key is topic#key, for each of UNIQ_KEY and KEYS; 5.4.0 and later
        add topic#T#tags. Its hash is the absolute value of Java's hashCode, or 0 if that value
        does not exist; its slot is the remainder of the hash by their number.
        """,
        ("index_header", "index_slot", "index_entry"),
        """
        In all files but the first, the time_difference of entry 1 counts from the end of the file
        before.
        """,
        names=("index",),
    ),
    Artefact(
        "Checkpoint",
        """
        checkpoint, 4096 bytes, zero after the fields.
        """,
        ("checkpoint",),
    ),
    Artefact(
        "Timer",
        """
        timerwheel, timerlog/* and config/timercheck (5.0.0 and later) of messages that are
        delivered at any time. A slot of the wheel is the deliver time, divided by the precision
        (timerPrecisionMs), modulo 1,209,600; it counts only if its own time is that. A record of
        the log points to the message in the commitlog and to the record before it in the same
        slot.
        """,
        ("timer_slot", "timer_log_record", "timer_blank", "timer_check"),
        names=("timerwheel", "timerlog"),
    ),
    Artefact(
        "Tiered index",
        """
        tiered_index_file/* (5.2.0 and later): the key index of tiered storage. In a compacted file
        the items of a slot lie together, and a slot says where.
        """,
        (
            "tiered_index_header",
            "tiered_index_slot",
            "tiered_index_item",
            "tiered_index_compacted_item",
        ),
        names=("tiered_index_file",),
    ),
    Artefact(
        "Consume queues in RocksDB",
        """
        consumequeue/ (5.2.0 and later, storeType=defaultRocksDB or double write) or
        consumequeue_rocksdb/ (5.5.0), a RocksDB database with the families default and offset.
        Numbers in keys and values are big-endian; names are UTF-8.

        Family default, a row a unit. Key: rocksdb_queue_key_head, the topic, and
        rocksdb_queue_key_tail. Value: rocksdb_queue_unit, whose first 20 bytes are a unit of a
        queue file. Keys sort by the length of the topic first.
        """,
        ("rocksdb_queue_key_head", "rocksdb_queue_key_tail", "rocksdb_queue_unit"),
        """
        Family offset. Key: rocksdb_queue_key_head, the topic, 1, max or min, and
        rocksdb_queue_offset_key_tail. Both are inclusive: the next message of a queue gets max
        plus 1. min is a cache and may be missing. The row of topic CHECKPOINT_TOPIC, max, queue 0
        holds rocksdb_dispatched: the end of the last record that was dispatched.
        """,
        names=("consumequeue_rocksdb",),
    ),
    Artefact(
        "Queue ends in RocksDB",
        """
        The values of family offset of the database above.
        """,
        ("rocksdb_queue_offset_key_tail", "rocksdb_queue_end", "rocksdb_dispatched"),
    ),
    Artefact(
        "rocksdbstore",
        """
        rocksdbstore/ (5.4.0 and later), a RocksDB database that every start creates. Three
        features, all off by default, fill it.

        Family default, the key index. Key: rocksdb_index_hour, then @topic@K@key@uniqueKey@,
        @topic@T@tags@uniqueKey@ or @topic@U@uniqueKey@, then rocksdb_index_offset. Value:
        rocksdb_index_time. lastOffsetPy and lastStoreTimeStamp hold a rocksdb_number.

        Family timer. Key: rocksdb_timer_time and the unique key. Value: rocksdb_timer. The rows
        sys_topic_scan_offset_checkpoint and timeline_checkpoint hold a rocksdb_number.

        Family trans. Key: rocksdb_half_offset, @, topic, @, transaction ID. Value: rocksdb_half.
        lastOffsetPy holds a rocksdb_number: the newest half message.
        """,
        (
            *("rocksdb_index_hour", "rocksdb_index_offset", "rocksdb_index_time"),
            *("rocksdb_timer_time", "rocksdb_timer", "rocksdb_half_offset", "rocksdb_half"),
            "rocksdb_number",
        ),
        names=("rocksdbstore",),
    ),
    Artefact(
        "Topics, groups and offsets in RocksDB",
        """
        config/topics/, config/subscriptionGroups/ and config/consumerOffsets/ (5.1.4 and later), or
        config/metadata/ (5.4.0 and later): keys are names (topic@group for offsets), values are
        JSON with quoted keys.

        config/rdb/ (5.3.2 and later, configManagerVersion=v2) has one family. Key of a data
        version: rocksdb_config_key and data_version; value: rocksdb_config_version. Key of a topic
        or group: rocksdb_config_key, rocksdb_config_name_length, the name; value: 1 and JSON. Key
        of an offset: rocksdb_config_key, then group and topic, each after its
        rocksdb_config_name_length and with a 1 past it, then rocksdb_config_queue; value:
        rocksdb_config_offset.
        """,
        (
            *("rocksdb_config_key", "rocksdb_config_name_length", "rocksdb_config_queue"),
            *("rocksdb_config_version", "rocksdb_config_offset"),
        ),
    ),
    Artefact(
        "Pop state",
        """
        kvStore/ (5.3.2 and later), a RocksDB database with the family popState: messages that
        consumers popped and have not acknowledged. Key: rocksdb_pop_time, group, @, topic, @,
        rocksdb_pop_tail. Value: JSON with the same facts, the number of attempts and the retry
        flag.
        """,
        ("rocksdb_pop_time", "rocksdb_pop_tail"),
        names=("kvStore",),
    ),
    Artefact(
        "Message IDs",
        """
        Not files: what is written in hexadecimal in logs, in answers to producers, and in the
        property UNIQ_KEY. An offset message ID and a unique key may have the same length; only
        the record at the offset tells which it is.
        """,
        ("offset_message_id", "offset_message_id_v6", "unique_key_tail", "client_message_id"),
    ),
)
TEXT_FILES: Final = {
    "config/*.json": "Topics, groups, offsets and more, as fastjson writes them: integer keys of "
    "maps have no quotes. The .bak beside each holds what was there before; brokers load it where "
    "the file is missing or cannot be parsed.",
    "config/delayOffset.json": "Next queue offset of each delay level; level n is queue n - 1 of "
    "SCHEDULE_TOPIC_XXXX.",
    "config/timermetrics, config/transactionMetrics": "JSON: messages waiting in each topic.",
    "abort": "Exists from start to clean stop; with it in place the next start recovers as after "
    "a crash. Empty in 4.x, the process number in 5.x. abort.bak means nothing.",
    "lock": "A running broker holds a lock on its first byte; that it exists means nothing.",
    "epochFileCheckpoint": "Number of entries, CRC of their lines, then a line of epoch-offset "
    "each (5.0.0 and later).",
    "brokerIdentity": "cluster#broker#id (5.1.1 and later).",
    "dledger-<id>/checkpoint, dledger-<id>/currterm": "Java properties: endIndex and "
    "committedIndex; currTerm and voteLeader.",
    "compaction/position-checkpoint": "JSON: the queue offset where compaction of each queue ends.",
}
