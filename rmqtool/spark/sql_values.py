"""Values of Spark's rows as plain Python: times as text, structures as mappings."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.functions import col, unix_micros
from pyspark.sql.types import DataType, TimestampType

from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Give each column a name of its own: `n`, `n_2`, `n_3`."""
    found: list[str] = []
    for name in names:
        number, own = 1, name
        while own in found:
            number += 1
            own = f"{name}_{number}"
        found.append(own)
    return tuple(found)


def readable(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Give times as microseconds: Spark's own would depend on this machine's time zone."""
    named = rows.toDF(*names)
    columns = []
    for name, field in zip(names, rows.schema.fields, strict=True):
        column = col(f"`{name.replace('`', '``')}`")
        is_time = isinstance(field.dataType, TimestampType)
        columns.append(unix_micros(column).alias(name) if is_time else column)
    return named.select(*columns)


def plain(value: Any, kind: DataType | None = None) -> Any:  # noqa: ANN401 - whatever SQL gives
    """Give a value of a row as what is written everywhere else."""
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return iso_time(value // 1000) if isinstance(kind, TimestampType) else value
    if isinstance(value, datetime):  # within an array or a structure, in local time
        moment = value.astimezone(UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    if isinstance(value, date | Decimal | timedelta):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    return _container(value)


def _container(value: Any) -> Any:  # noqa: ANN401 - whatever SQL gives
    if isinstance(value, Row):
        return {name: plain(one) for name, one in value.asDict().items()}
    if isinstance(value, dict):
        return {str(plain(name)): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return str(value)
