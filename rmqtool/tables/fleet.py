"""Columns that tell the stores of a fleet apart: in front of those of any table."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from rmqtool.table import Column, Table, Type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

STORE: Final = Column(
    "store", Type.TEXT, "path of the store, as it was named or as a pattern matched", has_few=True
)
BROKER: Final = Column(
    "broker",
    Type.TEXT,
    "broker's name, from the file of stores or brokerIdentity; null where not known",
    aliases=("brokerName",),
    has_few=True,
)
FLEET: Final = (STORE, BROKER)
STORE_COLUMNS: Final = Table("fleet", "the store of a row, where several are read", FLEET)


@cache
def of_fleet(table: Table) -> Table:
    """Give a table with the columns that tell stores apart."""
    shown = table.shown and (STORE.name, *table.shown)
    return replace(table, columns=(*FLEET, *table.columns), shown=shown)


def beside(
    store: str, broker: str | None, rows: pa.RecordBatch, names: Sequence[str]
) -> pa.RecordBatch:
    """Put the columns of the store beside rows.

    Args:
        store: as it is shown.
        broker: its name; None where it is not known.
        rows: of one store, with the other columns.
        names: columns of the result, in order.
    """
    import pyarrow as pa

    columns_beside = {STORE.name: store, BROKER.name: broker}
    columns = {
        name: pa.repeat(pa.scalar(columns_beside[name], pa.string()), rows.num_rows)
        if name in columns_beside
        else rows.column(name)
        for name in names
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
