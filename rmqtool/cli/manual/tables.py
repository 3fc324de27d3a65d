"""`rmqtool-tables(5)`: the rows that commands write, and every column of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.check.of_table import COMPACTED, OF_LOG, READS
from rmqtool.cli.manual.blocks import Page, Section, Term, prose
from rmqtool.cli.manual.commands import TABLES, see_also
from rmqtool.dictionary import PublicTable, entries, names, public_tables
from rmqtool.table import Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.cli.manual.blocks import Block
    from rmqtool.dictionary import DictionaryEntry
    from rmqtool.table import Column, Table

NUMBER: Final = 5
WORDS: Final = {Type.RAW: "text"}


def tables_page() -> Page:
    """Give the whole page."""
    blocks = [*prose("tables", judged=_judged()), Section("ROWS")]
    blocks += [_table_item(*table) for table in _by_table()]
    blocks.append(Section("COLUMNS"))
    known = {column.name for _, table in public_tables() for column in table.columns}
    for name in sorted(known.intersection(names())):
        blocks += [column_item(entry) for entry in entries(name) if entry.column.name == name]
    blocks += see_also(TABLES)
    return Page(TABLES, NUMBER, "rows and columns that rmqtool writes", tuple(blocks))


def _judged() -> Iterator[Term]:
    """Say of each kind of `dump --as` how its files are judged."""
    logs = ", ".join(sorted({*OF_LOG, COMPACTED}))
    yield Term(logs, ("While they are read.",))
    for word, reads in READS.items():
        level = "full, with the log" if reads.is_compared else "quick"
        areas = ",".join(sorted(reads.areas))
        yield Term(word, (f"As by validate --only {areas} --level {level}.",))


def column_page(word: str) -> Page | None:
    """Give every column that has a name, or that others call so; None without one."""
    columns = entries(word)
    if not columns:
        return None
    blocks: list[Block] = [Section("COLUMNS"), *map(column_item, columns)]
    return Page(columns[0].column.name, NUMBER, "a column", tuple(blocks))


def column_item(entry: DictionaryEntry) -> Term:
    """Give one column: its name, type and unit, what it says, and which commands show it."""
    column = entry.column
    meaning = f"{column.meaning[:1].upper()}{column.meaning[1:]}."
    also = f" Also called {', '.join(column.aliases)}." if column.aliases else ""
    shown = f"Shown by: {'; '.join(entry.commands)}."
    return Term(f"{column.name}  {_kind(column)}", (f"{meaning}{also}", shown))


def _kind(column: Column) -> str:
    kind = WORDS.get(column.type, str(column.type))
    return f"{kind}, {column.unit}" if column.unit else kind


def _by_table() -> list[PublicTable]:
    """Give each table once, with all commands that show it."""
    by_columns: dict[tuple[Column, ...], tuple[list[str], Table]] = {}
    for command, table in public_tables():
        by_columns.setdefault(table.columns, ([], table))[0].append(command)
    return [PublicTable("; ".join(commands), table) for commands, table in by_columns.values()]


def _table_item(command: str, table: Table) -> Term:
    meaning = f"A row is {table.meaning}."
    return Term(command, (meaning, f"Columns: {', '.join(table.names)}."))
