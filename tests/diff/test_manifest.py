"""A store beside a manifest: what grew, what was rewritten, what is gone, and which log it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqtool.check.manifest.manifest import Manifest
from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.diff.manifest import ManifestDifference, compare
from rmqtool.errors import UnreadablePath, UnsupportedStore
from rmqtool.store.place import OpenFile, Place
from rmqtool.store.tree import open_store
from tests import inflict, plain_store
from tests.cli.run import rmqtool
from tests.stores import OPENS, fixture_store

FIXTURE = "rocketmq-5.3.3-traffic"
FIRST, SECOND = "commitlog/00000000000000000000", "commitlog/00000000000000131072"
SETTINGS = "config/topics.json"


def _manifest(store: Path) -> Manifest:
    run = validate(ValidateOptions(store, keeps_book=True))
    for _ in run:
        pass
    assert run.ledger is not None
    assert run.ledger.manifest is not None
    return run.ledger.manifest


def _grow(store: Path) -> None:
    """Take the newest message away: the manifest is then of the time before it came."""
    last = plain_store.records(store)[-1]
    inflict.write_at(last.path, last.position, bytes(last.size))


def _cut(name: str) -> Callable[[Path], None]:
    return lambda store: (store / name).unlink()


def _link(store: Path) -> None:
    (store / SECOND).unlink()
    (store / SECOND).symlink_to("elsewhere")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Give a store of several segments."""
    return fixture_store(FIXTURE, tmp_path)


def _told(found: ManifestDifference) -> dict[str, str]:
    return {str(row["path"]): str(row["change"]) for row in (one.row() for one in found.changed)}


@pytest.mark.parametrize(
    ("work", "told", "said"),
    [
        (lambda _: None, {}, "the log is unchanged up to 477331;"),
        (inflict.zero_sector(), {SECOND: "rewritten"}, f"{SECOND} was rewritten"),
        (
            _cut(FIRST),
            {FIRST: "gone"},
            "the log is unchanged from 131072 to 477331; older files are gone",
        ),
        (_cut(SECOND), {SECOND: "gone"}, f"{SECOND} is gone"),
        (_cut(SETTINGS), {SETTINGS: "gone"}, "the log is unchanged up to 477331;"),
        (_link, {SECOND: "gone"}, f"{SECOND} is gone"),
    ],
    ids=["nothing", "zeros", "expired", "lost", "settings", "link"],
)
def test_changes(
    store: Path, work: Callable[[Path], None], told: dict[str, str], said: str
) -> None:
    """Each file that differs is named; the sentence begins with the log."""
    before = _manifest(store)
    work(store)
    compared = compare(open_store(store), before, jobs=1)
    assert (told, 0) == (_told(compared), compared.unread)
    assert said in compared.verdict


def test_unread(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be read is not as then, and not the same."""
    before, opened = _manifest(store), Place.open

    def refuse(place: Place) -> OpenFile:
        if place.name == SECOND.rpartition("/")[2] and "commitlog" in str(place):
            raise UnreadablePath(path=str(place), reason="Input/output error")
        return opened(place)

    for name in OPENS:
        monkeypatch.setattr(Place, name, refuse)
    compared = compare(open_store(store), before, jobs=1)
    assert ({SECOND: "unread"}, 1) == (_told(compared), compared.unread)
    assert f"{SECOND} could not be read" in compared.verdict


def test_grown(store: Path, tmp_path: Path) -> None:
    """A log that went on holds what it held then."""
    earlier = tmp_path / "earlier"
    shutil.copytree(store, earlier)
    _grow(earlier)
    before = _manifest(earlier)
    compared = compare(open_store(store), before, jobs=1)
    last = plain_store.records(store)[-1].path
    assert {str(last.relative_to(store)): "grown"} == _told(compared)
    assert f"the log is unchanged up to {before.log_end}, and goes on" in compared.verdict


def test_part(store: Path) -> None:
    """A part of a store is refused: all else would look as if it were gone."""
    with pytest.raises(UnsupportedStore):
        compare(open_store(store / "commitlog"), _manifest(store))


def test_command(store: Path, tmp_path: Path) -> None:
    """Either side may be the manifest, and the exit code is the answer."""
    book = tmp_path / "book.json"
    assert 0 == rmqtool("validate", store, "--manifest", book).code
    assert 0 == rmqtool("diff", store, book).code
    inflict.zero_sector()(store)
    for sides in ((store, book), (book, store)):
        done = rmqtool("diff", *sides, "--format", "jsonl")
        assert 1 == done.code
        assert SECOND.encode() in done.out
    assert 2 == rmqtool("diff", store, book, "--section", "verdict").code
    assert 2 == rmqtool("diff", store, book, "--merge-offsets", "--output", tmp_path / "o").code
    book.write_bytes(book.read_bytes()[:200])
    assert 2 <= rmqtool("diff", store, book).code <= 3
