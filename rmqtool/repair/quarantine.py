"""Keep the original bytes of what is replaced, outside of the store, as evidence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from rmqtool.repair.plans import Action, Edit, Plan
from rmqtool.repair.verifying import replaced
from rmqtool.writing.output import OutputDirectory

if TYPE_CHECKING:
    from rmqtool.writing.output_tree import OutputTree

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
