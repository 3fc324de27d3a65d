"""The dictionary: every public table with its columns, and where a name stands.

`help NAME`, the manual page of the tables and the JSON schemas are made of it. What RocketMQ, its
clients and its consoles call a column finds it, too: `msgId`, `offsetMsgId`, `UNIQ_KEY`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.table import Column, Table


class PublicTable(NamedTuple):
    """A table and the command that shows it."""

    command: str  # such as `info --section end`, without the program's name
    table: Table  # its columns


class DictionaryEntry(NamedTuple):
    """A column, and the commands that show it."""

    column: Column  # its name, type, unit and meaning
    commands: tuple[str, ...]  # in the order of the dictionary


@cache
def public_tables() -> tuple[PublicTable, ...]:
    """Give every table that a command shows, or that SQL and the data source have."""
    return tuple(_public_tables())


def _public_tables() -> Iterator[PublicTable]:
    from rmqtool.carve import rows as carve
    from rmqtool.check import many
    from rmqtool.diff import merging
    from rmqtool.diff import report as diff
    from rmqtool.doctor import report as doctor
    from rmqtool.findings.finding import FINDINGS
    from rmqtool.info import overview_rows
    from rmqtool.messages import sent
    from rmqtool.query import decoded, explain, groups
    from rmqtool.query import rows as query
    from rmqtool.reads.export_options import EXPORT
    from rmqtool.reads.views import VIEW_LIST
    from rmqtool.rebuild import report as rebuild
    from rmqtool.rebuild.many import REBUILT_STORES
    from rmqtool.relog.report import REBUILT_LOG
    from rmqtool.repair import result as repair
    from rmqtool.sending import report as sending
    from rmqtool.startup import report as startup
    from rmqtool.tables import fleet, lost_messages
    from rmqtool.tables.file_tables import BROKER_JSON, LINES, SEGMENTS
    from rmqtool.tables.views import VIEWS

    for word, view in VIEWS.items():
        yield PublicTable(f"dump --as {word}", view.table)
    yield PublicTable("dump --as config --format broker-json", BROKER_JSON)
    yield PublicTable("dump --hex", LINES)
    yield PublicTable("query", query.HITS)
    yield PublicTable("query (many requests)", query.BATCH)
    yield PublicTable("query --time", query.TIMES)
    yield PublicTable("query --group", groups.GROUP_QUEUES)
    yield PublicTable("query --id ID --group", groups.CONSUMED)
    yield PublicTable("doctor, repair, report, sql (lost messages)", lost_messages.LOST_MESSAGES)
    yield PublicTable("query --explain", explain.STEPS)
    yield PublicTable("query --hex", query.BYTES)
    yield PublicTable("query (without a store)", decoded.DECODED)
    yield PublicTable("validate", FINDINGS)
    yield PublicTable("validate (of several stores)", many.STORES)
    yield PublicTable("rebuild (of several stores)", REBUILT_STORES)
    for name in overview_rows.NAMES:
        yield PublicTable(f"info --section {name}", overview_rows.table(name))
    for table in diff.TABLES:
        yield PublicTable(f"diff --section {table.name}", table)
    yield PublicTable("diff --merge-offsets", merging.MERGED)
    for table in startup.TABLES:
        yield PublicTable(f"startup --section {table.name}", table)
    for table in (doctor.DIAGNOSIS, doctor.STEPS, doctor.UNREAD):
        yield PublicTable(f"doctor ({table.name})", table)
    for table in (repair.EDITS, repair.LEFT):
        yield PublicTable(f"repair ({table.name})", table)
    for name, table in (
        ("rebuild-cq", rebuild.QUEUES),
        ("rebuild-index", rebuild.INDEX),
        ("rebuild --check", rebuild.DIFFERENCES),
        ("export", EXPORT),
        ("export --table segments", SEGMENTS),
    ):
        yield PublicTable(name, table)
    made = {"extract": (sent.EXTRACT, sent.SENT), "carve": (carve.CARVED, carve.CARVED_RECORDS)}
    for name, (summary, file) in made.items():
        yield PublicTable(name, summary)
        yield PublicTable(f"{name} (the file)", file)
    yield PublicTable("rebuild-log", REBUILT_LOG)
    for table in (sending.SENDING, sending.NOT_SENT):
        yield PublicTable(f"send ({table.name})", table)
    yield PublicTable("sql --views", VIEW_LIST)
    yield PublicTable("export, sql, data source (of several stores)", fleet.STORE_COLUMNS)


def entries(word: str) -> list[DictionaryEntry]:
    """Give the columns that have a name, or that somebody else calls so; equal ones once.

    Args:
        word: as in a row, as in Java or as in this manual: `queueOffset`, `queue offset`.
    """
    asked = plain(word)
    commands_of: dict[Column, list[str]] = {}
    for command, table in public_tables():
        for column in table.columns:
            if asked in map(plain, (column.name, *column.aliases)):
                same = column._replace(source=None, is_optional=False, has_few=False)
                commands_of.setdefault(same, []).append(command)
    return [DictionaryEntry(column, tuple(commands)) for column, commands in commands_of.items()]


def names() -> Iterator[str]:
    """Give the names of all columns, and what else they are called."""
    seen = dict.fromkeys(
        name
        for _, table in public_tables()
        for column in table.columns
        for name in (column.name, *column.aliases)
    )
    yield from seen


def plain(word: str) -> str:
    """Give a word without what people write in different ways."""
    return re.sub(r"[^a-z0-9]", "", word.lower())
