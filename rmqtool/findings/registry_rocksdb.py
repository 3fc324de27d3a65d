"""Codes of RocksDB databases: RD any, RQ queues, RI index, RT timer, RX halves, MV metadata."""

from __future__ import annotations

from typing import Final

from rmqtool.findings.catalogue import (
    DAMAGE,
    INFO,
    NOTE,
    REBUILD_CQ,
    REPAIR,
    STARTUP,
    TOPICS,
    WARNING,
    Code,
    Owner,
)

ROWS: Final = "rmqtool dump STORE --as rocksdb"
BACK_UP: Final = "copy the directory first; a broker that starts deletes files it does not know"

RD_OPEN: Final = Code(
    "RD-OPEN",
    DAMAGE,
    Owner.PERSON,
    meaning="CURRENT, the MANIFEST or a live table file is missing, cut off or unreadable",
    consequence="a broker refuses to start, or opens the database without a part of its rows",
    remedy="queues: rebuild the database from the commitlog; others: repair a copy of it, or "
    "restore a backup. Do not delete the directory: 5.4.0 and later dispatch ten segments again",
    command=STARTUP,
)
RD_ORPHAN: Final = Code(
    "RD-ORPHAN",
    DAMAGE,
    Owner.PERSON,
    also=(WARNING,),
    when="a warning for a table file without a footer, which a crash during a flush leaves",
    meaning="a table file is in the directory that no edit of the MANIFEST names",
    consequence="the MANIFEST has lost its end: a broker opens the database without these rows "
    "and deletes the file",
    remedy=f"{BACK_UP}; then repair the copy with RocksDB's own repair",
    command=STARTUP,
)
RD_BLOCK: Final = Code(
    "RD-BLOCK",
    DAMAGE,
    Owner.PERSON,
    meaning="a block of a table file that holds rows, or the index of them, is damaged",
    consequence="a broker starts; reads that come to the block fail, and later rows are not seen",
    remedy="queues: repair rebuilds the database; others: restore a backup",
    command=STARTUP,
)
RD_META: Final = Code(
    "RD-META",
    WARNING,
    Owner.PERSON,
    meaning="a filter, the properties or the footer's padding of a table file is damaged",
    consequence="no row is lost; lookups by key may fail or take longer",
    remedy="let a broker compact the database, or rebuild it",
    command=STARTUP,
)
RD_WAL: Final = Code(
    "RD-WAL",
    WARNING,
    Owner.PERSON,
    meaning="a write-ahead log cannot be read to its end",
    consequence="writes past that place are lost at the next start; in metadata, where broken "
    "records are skipped, those of the next blocks are kept",
    remedy="compare the rows with the latest changes",
    command=STARTUP,
)
RD_VERSION: Final = Code(
    "RD-VERSION",
    DAMAGE,
    Owner.PERSON,
    meaning="a table file has a format, checksum or compression that RocksDB 8.4 does not read",
    consequence="brokers of 5.3 to 5.5 refuse to start",
    remedy="write the database again with table format 5 and CRC32C",
    command=STARTUP,
)
RD_BOTH: Final = Code(
    "RD-BOTH",
    DAMAGE,
    Owner.PERSON,
    meaning="consumequeue and consumequeue_rocksdb are both RocksDB databases",
    consequence="5.5.0 refuses to start; older releases use consumequeue",
    remedy="move away the one that is stale: the smaller CHECKPOINT tells which",
    command=INFO,
)
RD_KEY: Final = Code(
    "RD-KEY",
    DAMAGE,
    Owner.PERSON,
    meaning="RocketMQ writes no such key or value in this family",
    consequence="depends on the row: the broker throws, or never finds it",
    remedy="find out what wrote it: another program, or a key was damaged before it was written",
    command=ROWS,
)
RD_GONE: Final = Code(
    "RD-GONE",
    WARNING,
    Owner.PERSON,
    meaning="a database that broker.conf asks for is missing",
    consequence="a broker begins an empty one: messages that pop consumers took and did not "
    "acknowledge never come again",
    remedy="restore it from a backup; none needed where the key was set since the last start",
    command=STARTUP,
)
RQ_RANGE: Final = Code(
    "RQ-RANGE",
    DAMAGE,
    Owner.QUEUES,
    also=(NOTE,),
    when="a note for a topic that is not configured and that no record of another topic names",
    meaning="a unit is missing between the first and the last unit of a queue",
    consequence="5.3: a consumer that comes to it is sent back to queue offset 0, over and over; "
    "5.5: every pull that reaches it fails with an exception",
    remedy="repair, or rebuild-cq, rebuilds the database from the commitlog",
    command=REPAIR,
)
RQ_MAX: Final = Code(
    "RQ-MAX",
    DAMAGE,
    Owner.QUEUES,
    meaning="the max row of a queue is not its last dispatched unit",
    consequence="messages past it are hidden, and new ones get queue offsets that are taken",
    remedy="repair rebuilds the database",
    command=REPAIR,
)
RQ_MIN: Final = Code(
    "RQ-MIN",
    WARNING,
    Owner.QUEUES,
    also=(DAMAGE,),
    when="damage when it is above a unit whose message is there",
    meaning="the min row of a queue is neither old nor at its first unit",
    consequence="consumers are told a wrong minimum offset, and may skip messages",
    remedy="delete the row: it is a cache, and brokers write it again",
    command=REPAIR,
)
RQ_EMPTIED: Final = Code(
    "RQ-EMPTIED",
    DAMAGE,
    Owner.QUEUES,
    meaning="a combined store has set a queue empty that has units",
    consequence="its messages up to this offset are invisible",
    remedy="repair, or rebuild-cq, rebuilds the database from the commitlog",
    command=REPAIR,
)
RQ_CKPT: Final = Code(
    "RQ-CKPT",
    DAMAGE,
    Owner.QUEUES,
    meaning="CHECKPOINT, the end of dispatch, is past the log or at no end of a record",
    consequence="records before it that have no unit are never dispatched",
    remedy="repair rebuilds the database, with CHECKPOINT where dispatch ended",
    command=REPAIR,
)
RQ_BEHIND: Final = Code(
    "RQ-BEHIND",
    WARNING,
    Owner.QUEUES,
    also=(DAMAGE, NOTE),
    when="damage without abort: a clean start never dispatches the record at CHECKPOINT; and from "
    "5.4.0 on when more than ten segments are not dispatched; a note while a broker runs, which "
    "writes the rest when it flushes",
    meaning="the database ends before the log does",
    consequence="with abort in place the next start dispatches the rest",
    remedy="leave abort in place for the next start, or rebuild the database",
    command=STARTUP,
)
RQ_UNIT: Final = Code(
    "RQ-UNIT",
    DAMAGE,
    Owner.QUEUES,
    meaning="a unit is not what the commitlog implies",
    consequence="consumers get another message, or none, at this queue offset",
    remedy="repair, or rebuild-cq, rebuilds the database from the commitlog",
    command=REPAIR,
)
RQ_ABOVE: Final = Code(
    "RQ-ABOVE",
    NOTE,
    Owner.NOTHING,
    meaning="units above the max row: a truncation has left them",
    consequence="none: the next messages overwrite them",
    remedy="none needed",
    command=INFO,
)
RQ_EXPIRED: Final = Code(
    "RQ-EXPIRED",
    NOTE,
    Owner.NOTHING,
    meaning="units of messages that the commitlog no longer has",
    consequence="none: a compaction drops them. 5.5.1 drops them by a native library; where it "
    "cannot be loaded, they stay and the database grows",
    remedy="none needed",
    command=INFO,
)
RQ_PAIR: Final = Code(
    "RQ-PAIR",
    DAMAGE,
    Owner.QUEUES,
    also=(WARNING,),
    when="a warning for 5.3, which does not compare the two stores, and where the database is "
    "missing and the release does not read it",
    meaning="queues in files and in RocksDB end at different queue offsets, or the database of a "
    "store that is to have both is gone",
    consequence="the next start of 5.4.0 or later sets the queue in RocksDB empty: its messages "
    "are invisible there; if it is the one that is read, the broker refuses to start",
    remedy="make both equal before any start: rebuild the one that is wrong",
    command=REPAIR,
)
RQ_LIGHT: Final = Code(
    "RQ-LIGHT",
    DAMAGE,
    Owner.PERSON,
    meaning="messages of a light queue are in neither store: light queues are in RocksDB alone, "
    "and rocksdbCQSelectiveDoubleWriteEnable writes only those of lite topics there",
    consequence="consumers of the light queue do not get these messages; the log has them",
    remedy="set message.type=LITE for the topic, or rocksdbCQSelectiveDoubleWriteEnable=false, and "
    "rebuild the queues",
    command=REBUILD_CQ,
)
RI_ENTRY: Final = Code(
    "RI-ENTRY",
    DAMAGE,
    Owner.ROCKSDB,
    meaning="the key index in RocksDB does not hold what the commitlog implies",
    consequence="with indexFileReadEnable=false queries by key miss messages, or find wrong ones",
    remedy="repair, or rebuild-index, rebuilds it and keeps timers and open transactions of the "
    "same database. Until then take indexFileReadEnable=true, where the index is in files, too",
    command=REPAIR,
)
RI_BEHIND: Final = Code(
    "RI-BEHIND",
    NOTE,
    Owner.NOTHING,
    meaning="the key index in RocksDB ends before the log does",
    consequence="none: entries are written in batches, and the next start goes on there",
    remedy="none needed",
    command=INFO,
)
RT_ROW: Final = Code(
    "RT-ROW",
    DAMAGE,
    Owner.PERSON,
    meaning="rows of timer messages and the timer's queue do not agree",
    consequence="a message is never delivered, or the broker looks for a record that is not there",
    remedy="lower sys_topic_scan_offset_checkpoint to the first such message: it is read again. "
    "Timers that were delivered since are then delivered twice",
    command=ROWS,
)
RT_SCAN: Final = Code(
    "RT-SCAN",
    DAMAGE,
    Owner.PERSON,
    meaning="sys_topic_scan_offset_checkpoint is missing or past the timer's queue",
    consequence="missing: the whole queue is read again and due messages are delivered a second "
    "time; past the queue: new timer messages are never delivered",
    remedy="rebuild it",
    command=ROWS,
)
RX_HALF: Final = Code(
    "RX-HALF",
    WARNING,
    Owner.PERSON,
    meaning="rows of open half messages and the half messages of the log do not agree",
    consequence="a half message without a row is never checked again: its transaction stays open; "
    "a row without one is checked in vain",
    remedy="add or delete the row",
    command=ROWS,
)
MV_TOPIC: Final = Code(
    "MV-TOPIC",
    DAMAGE,
    Owner.PERSON,
    meaning="a topic or group that is used is not stored in metadata of version 2",
    consequence="after a restart the broker does not know it; with queues in RocksDB it deletes "
    "the queues of an unknown topic ten minutes later",
    remedy="create it with mqadmin before the next restart: version 2 stores only what was created "
    "by an administrator",
    command=TOPICS,
)
MV_SWAP: Final = Code(
    "MV-SWAP",
    WARNING,
    Owner.PERSON,
    meaning="an offset of version 2 is stored with topic and group swapped",
    consequence="none for consumers; tools list a group that does not exist. A reset of an offset "
    "wrote it",
    remedy="delete the row",
    command=ROWS,
)
MV_STALE: Final = Code(
    "MV-STALE",
    WARNING,
    Owner.PERSON,
    meaning="a JSON file or an older database has a higher version counter than the metadata",
    consequence="the next start merges it: old topics, groups or offsets overwrite newer ones",
    remedy="move it away before the next start",
    command=ROWS,
)
