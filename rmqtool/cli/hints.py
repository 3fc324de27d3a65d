"""What to say beside an empty answer: the topic that was meant, perhaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.errors import RmqtoolError
from rmqtool.query.topics import hint, known_topics
from rmqtool.store.tree import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def topic_hints(
    paths: Iterable[str], broker_conf: str | None, topics: Iterable[str]
) -> Iterator[str]:
    """Give a sentence for each topic that none of the stores knows, with the names like it."""
    known: dict[str, None] = {}
    for path in paths:
        try:
            known |= dict.fromkeys(known_topics(open_store(path, broker_conf)))
        except RmqtoolError:
            return  # it has been said that this store cannot be read
    for topic in topics:
        if topic not in known:
            yield hint(topic, list(known))
