"""A store from elsewhere may hold journals made to lead astray; none leads out of the store."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqtool.errors import PlanMismatch, RepairError
from rmqtool.writing.journal import JOURNAL_NAME
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.undo import resume, undo
from tests.evidence import snapshot
from tests.store.edited_store import QUEUE, SEGMENT, apply, contents, edit, make_store, traces
from tests.store.journals import resealed


def copied(root: Path, rewrite: Callable[[str], str]) -> Path:
    """Give a copy of a store, as a guest brings it, its journals rewritten."""
    target = root.with_name("guest")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(root, target, symlinks=True)
    for journal in target.glob(f"*/{JOURNAL_NAME}"):
        text = journal.read_text()
        journal.unlink()
        journal.write_text(resealed(rewrite(text)))
    return target


def refused(root: Path, match: str) -> None:
    """Demand that neither way is taken."""
    with StoreLock(root) as lock, pytest.raises(RepairError, match=match):
        undo(lock)


def test_honest_copy(quick_path: Path) -> None:
    """A copy of a whole store can be taken back, too: all of it lies below the root."""
    root = make_store(quick_path / "store")
    before = traces(root)
    edit(root)
    guest = copied(root, str)
    with StoreLock(guest) as lock:
        undo(lock)
    assert before == traces(guest)


def without_end(text: str) -> str:
    """Give a journal as if its run had been killed before the end."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if '"done"' not in line)


@pytest.mark.parametrize("action", [undo, resume])
def test_copy_of_interrupted(quick_path: Path, action: Callable[[StoreLock], object]) -> None:
    """A copy of a store that an edit was killed in goes either way, with other inodes, too."""
    root = make_store(quick_path / "store")
    before = contents(root)
    edit(root)
    after = contents(root)
    guest = copied(root, without_end)
    with StoreLock(guest) as lock:
        action(lock)
    assert contents(guest) == (before if action is undo else after)


@pytest.mark.parametrize("path", ["{}/secret", "link/secret", "log/../../secret/x", "../secret"])
@pytest.mark.parametrize("what", [f'"{QUEUE}"', f'"{SEGMENT}"'])
def test_path_leads_out(quick_path: Path, path: str, what: str) -> None:
    """Neither a swap nor an edit reaches what an absolute path, a link or `..` names."""
    root = make_store(quick_path / "store")
    (quick_path / "secret").mkdir()
    (quick_path / "secret/x").write_text("mine")
    (root / "link").symlink_to(quick_path)
    edit(root)
    before = snapshot(quick_path / "secret")

    def rewrite(text: str) -> str:
        return text.replace(what, f'"{path.format(quick_path)}"')

    guest = copied(root, rewrite)
    refused(guest, "outside|not a file name|changed since|not followed")
    guest = copied(root, lambda text: without_end(rewrite(text)))
    refused(guest, "outside|not a file name|changed since|not followed")
    with StoreLock(guest) as lock, pytest.raises(RepairError):
        resume(lock)
    assert before == snapshot(quick_path / "secret")


@pytest.mark.parametrize("name", ["{}/secret", "../../../secret"])
def test_aside_leads_out(quick_path: Path, name: str) -> None:
    """What is swapped comes from the undo directory, nothing else."""
    root = make_store(quick_path / "store")
    (quick_path / "secret").mkdir()
    apply(root, lambda edits: edits.remove("abort"))
    guest = copied(root, lambda text: text.replace('"0001"', f'"{name.format(quick_path)}"'))
    refused(guest, "outside|slash")
    assert (quick_path / "secret").is_dir()


def test_links_of_ours(quick_path: Path) -> None:
    """A link in place of a directory of ours is not followed: not read, not emptied."""
    root = make_store(quick_path / "store")
    mine = edit(root).undo_directory.rename(quick_path / "mine")
    (root / "rmqtool-undo-20200101T000000Z").symlink_to(mine)
    (root / "rmqtool-discard-20200101T000000Z").symlink_to(mine)
    before = snapshot(mine)
    refused(root, "no journal")
    with StoreLock(root) as lock, pytest.raises(PlanMismatch):
        resume(lock)
    (root / "rmqtool-undo-20200101T000000Z").unlink()
    (mine / "aside").rename(quick_path / "aside")
    (mine / "aside").symlink_to(quick_path / "aside")
    mine.rename(root / "rmqtool-undo-20200101T000000Z")
    refused(root, "no journal")
    with StoreLock(root) as lock, pytest.raises(PlanMismatch):
        resume(lock)
    kept = {f"aside/{name}" for name in snapshot(quick_path / "aside") if name != "."}
    assert kept == {name for name in before if name.startswith("aside/")}


def test_outside_of_guest(quick_path: Path) -> None:
    """What a discarded journal of a guest names elsewhere stays."""
    root = make_store(quick_path / "store")
    precious = quick_path / "rmqtool-undo-x"
    precious.mkdir()
    discard = root / "rmqtool-discard-20200101T000000Z"
    discard.mkdir()
    head = '{"journal": 1, "command": "", "time": "", "root_mtime_ns": 0, "inode": 1, "lock": null}'
    (discard / JOURNAL_NAME).write_text(f'{head}\n{{"outside": "{precious}"}}\n')
    with StoreLock(root) as lock:
        assert [] == resume(lock)
    assert (True, False) == (precious.exists(), discard.exists())
