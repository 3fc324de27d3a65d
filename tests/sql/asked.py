"""Questions that every engine answers alike: rows, values and order."""

from __future__ import annotations

from typing import Final

# Written in what both engines understand; each has an order, or one row.
_TEXT: Final = """
SELECT count(*) AS n FROM messages;
SELECT * FROM messages ORDER BY physical_offset, position;
SELECT * FROM queue_units ORDER BY file, position, topic, queue_id, queue_offset;
SELECT * FROM index_entries ORDER BY file, position;
SELECT * FROM segments ORDER BY segment;
SELECT * FROM findings ORDER BY code, path, position, message;
SELECT * FROM pending_timers ORDER BY ALL;
SELECT * FROM topics ORDER BY topic, queue_kind;
SELECT * FROM queues ORDER BY topic, queue_id, queue_kind;
SELECT * FROM groups ORDER BY ALL;
SELECT * FROM consumer_offsets ORDER BY ALL;
SELECT * FROM delay_offsets ORDER BY delay_level;
SELECT * FROM checkpoint ORDER BY field;
SELECT * FROM lost_messages ORDER BY ALL;
SELECT fate, sum(messages) AS messages FROM lost_messages GROUP BY fate ORDER BY fate;
SELECT o.topic, t.messages, sum(o.lag) AS lag FROM consumer_offsets o JOIN topics t
    ON o.topic = t.topic GROUP BY o.topic, t.messages ORDER BY o.topic, t.messages;
SELECT topic, count(*) AS n FROM messages GROUP BY topic ORDER BY n DESC, topic;
SELECT topic, queue_id, min(queue_offset) AS low, max(queue_offset) AS high FROM messages WHERE
    extent IS NULL GROUP BY topic, queue_id ORDER BY topic, queue_id;
SELECT sum(size) AS bytes, avg(body_size) AS mean, max(size) AS most FROM messages;
SELECT DISTINCT tags FROM messages WHERE tags IS NOT NULL ORDER BY tags;
SELECT physical_offset, unique_key FROM messages WHERE queue_id = 1 ORDER BY physical_offset;
SELECT physical_offset FROM messages WHERE topic IN ('traffic-batch', 'T', 'lmq-topic') ORDER BY
    physical_offset;
SELECT count(*) AS n FROM messages WHERE physical_offset >= 2000 AND physical_offset < 90000;
SELECT queue_offset, topic FROM messages WHERE queue_offset BETWEEN 2 AND 3 ORDER BY topic,
    queue_id, queue_offset, physical_offset;
SELECT count(*) AS n FROM messages WHERE store_time > TIMESTAMP '2026-01-01 00:00:00';
SELECT count(*) AS n FROM messages WHERE store_time IS NULL OR topic IS NULL;
SELECT date_trunc('minute', store_time) AS minute, count(*) AS n FROM messages GROUP BY minute
    ORDER BY minute NULLS LAST;
SELECT unix_millis(store_time) - unix_millis(born_time) AS delay FROM messages ORDER BY
    physical_offset LIMIT 20;
SELECT key, count(*) AS n FROM (SELECT explode(keys) AS key FROM messages) AS k GROUP BY key
    ORDER BY n DESC, key LIMIT 10;
SELECT try_element_at(properties, 'WAIT') AS waits, count(*) AS n FROM messages GROUP BY waits
    ORDER BY n, waits;
SELECT array_sort(collect_list(queue_id)) AS queues, topic FROM messages WHERE topic IS NOT NULL
    GROUP BY topic ORDER BY topic;
SELECT u.topic, count(*) AS n FROM queue_units u JOIN messages m ON u.physical_offset =
    m.physical_offset WHERE u.extent IS NULL GROUP BY u.topic ORDER BY u.topic;
SELECT a.topic, a.n FROM (SELECT topic, count(*) AS n FROM messages WHERE queue_id = 0 GROUP BY
    topic) AS a WHERE a.n > 1 ORDER BY a.topic;
WITH big AS (SELECT topic FROM messages WHERE size > 300) SELECT topic, count(*) AS n FROM big
    GROUP BY topic ORDER BY topic;
SELECT count(*) AS n FROM messages a JOIN messages b ON a.unique_key = b.unique_key;
SELECT code, count(*) AS n FROM messages GROUP BY code ORDER BY code NULLS LAST;
SELECT severity, count(*) AS n FROM findings GROUP BY severity ORDER BY severity;
SELECT substring_index(topic, '%', -1) AS last, startswith(topic, '%') AS is_retry FROM messages
    WHERE topic IS NOT NULL ORDER BY physical_offset LIMIT 20;
SELECT row_number() OVER (PARTITION BY topic ORDER BY physical_offset) AS n, topic FROM messages
    WHERE extent IS NULL ORDER BY physical_offset LIMIT 30;
SELECT if(size > 300, 'large', 'small') AS kind, count(*) AS n FROM messages WHERE extent IS
    NULL GROUP BY kind ORDER BY kind;
SELECT 'none' AS topic FROM messages WHERE topic = 'no such topic'
"""
QUESTIONS: Final = tuple(" ".join(one.split()) for one in _TEXT.split(";"))
