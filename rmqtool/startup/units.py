"""Units in the broker's mapped files, as far as it has written them or takes them for written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqtool.queues.kinds import are_recovered, as_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy as np

    from rmqtool.formats.layout import Layout
    from rmqtool.queues.kinds import Units
    from rmqtool.startup.files import FileQueue, ModelFile, ModelReader

_FIRST_CHUNK, _LARGEST_CHUNK = 1 << 12, 1 << 20  # bytes; most queues end early in their file


class Prefix(NamedTuple):
    """The run of good units at the beginning of a file."""

    end: int  # position after them
    last: np.void | None  # the last of them; None without one


def good_units(file: ModelFile, layout: Layout, begin: int = 0, below: int | None = None) -> Prefix:
    """Follow units from a position until one is not one, or points to `below` or after it.

    Raises:
        UnreadablePath: the disk refused.
    """
    end, last = begin, None
    with file.open() as reader:
        for units in chunks(reader, layout, begin, file.length):
            good = are_recovered(units)
            if below is not None:
                good &= units["physical_offset"] < below
            count = len(units) if good.all() else int(good.argmin())
            if count:
                last = units[count - 1]
            end += count * layout.size
            if count < len(units):
                break
    return Prefix(end, last)


def stored_units(
    files: Iterable[ModelFile], layout: Layout, begins: Mapping[str, int] | None = None
) -> Iterator[tuple[int, Units]]:
    """Yield the units in all files, holes of sparse files left out: number of the first, units.

    Args:
        files: of one queue.
        layout: of its units.
        begins: position in the file, by its path, from which on units are wanted; None wants all.
    """
    for file in files:
        first = begins.get(file.path, 0) if begins else 0
        if first >= file.wrote_position:
            continue
        with file.open() as reader:
            for begin, end in reader.stretches(file.wrote_position, layout.size, first):
                number = (file.start + begin) // layout.size
                for units in chunks(reader, layout, begin, end):
                    yield number, units
                    number += len(units)


def numbered_units(files: FileQueue, layout: Layout) -> Iterator[tuple[int, Units]]:
    """Yield all units up to the end: number of the first, and an array of them."""
    for file in files.files:
        number = file.start // layout.size
        with file.open() as reader:
            for units in chunks(reader, layout, 0, file.wrote_position):
                yield number, units
                number += len(units)


def chunks(reader: ModelReader, layout: Layout, begin: int, end: int) -> Iterator[Units]:
    """Yield the whole units of a stretch, in chunks that grow: most queues end early."""
    size = _FIRST_CHUNK
    while begin + layout.size <= end:
        count = min(size, end - begin) // layout.size
        yield as_units(reader.read_at(begin, count * layout.size), layout)
        begin += count * layout.size
        size = min(size * 4, _LARGEST_CHUNK)
