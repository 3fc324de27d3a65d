"""Where a user's path or URI leads, apart from `remote`, so that a local path loads none of it."""

from __future__ import annotations

import os
import re
from typing import Final

from rmqtool.errors import UnreadablePath
from rmqtool.store.place import SEPARATOR, Place, is_remote

WILDCARDS: Final = "*?["  # of a pattern, which stands for several stores
FIRST_LETTERS: Final = (".t", ".zip")  # of the endings of archives


def place_of(path: str | os.PathLike[str]) -> Place:
    """Give the place of a path or a URI as a user wrote it; links are followed, here only.

    Names in a URI need not be escaped: a `%` that is not followed by two hexadecimal digits is a
    `%`, as in `%RETRY%group`, and a blank is a blank.

    Raises:
        UnreadablePath: no such kind of file system, or the path or URI is malformed.
    """
    if SEPARATOR in os.fspath(path):
        from rmqtool.store.archive import inside

        if (place := inside(os.fspath(path))) is not None:
            return place
    if not isinstance(path, str) or not Place.is_uri(path):
        return Place.of(path)
    from rmqtool.store.remote import place_of_uri

    return place_of_uri(path)


def archive_of(path: str) -> tuple[str, str] | None:
    """Take a path apart into an archive and what is inside; None where no archive is meant.

    An archive is meant by its ending, before `!` or the end of the path.
    """
    if not any(word in path.lower() for word in FIRST_LETTERS):
        return None  # to compile a pattern takes longer than all else that is asked of a path
    from rmqtool.store.containers import ENDINGS

    longest_first = sorted(ENDINGS, key=len, reverse=True)
    for ending in re.finditer("|".join(map(re.escape, longest_first)), path, re.IGNORECASE):
        rest = path[ending.end() :]
        if not rest or rest.startswith(SEPARATOR):
            return path[: ending.end()], rest.removeprefix(SEPARATOR).strip("/")
    return None


def is_inside(path: object) -> bool:
    """Say whether a path lies inside of an archive that is open."""
    if SEPARATOR not in str(path):
        return False
    from rmqtool.store.archive import inside

    return inside(str(path)) is not None


def is_pattern(path: str) -> bool:
    """Tell whether a path stands for several: it has a wildcard, and nothing is there as it is."""
    if not any(wildcard in without_options(path)[0] for wildcard in WILDCARDS):
        return False
    try:
        return place_of(path).stat() is None
    except UnreadablePath:
        return True


def without_options(path: str) -> tuple[str, str]:
    """Take options off a URI: `s3://bucket/a?/b` has none, `s3://bucket/a?region=x` has."""
    if not is_remote(path):
        return path, ""
    options = re.search(r"\?(?=[A-Za-z_]\w*=)", path)
    return (path[: options.start()], path[options.start() :]) if options else (path, "")
