"""An edit in place is made completely or not at all, and can be taken back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqtool.errors import PlanMismatch, RepairError
from rmqtool.writing.edits import Transaction
from rmqtool.writing.journal import State
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.undo import resume, undo
from rmqtool.writing.workplace import Workplace
from tests.store.edited_store import (
    FILE,
    QUEUE,
    SEGMENT,
    apply,
    change,
    contents,
    edit,
    edits_of,
    leftovers,
    make_store,
    traces,
)

HEAD = '{"journal": 1, "command": "", "time": "", "root_mtime_ns": 0, "inode": 0, "lock": null}'
CQ_FILE = f"{QUEUE}/{FILE}"


def test_edit(quick_path: Path) -> None:
    """Each change is there afterwards, and what was not mentioned is as it was."""
    root = make_store(quick_path / "store")
    before = traces(root)
    edits = edit(root)
    after = traces(root)
    segment = bytearray(bytes(range(256)) * 8)
    segment[100:106], segment[300:350] = b"bridge", b"\1" * 50
    assert segment[:2000] == (root / SEGMENT).read_bytes()
    assert before[SEGMENT].mtime_ns == after[SEGMENT].mtime_ns
    queue = root / QUEUE / FILE
    assert (b"\0" * 20 + b"new unit").ljust(400, b"\0") == queue.read_bytes()
    assert 1_700_000_000_001_000_000 == queue.stat().st_mtime_ns
    assert bytes(10) == (root / "consumequeue/new/1" / FILE).read_bytes()
    assert b"new".ljust(4096, b"\0") == (root / "checkpoint").read_bytes()
    assert "{}" == (root / "config/delayOffset.json").read_text()
    assert 1_700_000_000_000_000_000 == after["config/topics.json"].mtime_ns
    assert before["config/topics.json"].digest == after["config/topics.json"].digest
    added = {f"consumequeue/new/1/{FILE}", "consumequeue/new", "consumequeue/new/1"}
    assert {"abort"} == before.keys() - after.keys()
    assert added | {"config/delayOffset.json"} == after.keys() - before.keys()
    assert before["lock"] == after["lock"]
    assert (True, [edits.undo_directory.name]) == (edits.is_changing, leftovers(root))


def test_same_edit_again(quick_path: Path) -> None:
    """The same edit again changes nothing, times included, and leaves nothing behind."""
    root = make_store(quick_path / "store")
    edit(root)
    before, ours = traces(root), leftovers(root)
    assert not edit(root).is_changing
    assert (before, ours) == (traces(root), leftovers(root))


def test_undo(quick_path: Path) -> None:
    """What was taken back is as it was: names, bytes, lengths, modes, mtimes, of trees, too."""
    root = make_store(quick_path / "store")
    before = traces(root)
    edit(root)
    with StoreLock(root) as lock:
        assert "edit" == undo(lock).command
    assert (before, []) == (traces(root), leftovers(root))


def test_undo_of_several(quick_path: Path) -> None:
    """The latest edit is taken back first; none can be pulled from below another."""
    root = make_store(quick_path / "store")
    states = [traces(root)]
    names = []
    for text in (b"one", b"two", b"three"):
        with StoreLock(root) as lock, Transaction(lock, command="x") as edits:
            edits.write(SEGMENT, 0, text)
        names.append(edits.undo_directory.name)
        states.append(traces(root))
    assert sorted(set(names)) == names
    with StoreLock(root) as lock:
        with pytest.raises(PlanMismatch, match=f"{names[2]} has to be undone first"):
            undo(lock, names[0])
        for state in (states[2], states[1], states[0]):
            undo(lock)
            assert contents(root) == {
                name: (trace.size, trace.digest) for name, trace in state.items() if trace.digest
            }
        with pytest.raises(RepairError, match="no edit"):
            undo(lock)
    assert states[0] == traces(root)


def test_undo_of_unknown(quick_path: Path) -> None:
    """An edit that is not there is said to be not there."""
    root = make_store(quick_path / "store")
    edit(root)
    with StoreLock(root) as lock, pytest.raises(RepairError, match="there is no edit other"):
        undo(lock, "other")


@pytest.mark.parametrize(
    "path",
    [SEGMENT, f"{QUEUE}/{FILE}", "checkpoint", "config/delayOffset.json", "consumequeue/new/x"],
)
def test_undo_refuses_changed(quick_path: Path, path: str) -> None:
    """What anybody changed after an edit is not overwritten by taking the edit back."""
    root = make_store(quick_path / "store")
    edit(root)
    with (root / path).open("r+b" if (root / path).exists() else "wb") as file:
        file.seek(102)
        file.write(b"broker")
    before = traces(root)
    with StoreLock(root) as lock, pytest.raises(PlanMismatch):
        undo(lock)
    assert before == traces(root)


def test_undo_refuses_damaged_copy(quick_path: Path) -> None:
    """Saved bytes that are no longer what was saved are not put back."""
    root = make_store(quick_path / "store")
    saved = edit(root).undo_directory / "bytes.old"
    saved.write_bytes(b"?" + saved.read_bytes()[1:])
    with StoreLock(root) as lock, pytest.raises(PlanMismatch, match="saved bytes"):
        undo(lock)


def test_undo_refuses_after_broker(quick_path: Path) -> None:
    """A broker that ran since has written `lock`, and then there is no way back."""
    root = make_store(quick_path / "store")
    name = edit(root).undo_directory.name
    (root / "lock").write_text("lock")
    with StoreLock(root) as lock, pytest.raises(PlanMismatch, match=name):
        undo(lock)


def test_error_in_block(quick_path: Path) -> None:
    """An error while an edit is collected leaves the store as it was, and nothing behind."""
    root = make_store(quick_path / "store")
    before = traces(root)
    with pytest.raises(ZeroDivisionError):
        apply(root, change, lambda _: 1 // 0)
    assert (before, []) == (traces(root), leftovers(root))


@pytest.mark.parametrize(
    "path",
    ["../x", "/etc/../x\0", "a//b", "", "commitlog/..", "consumequeue/" + "x" * 256, "a/./b"],
)
def test_hostile_path(quick_path: Path, path: str) -> None:
    """A path that leads out of the store, or that no file can have, is refused."""
    root = make_store(quick_path / "store")
    before = traces(root)
    with pytest.raises(RepairError):
        apply(root, lambda edits: edits.replace_file(path, size=1))
    assert before == traces(root)


@pytest.mark.parametrize("below", ["../secret/x", "..", "./x"])
def test_hostile_path_elsewhere(quick_path: Path, below: str) -> None:
    """A path does not lead out of a place that the configuration names, either."""
    root = make_store(quick_path / "store")
    for name in ("log", "secret"):
        (quick_path / name).mkdir()
    place = str(quick_path / "log")
    with StoreLock(root, (place,)) as lock:
        work = Workplace(lock.directory, lock.directory, lock.elsewhere)
        with work.spot(f"{place}/x") as spot:
            assert (place, "x") == (spot.directory.path, spot.name)
        with pytest.raises(RepairError, match="is not a file name"):
            work.spot(f"{place}/{below}").__enter__()


def test_link_below_root(quick_path: Path) -> None:
    """A link below the root is not followed."""
    root = make_store(quick_path / "store")
    (root / "consumequeue/evil").symlink_to(quick_path)
    with pytest.raises(RepairError, match="is a link"):
        apply(root, lambda edits: edits.replace_file("consumequeue/evil/x", size=1))


def test_link_in_root(quick_path: Path) -> None:
    """A directory that a link stands for is edited where it is if that place is named, and undone.

    If it is not named, nothing is touched.
    """
    root = make_store(quick_path / "store")
    places = [quick_path / name for name in ("consumequeue", "commitlog")]
    for place in places:
        (root / place.name).rename(place)
        (root / place.name).symlink_to(place)
    before, elsewhere = traces(root), traces(quick_path / "consumequeue")
    with pytest.raises(RepairError, match="no --broker-conf names"):
        edit(root, places[1])
    assert (before, elsewhere) == (traces(root), traces(quick_path / "consumequeue"))
    edit(root, *places)
    assert (root / "consumequeue").is_symlink()
    assert b"new unit" == (quick_path / QUEUE / FILE).read_bytes()[20:28]
    assert b"bridge" == (quick_path / SEGMENT).read_bytes()[100:106]
    with StoreLock(root) as lock, pytest.raises(RepairError, match="no --broker-conf names"):
        undo(lock)
    with StoreLock(root, tuple(map(str, places))) as lock:
        undo(lock)
    assert (before, elsewhere) == (traces(root), traces(quick_path / "consumequeue"))


def test_other_file_system(tmp_path: Path, quick_path: Path) -> None:
    """What a link places on another file system is swapped there, beside it, and so is undone."""
    if tmp_path.stat().st_dev == quick_path.stat().st_dev:
        pytest.skip("there is only one file system here")
    root, disk = make_store(quick_path / "store"), tmp_path / "disk"
    elsewhere = make_store(disk) / "consumequeue"
    (root / "consumequeue").rename(quick_path / "gone")
    (root / "consumequeue").symlink_to(elsewhere)
    before, queues_before = traces(root), traces(elsewhere)
    edits = edit(root, elsewhere)
    assert b"new unit" == (elsewhere / "orders/0" / FILE).read_bytes()[20:28]
    assert [edits.undo_directory.name] == leftovers(disk)
    with StoreLock(root, (str(elsewhere),)) as lock:
        undo(lock)
    assert (before, queues_before) == (traces(root), traces(elsewhere))
    assert [] == leftovers(disk)


def test_hard_link(quick_path: Path) -> None:
    """A file with a second name is not written to: that name may be somebody's backup."""
    root = make_store(quick_path / "store")
    (quick_path / "backup").hardlink_to(root / SEGMENT)
    with pytest.raises(RepairError, match="hard link"):
        apply(root, lambda edits: edits.write(SEGMENT, 0, b"x"))


@pytest.mark.parametrize(
    ("problem", "steps"),
    [
        ("twice", [lambda e: e.remove(QUEUE), lambda e: e.replace_tree(QUEUE)]),
        ("twice", [lambda e: e.replace_tree("consumequeue"), lambda e: e.remove(QUEUE)]),
        ("twice", [lambda e: e.write(CQ_FILE, 0, b"x"), lambda e: e.replace_tree("consumequeue")]),
        ("twice", [lambda e: e.write(SEGMENT, 9, b"abc"), lambda e: e.write(SEGMENT, 11, b"c")]),
        ("within", [lambda e: e.write(SEGMENT, 2047, b"ab")]),
        ("within", [lambda e: e.set_length(SEGMENT, 9), lambda e: e.write(SEGMENT, 9, b"a")]),
        ("already", [lambda e: e.replace_file("n/a", size=1)] * 2),
        ("already", [lambda e: e.replace_tree("n/a")] * 2),
        ("regular file", [lambda e: e.write(QUEUE, 0, b"x")]),
        ("No such file", [lambda e: e.write("nothing", 0, b"x")]),
    ],
)
def test_impossible(
    quick_path: Path, problem: str, steps: list[Callable[[Transaction], object]]
) -> None:
    """Changes that would meet, or that cannot be, are refused before anything is done."""
    root = make_store(quick_path / "store")
    before = traces(root)
    with pytest.raises(RepairError, match=problem):
        apply(root, *steps)
    assert (before, []) == (traces(root), leftovers(root))


def test_extend(quick_path: Path) -> None:
    """A file that was made longer is as short as before when that is taken back."""
    root = make_store(quick_path / "store")
    before = traces(root)
    apply(
        root,
        lambda edits: edits.set_length(SEGMENT, 5000),
        lambda edits: edits.write(SEGMENT, 2040, b"over the old end"),
    )
    assert 5000 == (root / SEGMENT).stat().st_size
    with StoreLock(root) as lock:
        undo(lock)
    assert before == traces(root)


def test_lock_is_needed(quick_path: Path) -> None:
    """Without the store's lock nothing is begun."""
    root = make_store(quick_path / "store")
    lock = StoreLock(root)
    with pytest.raises(RepairError, match="not held"), Transaction(lock, command="x"):
        pass
    assert [] == leftovers(root)


def test_journal(quick_path: Path) -> None:
    """The journal is JSON lines that a person can follow, and lists what can be undone."""
    root = make_store(quick_path / "store")
    path = edit(root).undo_directory
    lines = [json.loads(line) for line in (path / "journal.jsonl").read_text().splitlines()]
    assert "edit" == lines[0]["command"]
    assert ["prepared", "committed", "done"] == [x["state"] for x in lines if "state" in x]
    assert [SEGMENT, QUEUE] == [x["path"] for x in lines if "path" in x][:2]
    assert "CL-CRC at 100" == next(x["reason"] for x in lines if "reason" in x)
    (listed,) = edits_of(root)
    assert (path.name, State.DONE, "edit") == (listed.name, listed.state, listed.command)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        "?",
        "\0",
        '{"journal": 99}',
        '{"journal": 1}',
        f'{HEAD}\n{{"state": "mad"}}',
        f'{HEAD}\n{{"state": ["done"]}}',
        f'{HEAD}\n{{"state": "done"}}',
        f'{HEAD}\n{{"state": "committed", "inodes": [], "directories": {{}}, "lock": null}}',
        f"{HEAD}\n{{}}",
    ],
)
def test_strange_journal(quick_path: Path, text: str) -> None:
    """A journal that is none, or of another version, stops everything: it may be the last copy."""
    root = make_store(quick_path / "store")
    path = edit(root).undo_directory
    (path / "journal.jsonl").write_text(f"{text}\n")
    with StoreLock(root) as lock:
        for action in (undo, resume):
            with pytest.raises(PlanMismatch):
                action(lock)
        with pytest.raises(PlanMismatch), Transaction(lock, command="x"):
            pass
    assert (path / "bytes.old").exists()


def test_journal_of_another_version(quick_path: Path) -> None:
    """A journal that another version wrote is followed in neither way, and that is the reason."""
    root = make_store(quick_path / "store")
    journal = edit(root).undo_directory / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"journal": 2', '"journal": 3'))
    before = traces(root)
    with StoreLock(root) as lock:
        for action in (undo, resume):
            with pytest.raises(PlanMismatch, match="was written by another version of rmqtool"):
                action(lock)
    assert before == traces(root)


def test_lost_journal(quick_path: Path) -> None:
    """A directory of ours without a journal is never removed."""
    root = make_store(quick_path / "store")
    path = edit(root).undo_directory
    (path / "journal.jsonl").unlink()
    with StoreLock(root) as lock:
        for action in (undo, resume):
            with pytest.raises(PlanMismatch, match="has no journal"):
                action(lock)
    assert (path / "bytes.old").exists()


def test_cut_line(quick_path: Path) -> None:
    """A line that a kill cut off does not count: the edit goes on from the line before it."""
    root = make_store(quick_path / "store")
    before = traces(root)
    journal = edit(root).undo_directory / "journal.jsonl"
    raw = journal.read_bytes()
    journal.write_bytes(raw[:-5])
    assert State.COMMITTED == edits_of(root)[0].state
    with StoreLock(root) as lock:
        assert ["finished"] == [resumed.outcome for resumed in resume(lock)]
        undo(lock)
    assert before == traces(root)
