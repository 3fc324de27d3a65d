"""The one way to a block device: a disk or partition that its user names to carve records out of.

All else opens regular files only (`place.Place.open`), so that a device in a store, as a stranger
may have put it there, is never read. `carve` is told the device itself, by its path.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.store.place import OPEN_FLAGS, OpenFile

if TYPE_CHECKING:
    from rmqtool.store.place import Place


def open_device(place: Place) -> OpenFile | None:
    """Open a block device for reading; None where the place is anything else.

    Args:
        place: that a user named; links were followed when it was made.

    Raises:
        UnreadablePath: not permitted, or replaced meanwhile.
    """
    if not place.is_local:
        return None
    try:
        facts = os.lstat(place.location)
        if not stat.S_ISBLK(facts.st_mode):
            return None
        descriptor = os.open(place.location, OPEN_FLAGS)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UnreadablePath(path=str(place), reason=reason, trouble=Trouble.of(error)) from error
    opened = os.fstat(descriptor)
    if not stat.S_ISBLK(opened.st_mode) or opened.st_rdev != facts.st_rdev:
        os.close(descriptor)
        raise UnreadablePath(path=str(place), reason="was replaced while it was opened")
    return OpenFile(place, descriptor, os.lseek(descriptor, 0, os.SEEK_END))
