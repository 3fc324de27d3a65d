"""Whether a store has already just what is staged, so that nothing has to change."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from rmqtool.writing.directory import Spot
from rmqtool.writing.staging import write_errors

if TYPE_CHECKING:
    from rmqtool.writing.directory import Directory
    from rmqtool.writing.output_tree import OutputTree, OutputTreeFile

_COMPARED_BYTES: Final = 1 << 20


def has_tree(tree: OutputTree, spot: Spot) -> bool:
    """Whether a tree on the disk has the same names, lengths, bytes, and mtimes asked for."""
    with write_errors(spot):
        facts = spot.facts()
        if facts is None or not stat.S_ISDIR(facts.st_mode):
            return False
        files, directories = tree.contents()
        names = {True: set[str](), False: set[str]()}
        with spot.directory.enter(spot.name) as present:
            if not _listed(present, "", names):
                return False
            if names[True] != directories or names[False] != files.keys():
                return False
            return all(_has_below(file, present, name) for name, file in sorted(files.items()))


def has_content(file: OutputTreeFile, spot: Spot) -> bool:
    """Whether a file on the disk is what was staged: length, mtime where asked for, bytes."""
    facts = spot.facts()
    if facts is None or not stat.S_ISREG(facts.st_mode) or facts.st_size != file.size:
        return False
    if file.mtime_ns not in {None, facts.st_mtime_ns}:
        return False
    handle = spot.directory.open_file(spot.name)
    try:
        with file.writing() as staged:
            position = 0
            while chunk := os.pread(staged, _COMPARED_BYTES, position):
                if chunk != os.pread(handle, _COMPARED_BYTES, position):
                    return False
                position += len(chunk)
    finally:
        os.close(handle)
    return True


def _has_below(file: OutputTreeFile, present: Directory, path: str) -> bool:
    *above, name = path.split("/")
    with present.enter(*above) as directory:
        return has_content(file, Spot(directory, name))


def _listed(directory: Directory, relative: str, names: dict[bool, set[str]]) -> bool:
    """Collect the names below a directory; False when one is neither file nor directory."""
    for entry, facts in directory.entries():
        name = f"{relative}{entry}"
        is_directory = stat.S_ISDIR(facts.st_mode)
        if not is_directory and not stat.S_ISREG(facts.st_mode):
            return False
        names[is_directory].add(name)
        if is_directory:
            with directory.enter(entry) as below:
                if not _listed(below, f"{name}/", names):
                    return False
    return True
