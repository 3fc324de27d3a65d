"""Where a user's path or URI leads, apart from `remote`, so that a local path loads none of it."""

from __future__ import annotations

import os

from rmqtool.store.archive import OPENED, inside
from rmqtool.store.place import Place


def place_of(path: str | os.PathLike[str]) -> Place:
    """Give the place of a path or a URI as a user wrote it; links are followed, here only.

    Names in a URI need not be escaped: a `%` that is not followed by two hexadecimal digits is a
    `%`, as in `%RETRY%group`, and a blank is a blank.

    Raises:
        UnreadablePath: no such kind of file system, or the path or URI is malformed.
    """
    if OPENED and (found := inside(os.fspath(path))) is not None:
        return found
    if not isinstance(path, str) or not Place.is_uri(path):
        return Place.of(path)
    from rmqtool.store.remote import place_of_uri

    return place_of_uri(path)
