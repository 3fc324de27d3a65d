"""Files that stay open: a store has more of them than a process may open."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rmqtool.store.place import OpenFile
    from rmqtool.store.segment import Segment

OPEN_FILES: Final = 512  # half of what a process may usually have open


class OpenFiles:
    """Files that stay open; a context manager. The one not used for longest is closed first.

    Args:
        limit: how many stay open, or half of what this process may have open if that is less.
    """

    def __init__(self, limit: int = OPEN_FILES) -> None:
        import resource  # in here: most commands keep no files open

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._limit = limit if soft == resource.RLIM_INFINITY else max(min(limit, soft // 2), 1)
        self._open: OrderedDict[str, OpenFile] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        while self._open:
            self._open.popitem()[1].close()

    def of(self, segment: Segment) -> OpenFile:
        """Open a file, or give it when it is open.

        Raises:
            UnreadablePath: see `Place.open`.
        """
        location = segment.place.location
        if location in self._open:
            self._open.move_to_end(location)
        else:
            if len(self._open) >= self._limit:
                self._open.popitem(last=False)[1].close()
            self._open[location] = segment.open()
        return self._open[location]
