"""Whatever is recognised can be shown."""

from __future__ import annotations

from rmqtool.store.artefact import ArtefactKind
from rmqtool.tables.readers import READERS
from rmqtool.tables.small_files import READERS as SMALL_READERS
from rmqtool.tables.views import INNER_BATCH, OF_STORES, PARTS, VIEWS


def test_every_kind() -> None:
    """Each kind of artefact has a view of its own name, but for what holds others."""
    holders = {ArtefactKind.STORE, ArtefactKind.ROCKSDB}
    assert {str(kind) for kind in ArtefactKind if kind not in holders} <= VIEWS.keys()
    assert PARTS <= VIEWS.keys()


def test_every_view_has_a_reader() -> None:
    """Each view is read by somebody, and shows columns that are there."""
    for view in VIEWS.values():
        readers = READERS if view.is_bulk else SMALL_READERS
        assert view.is_messages or view.word in {
            INNER_BATCH,
            str(ArtefactKind.ROCKSDB),
            *readers,
            *OF_STORES,
        }
        assert set(view.table.shown) <= set(view.table.names)
