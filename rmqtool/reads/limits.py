"""Filters of one query as limits of its read: what they leave out need not be read.

An engine hands its filter over as an Arrow expression. A limit may keep more than the filter does,
never less: who reads applies the filter again. A limit belongs to one read, never to a table.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from rmqtool.reads.options import Scope, SourceOptions, TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.tables.selection import Range, Selection

# Columns that have ranges, and the fields of a selection for them.
RANGED: Final = ("physical_offset", "queue_offset", "store_time")
RANGES: Final = dict(zip(RANGED, ("offsets", "queue_offsets", "store_time"), strict=True))
USED: Final = {
    TableName.MESSAGES: frozenset({"topic", "queue_id", "unique_key", *RANGES}),
    TableName.QUEUE_UNITS: frozenset({"topic", "queue_id", "queue_offset"}),
}
# Words of a serialised expression, one a line of its schema's metadata. Names are those of our
# columns; what a person typed is in its columns, so nothing that is typed is read as a word.
STEP: Final = re.compile(
    r"^(call|end|field_ref|literal|options|nested_field_ref): '(.*)'$", re.MULTILINE
)
BOTH: Final = frozenset({"and", "and_kleene"})
FROM: Final = frozenset({"equal", "greater", "greater_equal"})
UP_TO: Final = frozenset({"equal", "less", "less_equal"})
RELATIONS: Final = FROM | UP_TO | {"is_in"}
MARK: Final = "\ufffd"  # stands for what is not UTF-8


class Condition(NamedTuple):
    """What a filter asks of each row."""

    column: str  # whose value is compared
    relation: str  # Arrow's name of the comparison
    values: tuple[Any, ...]  # with what; times are µs since 1970


class _Node(NamedTuple):
    """A part of an expression."""

    kind: str  # call, field_ref, literal or options
    value: Any  # name of a function or a column, or values
    arguments: list[_Node]


def conditions(expression: pa.compute.Expression | None) -> list[Condition]:
    """Give what an expression asks of every row; what is not understood is left out."""
    return [] if expression is None else list(_all_of(_tree(expression)))


def columns_of(expression: pa.compute.Expression | None) -> set[str]:
    """Give the columns that an expression looks at."""
    if expression is None:
        return set()
    schema = pa.ipc.open_file(_packed(expression)).schema
    return {name for kind, name in _steps(schema) if kind == "field_ref"}


def _packed(expression: pa.compute.Expression) -> pa.Buffer:
    """Give an expression as Arrow writes it down: a batch whose metadata are its steps."""
    _, (buffer, *_) = expression.__reduce__()
    return buffer


def _steps(schema: pa.Schema) -> list[tuple[str, str]]:
    text = schema.to_string(truncate_metadata=False, show_field_metadata=False)
    return STEP.findall(text.partition("-- schema metadata --")[2])


def _tree(expression: pa.compute.Expression) -> _Node:
    """Read an expression; Arrow gives no other way to look into it."""
    table = pa.ipc.open_file(_packed(expression)).read_all()
    top = _Node("call", "", [])
    open_calls = [top]
    for kind, word in _steps(table.schema):
        if kind == "end":
            open_calls.pop()
            continue
        value = _values(table.column(int(word))) if kind in {"literal", "options"} else word
        node = _Node(kind, value, [])
        open_calls[-1].arguments.append(node)
        if kind == "call":
            open_calls.append(node)
    return top.arguments[0]


def _values(column: pa.ChunkedArray) -> tuple[Any, ...]:
    """Give the value of a literal, or the list that `is_in` looks in."""
    if pa.types.is_struct(column.type):
        names = [field.name for field in column.type]
        if "value_set" not in names:
            return ()
        return _plain(column.chunk(0).field(names.index("value_set")).values)
    return _plain(column.chunk(0))


def _plain(array: pa.Array) -> tuple[Any, ...]:
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    return tuple(array.to_pylist())


def _all_of(node: _Node) -> Iterator[Condition]:
    """Yield the conditions that all have to hold."""
    if node.kind != "call":
        return
    if node.value in BOTH:
        for argument in node.arguments:
            yield from _all_of(argument)
    elif node.value == "if_else":
        # Of null in a list nothing is known: `if is_valid(x) then is_in(x, ...) else null`.
        is_null = node.arguments[2].kind == "literal" and node.arguments[2].value == (None,)
        yield from _all_of(node.arguments[1]) if is_null else ()
    elif node.value in RELATIONS and node.arguments[0].kind == "field_ref":
        other = node.arguments[-1]
        if other.kind in {"literal", "options"}:
            yield Condition(node.arguments[0].value, node.value, other.value)


def limited(options: SourceOptions, wanted: Iterable[Condition]) -> SourceOptions:
    """Give options with the limits that conditions imply."""
    used = USED.get(options.table, frozenset())
    if options.scope is Scope.SEGMENT:
        return options
    selection = options.selection
    for condition in wanted:
        if condition.column in used and condition.values and None not in condition.values:
            selection = _narrowed(selection, condition)
    return replace(options, selection=selection)


def _narrowed(selection: Selection, condition: Condition) -> Selection:
    if condition.column in RANGES:
        name = RANGES[condition.column]
        low, high = _range(condition, is_time=condition.column == "store_time")
        before: Range = getattr(selection, name)
        change: dict[str, Any] = {name: (_most(max, before[0], low), _most(min, before[1], high))}
        return replace(selection, **change)
    is_equal = condition.relation in {"equal", "is_in"}
    if (
        condition.column == "queue_id"
        and condition.relation == "equal"
        and selection.queue_id is None
    ):
        return replace(selection, queue_id=int(condition.values[0]))
    texts = _texts(condition.values) if is_equal else ()
    if condition.column == "topic" and not selection.topics:
        return replace(selection, topics=texts)
    if condition.column == "unique_key" and len(texts) == 1 and selection.key is None:
        return replace(selection, key=texts[0])  # or one of the keys: it keeps more
    return selection


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    """Give texts as limits; none where one of them cannot be.

    A text that is not UTF-8 is shown with marks instead of its bytes.
    """
    is_plain = all(isinstance(value, str) and value and MARK not in value for value in values)
    return tuple(values) if is_plain else ()


def _range(condition: Condition, *, is_time: bool) -> Range:
    """Give the half-open range that a comparison leaves, no narrower than it is."""
    value = condition.values[0]
    if condition.relation not in FROM | UP_TO or not isinstance(value, int):
        return None, None
    value = value // 1000 if is_time else value
    low = value if condition.relation in FROM else None
    high = value + 1 if condition.relation in UP_TO else None
    return low, high


def _most(choose: Any, limit: int | None, other: int | None) -> int | None:  # noqa: ANN401 - min, max
    known = [value for value in (limit, other) if value is not None]
    return choose(known) if known else None
