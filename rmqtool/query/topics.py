"""Which topics a store knows, as far as its directories and its configuration tell.

The key index holds hashes of topic and key together, so a key without a topic can only be looked
up topic by topic. A record's topic may be none that was ever configured: system topics are
tried, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.broker import names
from rmqtool.errors import RmqtoolError, UnreadablePath
from rmqtool.formats.config_names import GROUP_TABLE, GROUPS_JSON, TOPIC_TABLE, TOPICS_JSON
from rmqtool.queues.discovery import Queues
from rmqtool.store.tree import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.store.tree import Store

SYSTEM_TOPICS: Final = (
    *(names.SCHEDULE_TOPIC, names.TIMER_TOPIC, names.HALF_TOPIC, names.OP_TOPIC),
    *(names.CHECK_MAX_TIME_TOPIC, names.ROCKSDB_HALF_TOPIC, names.ROCKSDB_OP_TOPIC),
)
MOST_HINTS: Final = 3
MOST_LISTED: Final = 5


def known_topics(store: Store) -> list[str]:
    """Give every topic that a record of this store is likely to have, without duplicates."""
    by_name = dict.fromkeys(_listed(store))
    by_name |= dict.fromkeys(_named(store.config(TOPICS_JSON).document, TOPIC_TABLE))
    for group in _named(store.config(GROUPS_JSON).document, GROUP_TABLE):
        by_name |= {names.RETRY_PREFIX + group: None, names.DLQ_PREFIX + group: None}
    by_name |= dict.fromkeys(SYSTEM_TOPICS)
    return list(by_name)


def nearest(topic: str, known: list[str]) -> list[str]:
    """Give the names that are most like a topic, the nearest first.

    Names that differ in case only come first: that is what a person gets wrong most often.
    """
    from difflib import get_close_matches

    same = [name for name in known if name.casefold() == topic.casefold()]
    close = get_close_matches(topic, known, MOST_HINTS, 0.6)
    return list(dict.fromkeys([*same, *close]))[:MOST_HINTS]


def light_hint(topic: str) -> str:
    """Say where the messages of a light message queue are; empty for other topics."""
    if not topic.startswith(names.LMQ_PREFIX):
        return ""
    return (
        f"{topic} is a light message queue: its messages are records of other topics, and are "
        "found without --topic, or by --queue and --queue-offset in rmqtool query"
    )


def hint(topic: str, known: list[str]) -> str:
    """Word what is like a topic that is not there."""
    names = nearest(topic, [name for name in known if name not in SYSTEM_TOPICS]) or nearest(
        topic, known
    )
    if names:
        return f"no topic {topic!r} here; like it: {', '.join(names)}"
    there = [name for name in known if name not in SYSTEM_TOPICS]
    if not there:
        return f"no topic {topic!r} here, nor any other"
    more = f" and {len(there) - MOST_LISTED:,} more" if len(there) > MOST_LISTED else ""
    return f"no topic {topic!r} here; there are: {', '.join(there[:MOST_LISTED])}{more}"


def _listed(store: Store) -> list[str]:
    try:
        return Queues(store).topics()
    except UnreadablePath:
        return []


def _named(document: dict[str, object], table: str) -> list[str]:
    names = document.get(table)
    return [name for name in names if isinstance(name, str)] if isinstance(names, dict) else []


def topic_hints(
    paths: Iterable[str], broker_conf: str | None, topics: Iterable[str]
) -> Iterator[str]:
    """Give a sentence for each topic that is not there, with the names like it, or is no record's.

    Such a topic is that of a light message queue.
    """
    known: dict[str, None] = {}
    for path in paths:
        try:
            known |= dict.fromkeys(known_topics(open_store(path, broker_conf)))
        except RmqtoolError:
            return  # it has been said that this store cannot be read
    for topic in topics:
        if topic not in known:
            yield hint(topic, list(known))
        elif light := light_hint(topic):
            yield light
