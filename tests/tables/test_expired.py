"""Files that a running broker deletes while they are read: counted, and no gap."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from rmqtool.engine import LocalEngine
from rmqtool.messages.extract import ExtractRun, sentences
from rmqtool.messages.options import ExtractOptions
from rmqtool.reads.export import SUCCESS, ExportRun
from rmqtool.reads.export_options import ExportOptions
from rmqtool.reads.options import Scope, SourceOptions, TableName
from rmqtool.rows import rows_of
from rmqtool.store.place import OpenFile, Place
from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump
from rmqtool.tables.selection import Selection
from tests.stores import OPENS, fixture_store, held_by_another

FIXTURE = "rocketmq-5.3.3-traffic"
LOG = ("commitlog/00000000000000000000", "commitlog/00000000000000131072")
VIEWS = {
    "commitlog": LOG[0],
    "consume-queue": "consumequeue/traffic-orders/0/00000000000000000000",
    "index": "index/20261121024958881",
}


@pytest.mark.parametrize("is_hex", [False, True])
@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize("word", VIEWS)
def test_dump(
    word: str, quick_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_live: bool, is_hex: bool
) -> None:
    """Without a broker the same file is a row of damage."""
    root = fixture_store(FIXTURE, quick_path)
    gone, opened = root / VIEWS[word], Place.open

    def expire(place: Place) -> OpenFile:  # after it was listed
        if place.name == gone.name and gone.parent.name in str(place):
            gone.unlink(missing_ok=True)
        return opened(place)

    for name in OPENS:
        monkeypatch.setattr(Place, name, expire)
    outcome = DumpOutcome()
    with ExitStack() as held:
        if is_live:
            held.enter_context(held_by_another(root))
        selection = Selection(topics=("traffic-orders",), queue_id=0)
        options = DumpOptions((str(root),), word, is_hex=is_hex)
        if word == "consume-queue":
            options = replace(options, selection=selection)
        (rows,) = dump(options, outcome)
        for _ in rows.chunks:
            pass
    assert ({VIEWS[word]} if is_live else set()) == outcome.expired
    assert int(not is_live) == len(outcome.unread) == outcome.damaged


@pytest.mark.parametrize("tail", [None, 5])
def test_dump_after_all(
    tail: int | None, quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all that was listed has expired, what the log has then is shown."""
    root = fixture_store(FIXTURE, quick_path)
    *listed, last = [
        path for path in sorted((root / "commitlog").iterdir()) if any(path.read_bytes())
    ]
    last.rename(quick_path / "last")
    opened, names = Place.open, {path.name for path in listed}

    def expire(place: Place) -> OpenFile:
        if place.name in names and "commitlog" in str(place) and not last.exists():
            for path in listed:
                path.unlink(missing_ok=True)
            with suppress(FileNotFoundError):  # another thread did
                (quick_path / "last").rename(last)
        return opened(place)

    options = DumpOptions((str(root),), "commitlog", tail=tail)
    with held_by_another(root):
        (rows,) = dump(options, DumpOutcome())
        for name in OPENS:
            monkeypatch.setattr(Place, name, expire)
        found = [row for chunk in rows.chunks for row in rows_of(chunk)]
    assert {f"commitlog/{last.name}"} == {row["segment"] for row in found}
    assert tail in {None, len(found)}


@pytest.mark.parametrize("segment", LOG)
@pytest.mark.parametrize("is_live", [False, True])
def test_extract(segment: str, quick_path: Path, *, is_live: bool) -> None:
    """A file between two others never expires."""
    root = fixture_store(FIXTURE, quick_path)
    run = ExtractRun(ExtractOptions((str(root),), str(quick_path / "out.jsonl")))
    with ExitStack() as held:
        if is_live:
            held.enter_context(held_by_another(root))
        (root / segment).unlink()
        done = run.run()
    has_expired = is_live and segment == LOG[0]
    assert ({segment} if has_expired else set()) == done.expired
    assert has_expired == (not done.unread)
    assert has_expired == any("expired meanwhile" in sentence for sentence in sentences(done, None))


TABLES = {
    TableName.MESSAGES: LOG[0],
    TableName.SEGMENTS: LOG[0],
    TableName.QUEUE_UNITS: VIEWS["consume-queue"],
    TableName.INDEX_ENTRIES: VIEWS["index"],
    TableName.FINDINGS: LOG[0],
}


@pytest.mark.parametrize("is_fleet", [False, True])
@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize("table", TABLES)
def test_export(table: TableName, quick_path: Path, *, is_live: bool, is_fleet: bool) -> None:
    """The export is complete then; without a broker there is no `_SUCCESS`."""
    root = fixture_store(FIXTURE, quick_path)
    source = SourceOptions(str(root), table=table, scope=Scope.SEGMENT)
    if is_fleet:
        source = replace(source, path="", paths=(str(root),))
    export = ExportRun(ExportOptions(source, str(quick_path / "out")))
    with ExitStack() as held:
        if is_live:
            held.enter_context(held_by_another(root))
        (root / TABLES[table]).unlink()  # after it was listed
        done = export.run(LocalEngine(1))
    gone = f"{root}: {TABLES[table]}" if is_fleet else TABLES[table]
    assert ([gone] if is_live else []) == done.expired
    assert is_live == done.is_complete == (quick_path / "out" / SUCCESS).exists()


@pytest.mark.parametrize("is_live", [False, True])
def test_export_between_two(quick_path: Path, *, is_live: bool) -> None:
    """A segment between two others never expires."""
    root = fixture_store(FIXTURE, quick_path)
    export = ExportRun(ExportOptions(SourceOptions(str(root)), str(quick_path / "out")))
    with ExitStack() as held:
        if is_live:
            held.enter_context(held_by_another(root))
        (root / LOG[1]).unlink()
        done = export.run(LocalEngine(1))
    assert [LOG[1]] == done.unread
    assert not done.expired
    assert not done.is_complete
