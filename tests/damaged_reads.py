"""What `validate` calls damage, no read of a table calls fine: asked of each engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from rmqtool.reads.options import TableName
from tests.damaged import NAMES, SAMPLE, Seen, damage_in, damaged_store, validated

TABLES: Final = {
    TableName.MESSAGES: "log",
    TableName.SEGMENTS: "log",
    TableName.QUEUE_UNITS: "consume-queue",
    TableName.INDEX_ENTRIES: "index",
    TableName.PENDING_TIMERS: "pending-timers",
    TableName.POP_IN_FLIGHT: "pop-in-flight",
    TableName.TRACES: "traces",
}
OF_POP: Final = "add pop"  # the one damage of messages that were popped

Damaged = Mapping[Path, tuple[str, list[Seen]]]  # store: its damage, and what `validate` finds
_MADE: Final[dict[bool, Damaged]] = {}


def damaged_stores(factory: pytest.TempPathFactory, *, is_whole: bool) -> Damaged:
    """Make damaged stores, a sample, or all, once for all files that read them."""
    if is_whole not in _MADE:
        stores = {}
        for name in NAMES if is_whole else [*SAMPLE, OF_POP]:
            store, _ = damaged_store(name, factory.mktemp("damaged"))
            stores[store] = name, validated(store, None)
        _MADE[is_whole] = stores
    return _MADE[is_whole]


def damaged_in(stores: Damaged, table: TableName) -> dict[Path, tuple[str, set[str]]]:
    """Give the stores with damage in the files of a table: name and codes of the damage."""
    damages = {
        store: (name, damage_in(TABLES[table], seen)) for store, (name, seen) in stores.items()
    }
    return {store: (name, damage) for store, (name, damage) in damages.items() if damage}


def judge(stores: Damaged, table: TableName, codes_of: Callable[[Path], set[str]]) -> None:
    """Demand a row with a code for each damage in the files of a table."""
    silent, damaged = [], damaged_in(stores, table)
    for store, (name, damage) in damaged.items():
        codes = codes_of(store)
        is_first = table is TableName.SEGMENTS  # a row has the first code of its file
        if not (codes if is_first else codes & {*damage, "FS-READ"}):
            silent.append((name, damage, codes))
    assert [] == silent
    assert damaged
