"""A public table: its columns, each declared once, and all that follows from the declaration.

Rows for JSON, tables and CSV, the Arrow schema, Spark's schema, the JSON schema and the dictionary
of the manual are derived from a `Table`. A table of rows that are objects is declared by their
class: each field is annotated with what it `Says`. All other tables list their columns;
a row of them takes what its things have by the names of columns, and what is given beside them.
pyarrow is imported when a schema is first asked for, so that a single lookup does not pay for it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from rmqtool.rows import Rows
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from rmqtool.rows import Chunk

JSON_SCHEMA: Final = "https://json-schema.org/draft/2020-12/schema"
EXACT: Final = "_b64"  # ends the name of the exact twin of bytes that are no text


class Type(enum.StrEnum):
    """What the values of a column are; the word is what the dictionary shows."""

    INT32 = "int32"
    INT64 = "int64"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    TEXT = "text"
    RAW = "bytes"  # as text, with an exact twin where they are no UTF-8
    TIME = "time"
    TEXTS = "list of text"
    NUMBERS = "list of int64"
    MAP = "map of text"
    ANY = "any"  # whatever a JSON document holds


class Column(NamedTuple):
    """One column."""

    name: str  # public
    type: Type  # of its values
    meaning: str  # what they say, one phrase
    unit: str = ""  # of a number; empty where there is not one
    aliases: tuple[str, ...] = ()  # what RocketMQ, its clients and its tools call the same
    # there for exceptions: a table for people shows it only where it is not null
    is_optional: bool = False
    # a column has few different values, so that a dictionary of them is short
    has_few: bool = False
    source: Any = None  # where a value comes from; who reads the table knows its type


class Says(NamedTuple):
    """What the field of a row says, as an annotation: `Annotated[int, Says("…", "bytes")]`."""

    meaning: str  # as in `Column`
    unit: str = ""  # as in `Column`
    aliases: tuple[str, ...] = ()  # as in `Column`
    type: Type | None = None  # where it is not that of the annotation
    name: str = ""  # where the column has another name than the field
    has_few: bool = False  # as in `Column`


@dataclass(frozen=True, eq=False)
class Table:
    """A public table."""

    name: str  # what its rows are, plural
    meaning: str  # what one row is, one phrase
    columns: tuple[Column, ...]  # all of them, in the promised order
    # columns of a table for people, the most important first; empty for all
    shown: tuple[str, ...] = ()
    below: tuple[str, ...] = ()  # columns that are sentences; see `Rows`
    whole: tuple[str, ...] = ()  # columns that are of no use when they are cut; see `Rows`

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def optional(self) -> frozenset[str]:
        """The fields that a table for people shows only where they are not null."""
        return frozenset(column.name for column in self.columns if column.is_optional)

    @cached_property
    def by_name(self) -> Mapping[str, Column]:
        """The columns by their names."""
        return {column.name: column for column in self.columns}

    def __getitem__(self, name: str) -> Column:
        return self.by_name[name]

    def row(self, *things: object, **given: object) -> dict[str, Any]:
        """Give a row: each value is given, or the attribute with the name of the column.

        Args:
            things: the first one that has an attribute counts; None is something that is not there,
                and leaves null what no other has, as an optional column is. A time is in ms, and
                may be called a timestamp.
            given: all other values.
        """
        kinds = (*map(type, things), *given)
        plan = self._plans.get(kinds)
        if plan is None:
            plan = self._plan(things, given)
            if all(map(_tells_fields, things)):
                self._plans[kinds] = plan
        if plan.all_of_one is not None:
            return self._of_one(plan.all_of_one(things[0]), plan.times)
        row: dict[str, Any] = {}
        for name, number, attribute, is_time in plan.steps:
            if number is None:
                row[name] = None
                continue
            value = given[name] if number < 0 else getattr(things[number], attribute)
            is_public = type(value) in (_TEXTS if is_time else _AS_THEY_ARE)
            row[name] = value if is_public else _public(value, is_time=is_time)
        return row

    def _of_one(self, values: tuple[Any, ...], times: tuple[str, ...]) -> dict[str, Any]:
        """Give the row of a thing that has all values; a store may have 100,000 of them."""
        row: dict[str, Any] = dict(zip(self.names, values, strict=True))
        if not _AS_THEY_ARE.issuperset(map(type, values)):
            row = {name: _public(value, is_time=False) for name, value in row.items()}
        for name in times:
            row[name] = _public(row[name], is_time=True)
        return row

    def of_columns(self, columns: Sequence[Sequence[Any]]) -> Iterator[dict[str, Any]]:
        """Give rows of columns, all of them and in order, whose values are public but for times.

        Args:
            columns: of one length; times in ms, or null.
        """
        public = [
            [None if value is None else iso_time(value) for value in values]
            if column.type is Type.TIME
            else values
            for column, values in zip(self.columns, columns, strict=True)
        ]
        names = self.names
        return (dict(zip(names, row, strict=True)) for row in zip(*public, strict=True))

    @cached_property
    def _plans(self) -> dict[tuple[object, ...], _Plan]:
        """Where values come from, by the types of what has them and the names of what is given."""
        return {}

    def _plan(self, things: Sequence[object], given: Mapping[str, object]) -> _Plan:
        """Find out where the value of each column comes from."""
        if unknown := given.keys() - self.by_name.keys():
            message = f"{self.name} has no column {min(unknown)}"
            raise TypeError(message)
        steps: list[_Step] = []
        for column in self.columns:
            number, attribute = (-1, "") if column.name in given else _attribute(things, column)
            steps.append((column.name, number, attribute, column.type is Type.TIME))
        is_of_one = len(steps) > 1 and all(number == 0 for _, number, *_ in steps)
        return _Plan(
            steps,
            attrgetter(*(attribute for *_, attribute, _ in steps)) if is_of_one else None,
            tuple(name for name, *_, is_time in steps if is_time),
        )

    def rows(self, chunks: Iterable[Chunk], name: str = "", label: str = "kind") -> Rows:
        """Give rows of this table to be written.

        Args:
            chunks: the rows.
            name: of the rows, where it is not that of the table.
            label: the field of a JSON line that holds the name, where several kinds come together.
        """
        return Rows(
            self.names,
            chunks,
            self.shown,
            name or self.name,
            self.optional,
            label,
            self.below,
            self.whole,
            self.json_schema,
        )

    @cached_property
    def arrow(self) -> pa.Schema:
        """The columns as Arrow's: Spark-shaped, all nullable, meaning and unit as metadata."""
        import pyarrow as pa

        return pa.schema(
            [
                pa.field(
                    column.name, _arrow_type(column.type), metadata={"comment": comment(column)}
                )
                for column in self.columns
            ]
        )

    def json_schema(self) -> dict[str, Any]:
        """Give the JSON schema of one row, as `--format jsonl` writes it.

        Each column is there in each row, null where nothing is known.
        """
        properties: dict[str, Any] = {}
        for column in self.columns:
            properties[column.name] = {"description": comment(column), **_JSON_TYPES[column.type]}
            if column.type is Type.RAW:
                meaning = f"{column.name} as base64, where it is not UTF-8"
                properties[column.name + EXACT] = {"description": meaning, "type": "string"}
        return {
            "$schema": JSON_SCHEMA,
            "title": self.name,
            "description": self.meaning,
            "type": "object",
            "properties": properties,
            "required": list(self.names),
        }


# name of a column; which thing has its value: -1 is given, None is none; its name there; whether
# it is a time
_Step = tuple[str, int | None, str, bool]


class _Plan(NamedTuple):
    """Where the values of the columns come from."""

    steps: list[_Step]  # for each column
    all_of_one: Callable[[object], tuple[Any, ...]] | None  # gives all, if the first thing has them
    times: tuple[str, ...]  # names of the columns with a time


_TEXTS: Final = frozenset({str, float, bool, type(None), bytes})  # these are public as they are
_AS_THEY_ARE: Final = _TEXTS | {int}  # but for a time


def _tells_fields(thing: object) -> bool:
    """Tell whether the type of a thing alone says which attributes it has."""
    return isinstance(thing, tuple | None) or is_dataclass(thing)


def _attribute(things: Sequence[object], column: Column) -> tuple[int | None, str]:
    """Give the first thing that has the value of a column, and its name there."""
    name, other = column.name, column.name.replace("time", "timestamp")
    for number, thing in enumerate(things):
        if hasattr(thing, name):
            return number, name
        if other is not name and hasattr(thing, other):
            return number, other
    if column.is_optional or None in things:
        return None, name
    message = f"nothing has {name}"
    raise AttributeError(message)


def _public(value: object, *, is_time: bool) -> object:
    if isinstance(value, enum.Enum):
        return str(value)
    return iso_time(value) if is_time and isinstance(value, int) else value


def comment(column: Column) -> str:
    """Give the meaning of a column with its unit, as schemas carry it."""
    return f"{column.meaning}, {column.unit}" if column.unit else column.meaning


def columns_of(row_class: type) -> tuple[Column, ...]:
    """Read the columns off the annotated fields of a class, in their order.

    Args:
        row_class: a named tuple or a dataclass; every field says what it is.
    """
    hints = get_type_hints(row_class, include_extras=True)
    return tuple(_column(name, hint) for name, hint in hints.items() if not name.startswith("_"))


def _column(name: str, hint: Any) -> Column:  # noqa: ANN401 - whatever an annotation is
    kind, says = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, None)
    if not isinstance(says, Says):
        message = f"{name}: {hint} does not say what it is"
        raise TypeError(message)
    return Column(
        says.name or name,
        says.type or _type(kind),
        says.meaning,
        says.unit,
        says.aliases,
        has_few=says.has_few,
    )


def _type(kind: Any) -> Type:  # noqa: ANN401 - whatever an annotation is
    if get_origin(kind) in {Union, UnionType}:
        (kind,) = (part for part in get_args(kind) if part is not NoneType)
    own_type = next((own for base, own in _PYTHON_TYPES.items() if issubclass(kind, base)), None)
    if own_type is None:
        message = f"no column holds {kind}"
        raise TypeError(message)
    return own_type


_PYTHON_TYPES: Final = {
    bool: Type.BOOLEAN,  # before int, which it is, too
    int: Type.INT64,
    float: Type.DOUBLE,
    str: Type.TEXT,
}
_JSON_TYPES: Final[dict[Type, dict[str, Any]]] = {
    Type.INT32: {"type": ["integer", "null"]},
    Type.INT64: {"type": ["integer", "null"]},
    Type.DOUBLE: {"type": ["number", "null"]},
    Type.BOOLEAN: {"type": ["boolean", "null"]},
    Type.TEXT: {"type": ["string", "null"]},
    Type.RAW: {"type": ["string", "null"]},
    Type.TIME: {"type": ["string", "null"], "format": "date-time"},
    Type.TEXTS: {"type": ["array", "null"], "items": {"type": "string"}},
    Type.NUMBERS: {"type": ["array", "null"], "items": {"type": "integer"}},
    Type.MAP: {"type": ["object", "null"], "additionalProperties": {"type": "string"}},
    Type.ANY: {},
}


def _arrow_type(kind: Type) -> pa.DataType:
    import pyarrow as pa

    text = pa.string()
    kinds = {
        Type.INT32: pa.int32(),
        Type.INT64: pa.int64(),
        Type.DOUBLE: pa.float64(),
        Type.BOOLEAN: pa.bool_(),
        Type.TIME: pa.timestamp("us", "UTC"),
        Type.TEXTS: pa.list_(text),
        Type.NUMBERS: pa.list_(pa.int64()),
        Type.MAP: pa.map_(text, text),
    }
    return kinds.get(kind, text)
