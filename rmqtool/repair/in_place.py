"""Plan and repair under the broker's lock, so that nothing changes in between."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Protocol

from rmqtool.repair.applying import apply_in_place
from rmqtool.repair.plans import Action, Edit, Plan
from rmqtool.repair.verifying import replaced
from rmqtool.store.broker_conf import places_elsewhere
from rmqtool.store.place import Place
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.output import OutputDirectory
from rmqtool.writing.undo import resume

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.repair.options import RepairOptions
    from rmqtool.repair.plans import Plan
    from rmqtool.writing.output_tree import OutputTree


class Keeping(Protocol):
    """Where the original bytes are to be kept; None for nowhere."""

    @property
    def quarantine(self) -> str | None: ...  # noqa: D102


def planned_in_place(
    options: RepairOptions,
    make: Callable[[], Plan],
    keeping: Keeping,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Plan, str]:
    """Finish what a killed run left, make the plan, and make its edits.

    Args:
        options: what is asked.
        make: gives the plan, once the lock is held.
        keeping: where the original bytes are to be kept.
        say: told of an interrupted run that is finished first.

    Returns:
        The plan, and the name of the undo directory; empty when nothing had to be done.

    Raises:
        StoreLocked: a broker uses the store.
        PlanMismatch: a plan from a file was made for another store.
        WriteFailed: the system refused; the store is as it was.
        EditUnfinished: the same half way; the store is not.
    """
    elsewhere = places_elsewhere(Place.of(options.store), options.broker_conf)
    with StoreLock(options.store, elsewhere) as lock:
        for resumed in resume(lock):
            say(resumed.sentence)
        plan = make()
        if keeping.quarantine is not None and plan.edits:
            quarantine(plan, keeping.quarantine)
        return plan, apply_in_place(plan, lock)


# Keep the original bytes of what is replaced, outside of the store, as evidence.


LIST: Final = "quarantine.jsonl"


def quarantine(plan: Plan, directory: str) -> int:
    """Write the bytes that a plan replaces into a new directory, and a list of them.

    Each stretch is a file of its own, `0001.bin` and on; `quarantine.jsonl` says where it lay, its
    sha256 and why it was replaced.

    Returns:
        How many stretches there are.

    Raises:
        RepairError: what is replaced cannot be read, or is outside of the store.
        OutputExists: the directory is there.
        WriteFailed: the system refused; nothing is left of it.
    """
    kept = [edit for edit in plan.edits if edit.length and edit.old]
    with OutputDirectory(directory, mode=0o700) as tree:  # of files that few may read
        lines = []
        for number, edit in enumerate(kept, 1):
            name = f"{number:04}.bin"
            _copy(tree, plan, edit, name)
            facts = {
                "file": name,
                "path": edit.path,
                "position": edit.position,
                "length": edit.length,
                "sha256": edit.old,
                "code": edit.code,
                "reason": edit.reason,
                "lost": edit.lost,
                "action": str(Action(edit.action)),
            }
            lines.append(json.dumps(facts) + "\n")
        raw = "".join(lines).encode()
        tree.file(LIST, size=len(raw), pieces=[(0, raw)])
    return len(kept)


def _copy(tree: OutputTree, plan: Plan, edit: Edit, name: str) -> None:
    copied = tree.file(name, size=edit.length)
    done = 0
    with copied.writing() as handle:
        for raw in replaced(plan, edit):
            copied.put(handle, done, raw)
            done += len(raw)
