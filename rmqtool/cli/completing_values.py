"""The values of options that can be completed: topics and queues of a store, codes, sections."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.check.options import AREAS
from rmqtool.findings.registry import CODES
from rmqtool.query.topics import TOPICS_FILE
from rmqtool.queues.discovery import Queues
from rmqtool.store.branch import BranchKind
from rmqtool.store.tree import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

# What a person may have in mind: the lines that the fixtures stand for.
BROKER_VERSIONS: Final = ("4.9.3", "5.3.3", "5.5.0")


class Line(NamedTuple):
    """What stands in front of the word in question.

    Attributes:
        command: its name.
        stores: what the command works on.
        values: of options, by the name of the parameter.
    """

    command: str
    stores: Sequence[str]
    values: Mapping[str, Sequence[str]]


def codes(_: Line | None = None) -> Iterator[tuple[str, str]]:
    """Give the finding codes."""
    yield from ((code.name, code.meaning) for code in CODES.values())


def _topics(line: Line) -> Iterator[tuple[str, str]]:
    """Give the topics that have queues; where none has, those that are configured."""
    for path in line.stores:
        store = open_store(os.path.expanduser(path))  # noqa: PTH111 - a Path is not needed
        found = Queues(store).topics()
        if not found:
            table = store.config(TOPICS_FILE).document.get("topicConfigTable")
            found = [str(name) for name in table] if isinstance(table, dict) else []
        yield from ((topic, "topic") for topic in found)


def _queues(line: Line) -> Iterator[tuple[str, str]]:
    """Give the numbers of the queues of the topics on the line, or of all."""
    found: set[int] = set()
    for path in line.stores:
        store = open_store(os.path.expanduser(path))  # noqa: PTH111 - likewise
        with Queues(store) as queues:
            for source in queues.sources:
                topics = line.values.get("topic") or source.topics()
                numbers = (queue.queue_id for name in topics for queue in source.queues_of(name))
                found.update(numbers)
    yield from ((str(number), "queue") for number in sorted(found))


def _areas(line: Line) -> Iterator[tuple[str, str]]:
    yield from ((area, "area") for area in AREAS)
    yield from codes(line)


def _sections(line: Line) -> Iterator[tuple[str, str]]:
    names: Iterable[str]
    if line.command == "startup":
        from rmqtool.startup.report import SECTIONS as names  # noqa: N811 - as others iterate it
    else:
        from rmqtool.info.overview import SECTIONS

        names = SECTIONS
    yield from ((name, "section") for name in names)


def _kinds(_: Line) -> Iterator[tuple[str, str]]:
    yield from ((str(kind), "kind of file") for kind in BranchKind)


def _words(*words: str) -> Callable[[Line], Iterator[tuple[str, str]]]:
    def give(_: Line) -> Iterator[tuple[str, str]]:
        yield from ((word, "") for word in words)

    return give


VALUES: Final[Mapping[str, Callable[[Line], Iterator[tuple[str, str]]]]] = {
    "topic": _topics,
    "queue": _queues,
    "only": _areas,
    "ignore": codes,
    "section": _sections,
    "as_": _kinds,
    "time_zone": _words("local", "UTC"),
    "color": _words("auto", "always", "never"),
    "broker_version": _words(*BROKER_VERSIONS),
    "like_broker": _words(*BROKER_VERSIONS),
}
