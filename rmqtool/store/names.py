"""Which names may become file names, and which of a store are ours.

Names come from data, and data may be hostile.

A topic is a directory of a store. One that is a path, or that a file system cannot hold, must
never lead out of the output: it is reported and left out.
"""

from __future__ import annotations

import os
from typing import Final

from rmqtool.errors import RepairError, Trouble

UNDO_PREFIX: Final = "rmqtool-undo-"
DISCARD_PREFIX: Final = "rmqtool-discard-"
OURS: Final = (UNDO_PREFIX, DISCARD_PREFIX)  # what edits in place leave in a store
LONGEST_NAME: Final = 255  # bytes; NAME_MAX of every common file system


def name_problem(name: str) -> str | None:
    """Say why a text cannot be the name of a file or a directory; None when it can."""
    if name in {"", ".", ".."}:
        return "is not a file name" if name else "is empty"
    if "/" in name:
        return "contains a slash"
    if "\0" in name:
        return "contains a NUL"
    try:
        length = len(os.fsencode(name))
    except UnicodeEncodeError:
        return "cannot be encoded as a file name"
    if length > LONGEST_NAME:
        return f"has {length:,} bytes, and a file name at most {LONGEST_NAME}"
    return None


def relative_path(parts: tuple[str, ...]) -> str:
    """Join the parts of a path below some directory.

    Raises:
        RepairError: a part could lead elsewhere, or cannot be a file name.
    """
    for part in parts:
        problem = name_problem(part)
        if problem is not None:
            shown = ascii("/".join(parts))
            raise RepairError(path=shown, reason=f"{part!a} {problem}", trouble=Trouble.NAME)
    if not parts:
        raise RepairError(path="''", reason="no file name was given", trouble=Trouble.NAME)
    return "/".join(parts)
