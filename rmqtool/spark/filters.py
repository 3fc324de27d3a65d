"""Filters of a query as limits of a read: what they leave out need not be decoded.

A limit may keep more than the filter does, never less; Spark applies the filter again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from rmqtool.spark.options import Scope, SourceOptions, TableName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.datasource import Filter

    from rmqtool.tables.selection import Range, Selection

RANGES: Final = {
    "physical_offset": "offsets",
    "queue_offset": "queue_offsets",
    "store_time": "store_time",
}
UNIQUE_KEY: Final = "unique_key"
OF_RECORDS: Final = frozenset({"topic", "keys", UNIQUE_KEY})  # null in rows of damage
MOST_KEYS: Final = 100  # each is looked up in each index file, for each topic
USED: Final = {
    TableName.MESSAGES: frozenset({"topic", "queue_id", UNIQUE_KEY, *RANGES}),
    TableName.QUEUE_UNITS: frozenset({"topic", "queue_id", "physical_offset", "queue_offset"}),
    TableName.INDEX_ENTRIES: frozenset({"physical_offset"}),
}


def limited(options: SourceOptions, filters: Iterable[Filter]) -> SourceOptions:
    """Give options with the limits that filters imply."""
    used = USED.get(options.table, frozenset())
    if options.scope is Scope.SEGMENT or not used:
        return options
    selection = options.selection
    by_topic = False
    by_keys: tuple[str, ...] = ()
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())
        if len(path) == 1 and path[0] in used:
            selection = _narrowed(selection, path[0], one)
            # Rows of damage have no topic: Spark drops them where the query asks for one.
            by_topic = by_topic or (path[0] == "topic" and bool(_texts(one)))
            if path[0] == UNIQUE_KEY:
                by_keys = by_keys or _keys(_texts(one))
        if path[:1] and path[0] in OF_RECORDS and isinstance(one, IsNotNull) and selection.key:
            by_keys = by_keys or _keys((selection.key,))
    return replace(options, selection=selection, by_topic=by_topic, by_keys=by_keys)


def _narrowed(selection: Selection, column: str, one: Any) -> Selection:  # noqa: ANN401
    if column in RANGES:
        name = RANGES[column]
        low, high = _range(one, is_time=column == "store_time")
        before: Range = getattr(selection, name)
        change: dict[str, Any] = {name: (_max(before[0], low), _min(before[1], high))}
        return replace(selection, **change)
    if isinstance(one, EqualTo) and column == "queue_id" and selection.queue_id is None:
        return replace(selection, queue_id=int(one.value))
    if column == "topic" and not selection.topics:
        return replace(selection, topics=_texts(one))
    return selection


def _keys(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Give keys that an index can be asked for; none where it cannot."""
    return texts if all(texts) and len(texts) <= MOST_KEYS else ()


def _texts(one: object) -> tuple[str, ...]:
    """Give the values that a filter leaves; none means that it does not say.

    A text that is not UTF-8 is shown with marks instead of its bytes, and cannot be a limit.
    """
    values: tuple[Any, ...] = ()
    if isinstance(one, EqualTo):
        values = (one.value,)
    elif isinstance(one, In):
        values = one.value
    is_plain = all(isinstance(value, str) and "\ufffd" not in value for value in values)
    return tuple(values) if is_plain else ()


def _range(one: Any, *, is_time: bool) -> Range:  # noqa: ANN401
    """Give the half-open range that a comparison leaves, no narrower than it is."""
    if not isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
        return None, None
    value = _milliseconds(one.value) if is_time else one.value
    if not isinstance(value, int):
        return None, None
    low = value if isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual) else None
    high = value + 1 if isinstance(one, EqualTo | LessThan | LessThanOrEqual) else None
    return low, high


def _milliseconds(value: object) -> int | None:
    """Give the millisecond in which a time lies; None for one without a time zone."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    passed = value - datetime(1970, 1, 1, tzinfo=UTC)
    return (passed.days * 86_400 + passed.seconds) * 1000 + passed.microseconds // 1000


def _max(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def _min(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
