"""Where an edit in place stages what it will swap in: on the file system of what is replaced."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rmqtool.errors import RepairError
from rmqtool.writing.directory import Directory
from rmqtool.writing.output_tree import OutputTree
from rmqtool.writing.workplace import ASIDE

if TYPE_CHECKING:
    from rmqtool.writing.directory import Spot
    from rmqtool.writing.journal import Journal
    from rmqtool.writing.staging import DiskSync
    from rmqtool.writing.workplace import Workplace


class Asides:
    """The staged trees of one edit: one in the undo directory, and one on each other file system.

    Nobody else can enter them, whoever owns the store.

    Args:
        work: where the edit happens.
        journal: told of those on other file systems before they are made.
        sync: counts the time that the disk takes.
    """

    def __init__(self, work: Workplace, journal: Journal, sync: DiskSync) -> None:
        self._work, self._journal, self._sync = work, journal, sync
        self._trees = {"": OutputTree(work.undo.own(ASIDE), sync)}

    def tree_for(self, path: str, spot: Spot) -> tuple[str, OutputTree]:
        """Give the tree to stage in, and its path; that is empty in the undo directory.

        It must not be in a directory that the broker lists, so it is beside the outermost one.

        Args:
            path: of the store, of what is to be staged.
            spot: where that is.

        Raises:
            RepairError: nothing can be swapped in there.
        """
        device = os.fstat(spot.directory.handle).st_dev
        place = ""
        if device != os.fstat(self._work.root.handle).st_dev:
            above = self._work.beside(path)
            place = f"{above}/{self._work.undo.name}"
            with Directory.at(above or "/") as beside:
                if not above or os.fstat(beside.handle).st_dev != device:
                    reason = "is a file system of its own: nothing can be swapped in; write a copy"
                    raise RepairError(path=str(spot), reason=reason)
                if place not in self._trees:
                    self._journal.append({"outside": place})
                    made = beside.own(self._work.undo.name)
                    self._sync.handle(beside.handle)
                    self._trees[place] = OutputTree(made, self._sync)
        return place, self._trees[place]

    def finish(self) -> None:
        """Bring all that was staged to the disk."""
        for tree in self._trees.values():
            tree.finish()

    def close(self) -> None:
        """Close them."""
        for tree in self._trees.values():
            tree.top.close()
