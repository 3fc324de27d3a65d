"""What may be completed: topics and queues of a store, codes, areas, sections, kinds.

Each is named by the options that take it, so nothing is imported before it is asked for.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from rmqtool.formats.config_names import TOPIC_TABLE, TOPICS_JSON

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.cli.declaration import Line, Word
    from rmqtool.store.tree import Store

# What a person may have in mind: the lines that the fixtures stand for.
BROKER_VERSIONS: Final = ("4.9.3", "5.3.3", "5.5.0")


def topics(line: Line) -> Iterator[Word]:
    """Give the topics that have queues; where none has, those that are configured."""
    from rmqtool.queues.discovery import Queues

    for store in _stores(line):
        names = Queues(store).topics()
        if not names:
            table = store.config(TOPICS_JSON).document.get(TOPIC_TABLE)
            names = [str(name) for name in table] if isinstance(table, dict) else []
        yield from ((topic, "topic") for topic in names)


def groups(line: Line) -> Iterator[Word]:
    """Give the consumer groups that have offsets or are configured."""
    from rmqtool.query.groups import known_groups

    for store in _stores(line):
        yield from ((group, "consumer group") for group in known_groups(store))


def queues(line: Line) -> Iterator[Word]:
    """Give the numbers of the queues of the topics on the line, or of all."""
    from rmqtool.queues.discovery import Queues

    numbers: set[int] = set()
    for store in _stores(line):
        with Queues(store) as known:
            for source in known.sources:
                names = line.values.get("topic") or source.topics()
                numbers.update(queue.queue_id for name in names for queue in source.queues_of(name))
    yield from ((str(number), "queue") for number in sorted(numbers))


def _stores(line: Line) -> Iterator[Store]:
    from rmqtool.store.tree import open_store

    for path in line.arguments:
        yield open_store(os.path.expanduser(path))  # noqa: PTH111 - a Path is not needed


def codes(_: Line | None = None) -> Iterator[Word]:
    """Give the finding codes."""
    from rmqtool.findings.registry import CODES

    yield from ((code.name, code.meaning) for code in CODES.values())


def areas(line: Line) -> Iterator[Word]:
    """Give the areas of a validation, then the finding codes."""
    from rmqtool.check.options import AREAS

    yield from ((area, "area") for area in AREAS)
    yield from codes(line)


def info_sections(_: Line) -> Iterator[Word]:
    """Give the sections of `info`."""
    from rmqtool.info.overview import SECTIONS

    yield from _each(SECTIONS, "section")


def startup_sections(_: Line) -> Iterator[Word]:
    """Give the sections of `startup`."""
    from rmqtool.startup.report import SECTIONS

    yield from _each(SECTIONS, "section")


def diff_sections(_: Line) -> Iterator[Word]:
    """Give the sections of `diff`."""
    from rmqtool.diff.report import SECTIONS

    yield from _each(SECTIONS, "section")


def kinds(_: Line) -> Iterator[Word]:
    """Give the kinds of files that `dump` knows."""
    from rmqtool.store.artefact import ArtefactKind

    yield from _each(map(str, ArtefactKind), "kind of file")


def sql_views(_: Line) -> Iterator[Word]:
    """Give the ready-made views of `sql`."""
    from rmqtool.reads.views import VIEWS

    yield from ((view.name, view.meaning) for view in VIEWS.values())


def zones(_: Line) -> Iterator[Word]:
    """Give time zones: those that are typed most."""
    yield from _each(("local", "UTC"))


def broker_versions(_: Line) -> Iterator[Word]:
    """Give releases of the broker, one of each line."""
    yield from _each(BROKER_VERSIONS)


def help_topics(_: Line) -> Iterator[Word]:
    """Give what there is help for: pages, codes, structures."""
    from rmqtool.cli.commands import SUMMARIES
    from rmqtool.cli.manual import DECODERS, FINDINGS, FORMATS, SPARK, TABLES
    from rmqtool.formats.registry import LAYOUTS

    yield from SUMMARIES.items()
    yield FORMATS, "every byte of every file"
    yield TABLES, "every column of every table"
    yield FINDINGS, "every finding code"
    yield SPARK, "stores as Spark tables, bulk work on a cluster"
    yield DECODERS, "bodies by a decoder of your own"
    yield from codes()
    yield from ((layout.name, layout.doc) for layout in LAYOUTS.values())


def _each(words: Iterable[str], meaning: str = "") -> Iterator[Word]:
    return ((word, meaning) for word in words)
