"""What to say beside an empty answer: the topic that was meant, perhaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.errors import RmqtoolError
from rmqtool.query.topics import hint, known_topics, light_hint
from rmqtool.store.tree import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


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
