"""Whatever is recognised can be shown."""

from __future__ import annotations

from rmqtool.store.branch import BranchKind
from rmqtool.tables.readers import READERS
from rmqtool.tables.record_tables import INNER_BATCH as INNER_MESSAGES
from rmqtool.tables.record_tables import MESSAGES
from rmqtool.tables.small import COLUMNS
from rmqtool.tables.small import READERS as SMALL_READERS
from rmqtool.tables.views import INNER_BATCH, PARTS, VIEWS


def test_every_kind() -> None:
    """Each kind of artefact has a view of its own name, but for what holds others."""
    holders = {BranchKind.STORE, BranchKind.ROCKSDB}
    assert {str(kind) for kind in BranchKind if kind not in holders} <= VIEWS.keys()
    assert PARTS <= VIEWS.keys()


def test_every_view_has_a_reader() -> None:
    """Each view is read by somebody, and shows columns that are there."""
    for view in VIEWS.values():
        if view.is_messages:
            names = set(MESSAGES.names)
        elif view.word == INNER_BATCH:
            names = set(INNER_MESSAGES.names)
        elif view.is_bulk:
            names = set(READERS[view.word].schema.names)
        else:
            names = set(COLUMNS[SMALL_READERS[view.word][0]])
        assert set(view.shown) <= names
