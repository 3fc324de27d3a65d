"""A file that cannot be read makes the result incomplete; all the rest is checked, rightly."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from rmqtool.check.report import sentences
from rmqtool.check.validate import Checks
from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.registry_layout import FS_READ
from rmqtool.info.survey import Survey
from rmqtool.queues import short
from rmqtool.queues.lone_kernels import QUEUE_ID
from rmqtool.queues.lone_queues import LoneQueues, lone_queues
from rmqtool.store.place import OpenFile, Place
from rmqtool.store.tree import open_store
from tests.check.validation import preceded, run
from tests.store.faults import bad_sector
from tests.stores import broker_conf, fixture_store, held_by_another

TRAFFIC: Final = "rocketmq-5.3.3-traffic"
BATCH: Final = "rocketmq-5.3.3-batch-queue"
EXT: Final = "rocketmq-4.9.3-ext"
TIMER: Final = "rocketmq-5.3.3-timer"
DLEDGER: Final = "rocketmq-5.3.3-dledger"
COMBINED: Final = "rocketmq-5.5.0-rocksdb-combined"

# One file of each kind, and a directory of each.
FILES: Final = (
    (TRAFFIC, "commitlog/00000000000000131072"),
    (TRAFFIC, "consumequeue/traffic-orders/1/00000000000000002000"),
    (TRAFFIC, "index/*"),
    (TRAFFIC, "checkpoint"),
    (TRAFFIC, "config/topics.json"),
    (TRAFFIC, "config/consumerOffset.json"),
    (BATCH, "batchconsumequeue/batch-queue/0/00000000000000000920"),
    (EXT, "consumequeue_ext/ext-orders/0/00000000000000000000"),
    (TIMER, "timerlog/00000000000000001040"),
    (TIMER, "timerwheel"),
    (TIMER, "config/timercheck"),
    (TIMER, "consumequeue/rmq_sys_wheel_timer/0/00000000000000000000"),
    (COMBINED, "consumequeue/combined-orders/2/00000000000000000000"),
    (DLEDGER, "dledger-n0/data/00000000000000000000"),
    (DLEDGER, "dledger-n0/index/00000000000000000000"),
)
DIRECTORIES: Final = (
    (TRAFFIC, "commitlog"),
    (TRAFFIC, "consumequeue"),
    (TRAFFIC, "consumequeue/traffic-orders"),
    (TRAFFIC, "consumequeue/traffic-orders/1"),
    (TRAFFIC, "index"),
    (TRAFFIC, "config"),
    (BATCH, "batchconsumequeue/batch-queue/0"),
    (EXT, "consumequeue_ext/ext-orders/0"),
    (TIMER, "timerlog"),
)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _leads_nowhere(path: Path) -> None:
    path.symlink_to("nowhere")


def _directory(path: Path) -> None:
    path.mkdir()


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _ids(pairs: tuple[tuple[str, str], ...]) -> list[str]:
    return [path for _, path in pairs]


def _damage(store: Path, name: str) -> tuple[list[str], int, list[str]]:
    """Give what is blamed, the exit code, and what could not be read."""
    findings, exit_code, summary = run(store, "full", broker_conf(name))
    told = [finding.path for finding in findings if finding.code == "FS-READ"]
    assert len(set(told)) == len(told)  # once, however many checks want it
    blamed = [
        finding
        for finding in findings
        if finding.severity is not Severity.NOTE and finding.code != "FS-READ"
    ]
    unread = [*summary.account.unread]
    return (
        [f"{finding.code} {finding.path} {finding.message}" for finding in blamed],
        exit_code,
        unread,
    )


@pytest.mark.parametrize("put", [_loop, _directory, _pipe])
@pytest.mark.parametrize(("name", "pattern"), FILES, ids=_ids(FILES))
def test_something_else_in_place_of_a_file(
    name: str, pattern: str, put: Callable[[Path], None], copy_of: Callable[[str], Path]
) -> None:
    """A link to itself, a directory, a pipe: exit 3, it is named, and nothing else is blamed."""
    store = copy_of(name)
    path = max(store.glob(pattern))
    path.unlink()
    put(path)
    damaged, exit_code, unread = _damage(store, name)
    assert [] == damaged
    assert 3 == exit_code
    assert str(path.relative_to(store)) in unread


@pytest.mark.parametrize("put", [_loop, _leads_nowhere])
@pytest.mark.parametrize(("name", "path"), DIRECTORIES, ids=_ids(DIRECTORIES))
def test_link_in_place_of_a_directory(
    name: str, path: str, put: Callable[[Path], None], copy_of: Callable[[str], Path]
) -> None:
    """A link that leads nowhere, or to itself: exit 3, it is named, and nothing else is blamed."""
    store = copy_of(name)
    shutil.rmtree(store / path)
    put(store / path)
    assert ([], 3, [path]) == _damage(store, name)


@pytest.mark.parametrize(("name", "pattern"), FILES, ids=_ids(FILES))
def test_bad_sector(name: str, pattern: str, copy_of: Callable[[str], Path]) -> None:
    """What opens but cannot be read is named, and nothing else is blamed."""
    store = copy_of(name)
    bad = max(store.glob(pattern))
    with bad_sector(bad):
        assert ([], 3, [str(bad.relative_to(store))]) == _damage(store, name)


@pytest.mark.parametrize(("name", "path"), [*FILES, *DIRECTORIES], ids=_ids((*FILES, *DIRECTORIES)))
def test_forbidden(
    name: str, path: str, copy_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may not be opened is named, and nothing else is blamed."""
    store = copy_of(name)
    forbidden = str(max(store.glob(path)))
    real_open, real_entries, real_names = Place.open, Place.entries, Place.names
    real_read = Place.read

    def check(place: Place) -> None:
        if place.location == forbidden:
            raise UnreadablePath(path=place.location, reason="permission denied")

    def open_it(place: Place) -> OpenFile:
        check(place)
        return real_open(place)

    def entries(place: Place) -> object:
        check(place)
        return real_entries(place)

    def names(place: Place) -> object:
        check(place)
        return real_names(place)

    def read(place: Place, limit: int) -> bytes:
        check(place)
        return real_read(place, limit)

    def lone(places: Sequence[Place], length: int, jobs: int | None) -> Iterator[LoneQueues]:
        for place, queues in zip(places, lone_queues(places, length, jobs), strict=True):
            numbers = queues.facts[:, QUEUE_ID].tolist()
            directories = [f"{place.location}/{number}/" for number in numbers]
            is_read = any(f"{forbidden}/".startswith(directory) for directory in directories)
            yield LoneQueues(queues.facts[:0], b"") if is_read else queues

    monkeypatch.setattr(Place, "open", open_it)
    monkeypatch.setattr(Place, "open_listed", open_it)
    monkeypatch.setattr(Place, "entries", entries)
    monkeypatch.setattr(Place, "names", names)
    monkeypatch.setattr(Place, "read", read)
    monkeypatch.setattr(short, "lone_queues", lone)
    damaged, exit_code, unread = _damage(store, name)
    assert [] == damaged
    assert 3 == exit_code
    assert [one for one in unread if not forbidden.endswith(one)] == []  # nothing else is named
    assert unread


@pytest.mark.parametrize(("name", "pattern"), FILES, ids=_ids(FILES))
def test_shrinking(
    name: str, pattern: str, copy_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is cut while it is read ends the matter, not the process."""
    store = copy_of(name)
    shrinks = str(max(store.glob(pattern)))
    real_open = Place.open

    def open_and_cut(place: Place) -> OpenFile:
        file = real_open(place)
        if place.location == shrinks:
            os.truncate(shrinks, 100)
        return file

    monkeypatch.setattr(Place, "open", open_and_cut)
    findings, exit_code, summary = run(store, "deep", broker_conf(name))
    assert summary.is_finished
    assert exit_code in {0, 1, 3}
    assert findings is not None


@pytest.mark.parametrize("level", ["quick", "full"])
def test_forbidden_log(
    level: str, copy_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that may not be listed is not said to be missing."""
    store = copy_of(TRAFFIC)
    real = Place.entries

    def entries(place: Place) -> object:
        if place.name == "commitlog":
            raise UnreadablePath(path=place.location, reason="permission denied")
        return real(place)

    monkeypatch.setattr(Place, "entries", entries)
    _, _, summary = run(store, level)
    reasons = {why for _, why in summary.account.left_out if "commitlog" in why}
    assert {"the commitlog cannot be read"} == reasons


def test_link_to_a_sound_file(copy_of: Callable[[str], Path]) -> None:
    """Evidence behind a link may be somebody else's: it is named, not followed."""
    store = copy_of(TRAFFIC)
    path = store / "commitlog" / "00000000000000131072"
    shutil.move(path, store.parent / "elsewhere")
    path.symlink_to(store.parent / "elsewhere")
    damaged, exit_code, unread = _damage(store, TRAFFIC)
    assert [] == damaged
    assert 3 == exit_code
    assert ["commitlog/00000000000000131072"] == unread


@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize(
    "directory", ["commitlog", "consumequeue/traffic-orders/1", "index", "between two others"]
)
def test_expired_meanwhile(
    directory: str, quick_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_live: bool
) -> None:
    """A running broker deletes the oldest files: those were not unreadable. Others are."""
    store = fixture_store(TRAFFIC, quick_path)
    expires = directory != "between two others"
    files = sorted((store / (directory if expires else "commitlog")).iterdir())
    if len(files) == 1:  # what expires is never the only one
        shutil.copy(files[0], files[0].with_name(f"{int(files[0].name) + 1:017}"))
    gone = files[0] if expires else files[1]

    read = Checks._log  # noqa: SLF001 - between listing and reading
    monkeypatch.setattr(Checks, "_log", preceded(gone.unlink, read))
    with ExitStack() as stack:
        if is_live:
            stack.enter_context(held_by_another(str(store)))
        findings, code, summary = run(store, conf=broker_conf(TRAFFIC))
    path = gone.relative_to(store).as_posix()
    named = {finding.path for finding in findings if finding.code == FS_READ}
    if is_live and expires:
        assert (set(), {path}, {}) == (named, summary.account.expired, summary.account.unread)
        assert code != 3
        assert "1 file expired" in " ".join(sentences(summary))
    else:
        assert (3, {path}, set()) == (code, named, summary.account.expired)


@pytest.mark.parametrize("name", ["00000000000000000000", "00000000000000131072"])
def test_expired_in_an_overview(name: str, quick_path: Path) -> None:
    """The same for `info`, which lists and reads later, too: the oldest file, not one between."""
    store = fixture_store(TRAFFIC, quick_path)
    with held_by_another(str(store)):
        survey = Survey(open_store(str(store)))
        gone = store / "commitlog" / name
        gone.unlink()
        with pytest.raises(UnreadablePath) as error, Place.of(gone).open():
            pass
        survey.problem(error.value)
    assert bool(survey.problems) == (name != "00000000000000000000")
