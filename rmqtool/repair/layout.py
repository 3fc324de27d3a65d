"""Edits of directories: what no broker can load is taken out, and kept in the undo directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings.registry_layout import FS_DIR, FS_NAME
from rmqtool.repair.plans import place_of
from rmqtool.store.segment import start_of

if TYPE_CHECKING:
    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding
    from rmqtool.repair.writer import EditWriter


def edit(writer: EditWriter, inspection: Inspection, found: list[Finding]) -> None:
    """Take out files with foreign names, and directories among mapped files."""
    for one in found:
        name = one.path.rpartition("/")[2]
        # A log under a wrong name is for a person to decide; a queue is made anew from the log.
        is_foreign = one.code == FS_NAME and (start_of(name) is None or one.topic is not None)
        if not (is_foreign or one.code == FS_DIR):
            continue
        place = place_of(inspection.store.root, one.path)
        if place.stat() is not None:
            reason = "no broker can load this from here; it is kept in the undo directory"
            writer.remove(place.location, one.code, reason)
