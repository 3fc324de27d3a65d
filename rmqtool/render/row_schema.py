"""What rows are, in place of the rows: one JSON schema of a line that `--format jsonl` writes.

It comes from the declarations of the tables, so no store is read for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqtool.errors import UsageError
from rmqtool.plural import meant
from rmqtool.table import EXACT, JSON_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqtool.rows import Rows


def row_schema(kinds: Sequence[Rows], wanted: Sequence[str] | None = None) -> dict[str, Any]:
    """Give the schema of a row, or of rows of several kinds.

    Where there are several, the name of a kind stands under `Rows.label` of each.

    Args:
        kinds: of rows; each has a schema, and its rows are not asked for.
        wanted: columns that were asked for; a kind that has none of them keeps all of its own.

    Raises:
        UsageError: no kind has such a column.
    """
    known = dict.fromkeys(name for rows in kinds for name in rows.columns)
    for name in wanted or ():
        if name not in known:
            reason = f"no column {name}; {meant(name, known)}"
            raise UsageError(option="--columns", reason=reason)
    schemas = [_of_kind(rows, wanted or ()) for rows in kinds]
    if len(schemas) == 1:
        return schemas[0]
    for rows, schema in zip(kinds, schemas, strict=True):
        del schema["$schema"]
        schema["properties"] = {rows.label: {"const": rows.name}, **schema["properties"]}
    return {"$schema": JSON_SCHEMA, "anyOf": schemas}


def _of_kind(rows: Rows, wanted: Sequence[str]) -> dict[str, Any]:
    """Give the schema of the columns that are written of one kind."""
    whole: Mapping[str, Any] = rows.schema() if rows.schema is not None else {"properties": {}}
    names = [name for name in wanted if name in rows.columns] or [*rows.columns]
    kept = {*names, *({f"{name}{EXACT}" for name in names} - {*rows.columns})}
    described = {name: schema for name, schema in whole["properties"].items() if name in kept}
    return {**whole, "properties": described, "required": names}
