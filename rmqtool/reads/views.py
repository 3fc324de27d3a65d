"""Ready-made questions about a store, as views for `rmqtool sql`; the manual lists them.

Rows of `messages` that are no records (gaps and the like) have an `extent`, and are left out here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rmqtool.table import Column, Table, Type, comment
from rmqtool.tables.record_tables import MESSAGES

OPERATIONS: Final = "transaction_operations"  # a table that only views read: bodies are decoded


VIEW_LIST: Final = Table(
    "views",
    "a ready-made question",
    (
        Column("view", Type.TEXT, "name of the view, as SQL takes it"),
        Column("meaning", Type.TEXT, "its content"),
        Column("sql", Type.TEXT, "the question that it stands for"),
    ),
    shown=("view", "meaning"),
)


@dataclass(frozen=True, slots=True)
class SqlView:
    """A ready-made question."""

    name: str  # as SQL takes it
    meaning: str  # one sentence
    sql: str  # what it stands for


_VIEWS: Final = (
    SqlView(
        "traffic_per_minute",
        "messages and bytes that were stored, by topic and minute",
        """
        SELECT topic, date_trunc('minute', store_time) AS minute,
               count(*) AS messages, sum(size) AS bytes
        FROM messages WHERE extent IS NULL
        GROUP BY topic, minute ORDER BY minute, topic
        """,
    ),
    SqlView(
        "largest_messages",
        "the 100 largest records",
        """
        SELECT physical_offset, topic, queue_id, queue_offset, size, body_size, store_time,
               unique_key
        FROM messages WHERE extent IS NULL
        ORDER BY size DESC, physical_offset LIMIT 100
        """,
    ),
    SqlView(
        "slowest_stores",
        "the 100 records that were stored the longest after they were born; delayed and "
        "retried messages were born when they were first sent",
        """
        SELECT physical_offset, topic, queue_id, queue_offset,
               unix_millis(store_time) - unix_millis(born_time) AS delay_ms, born_time, store_time,
               born_host, reconsume_times
        FROM messages WHERE extent IS NULL
        ORDER BY delay_ms DESC, physical_offset LIMIT 100
        """,
    ),
    SqlView(
        "retries_per_group",
        "retries and dead letters of each consumer group",
        """
        SELECT substring_index(topic, '%', -1) AS consumer_group,
               count_if(startswith(topic, '%RETRY%')) AS retries,
               count_if(startswith(topic, '%DLQ%')) AS dead_letters,
               max(reconsume_times) AS most_reconsume_times, min(store_time) AS first_store_time,
               max(store_time) AS last_store_time
        FROM messages
        WHERE extent IS NULL AND (startswith(topic, '%RETRY%') OR startswith(topic, '%DLQ%'))
        GROUP BY consumer_group ORDER BY dead_letters DESC, retries DESC, consumer_group
        """,
    ),
    SqlView(
        "undecided_transactions",
        "transactions without commit, rollback or end of checks; a half record that the broker "
        "asked about is stored again each time, and counts once",
        """
        WITH kinds AS (
            SELECT *, topic LIKE '%OP_HALF_TOPIC' AS is_op, topic LIKE '%ROCKSDB%' AS is_rocksdb
            FROM transaction_operations
            WHERE extent IS NULL AND topic IN ('RMQ_SYS_TRANS_HALF_TOPIC',
                'RMQ_SYS_TRANS_OP_HALF_TOPIC', 'RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC',
                'RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC', 'TRANS_CHECK_MAX_TIME_TOPIC')
        ), texts AS (
            SELECT *, explode(split(if(is_op,
                if(is_rocksdb, try_element_at(properties, 'TRANS_OFFSET'), body),
                CAST(if(is_rocksdb, physical_offset, queue_offset) AS STRING)), ',')) AS text
            FROM kinds
        ), places AS (
            SELECT *, try_cast(trim(text) AS BIGINT) AS place FROM texts
        ), marked AS (
            SELECT *, max(is_op)
                OVER (PARTITION BY is_rocksdb, if(is_rocksdb, 0, queue_id), place) AS is_ended
            FROM places
        )
        SELECT unique_key,
               try_element_at(max_by(properties, physical_offset), 'REAL_TOPIC') AS topic,
               try_element_at(max_by(properties, physical_offset), 'PGROUP') AS producer_group,
               count(*) AS half_records, min(store_time) AS first_store_time,
               max(store_time) AS last_store_time, max(physical_offset) AS last_physical_offset
        FROM marked WHERE NOT is_op
        GROUP BY unique_key
        HAVING NOT bool_or(is_ended OR topic = 'TRANS_CHECK_MAX_TIME_TOPIC')
        ORDER BY first_store_time, last_physical_offset
        """,
    ),
    SqlView(
        "duplicate_unique_keys",
        "unique keys that a topic has more than once: sent again after a time-out, or copied; "
        "the messages of a batch share one; topics of the system, which hold copies by design, are "
        "left out",
        """
        SELECT topic, unique_key, count(*) AS messages, min(store_time) AS first_store_time,
               max(store_time) AS last_store_time,
               array_sort(collect_list(physical_offset)) AS physical_offsets
        FROM messages
        WHERE extent IS NULL AND unique_key IS NOT NULL AND NOT startswith(topic, 'RMQ_SYS_')
          AND NOT startswith(topic, '%') AND topic NOT IN (
            'SCHEDULE_TOPIC_XXXX', 'TRANS_CHECK_MAX_TIME_TOPIC', 'rmq_sys_wheel_timer')
        GROUP BY topic, unique_key HAVING count(*) > 1
        ORDER BY messages DESC, topic, unique_key
        """,
    ),
    SqlView(
        "hot_keys",
        "the 100 keys of a topic that most messages have",
        """
        SELECT topic, key, count(*) AS messages, sum(size) AS bytes,
               min(store_time) AS first_store_time, max(store_time) AS last_store_time
        FROM (SELECT *, explode(keys) AS key FROM messages WHERE extent IS NULL) AS one_key
        GROUP BY topic, key ORDER BY messages DESC, topic, key LIMIT 100
        """,
    ),
    SqlView(
        "disk_use_per_topic",
        "bytes of the commitlog that each topic takes, and its share of all records",
        """
        SELECT topic, count(*) AS messages, sum(size) AS bytes, sum(body_size) AS body_bytes,
               round(100 * sum(size) / sum(sum(size)) OVER (), 2) AS percent
        FROM messages WHERE extent IS NULL
        GROUP BY topic ORDER BY bytes DESC, topic
        """,
    ),
)
VIEWS: Final = {view.name: view for view in _VIEWS}
# What columns of views mean that no table has.
MEANINGS: Final = {
    "minute": "when they were stored, to the minute",
    "messages": "how many records",
    "bytes": "their records together, bytes",
    "body_bytes": "their bodies together, as stored, bytes",
    "percent": "share of the bytes of all records",
    "delay_ms": "from birth to storage, ms",
    "consumer_group": "group that consumes again",
    "producer_group": "group that is asked how the transaction ended",
    "retries": "records of the group's retry topic",
    "dead_letters": "records of the group's dead-letter topic",
    "most_reconsume_times": "how often consumers failed with one of them, at most",
    "half_records": "how often the half message was stored: once, and again at each check",
    "first_store_time": "when the oldest of them was stored",
    "last_store_time": "when the newest of them was stored",
    "last_physical_offset": "where the newest of them lies in the commitlog, bytes",
    "physical_offsets": "where they lie in the commitlog, bytes",
    "key": "one of the keys that the producer gave",
    "fate": "lost: the log has no such record; doubtful: its checksum differs",
}


def meaning(column: str) -> str:
    """Say what a column of a view means."""
    return MEANINGS.get(column) or comment(MESSAGES[column])
