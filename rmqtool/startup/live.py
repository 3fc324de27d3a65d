"""A store whose broker runs: the start is foretold as if the broker died now.

A process that dies loses nothing that it has written; only all files must be seen at one moment.
Each queue is taken as it is when it is looked at, and the log up to the end of the newest record
that a queue points to: brokers dispatch in the order of the log, so the records before it were
whole by then. What comes later counts as zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.queues.kinds import are_real
from rmqtool.startup.units import chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqtool.formats.layout import Layout
    from rmqtool.queues.kinds import Units
    from rmqtool.startup.files import FileQueue, ModelFile
    from rmqtool.startup.model import Model
    from rmqtool.startup.prediction import Prediction

_ATTEMPTS: Final = 4  # files that roll or expire meanwhile are few a minute


def settled(predict: Callable[[], Prediction]) -> Prediction:
    """Look again where something is wrong, and believe what stays; files roll, and expire.

    Args:
        predict: looks at the store.

    Raises:
        UnreadablePath: a file may not be read.
    """
    before: Prediction | None = None
    for left in reversed(range(_ATTEMPTS)):
        try:
            found = predict()
        except UnreadablePath as error:
            if not left or error.trouble not in {Trouble.MISSING, Trouble.NO_FILE}:
                raise
            continue
        if found.is_whole or (before and _harm(found) == _harm(before)):
            return found
        before = found
    assert before is not None  # noqa: S101 - the last attempt raises or gives one
    return before


def _harm(found: Prediction) -> tuple[object, ...]:
    counts = found.lost, found.cut, found.unlisted, found.compacted, found.missing, found.light
    return (*(one.messages for one in counts), found.refusals, found.further, found.timers_lost)


def freeze(model: Model, further: Iterable[Units] = ()) -> None:
    """Have everything that the broker writes from now on read as zeros.

    Without a unit nothing tells where records end, and the log is read as it is.

    Args:
        model: before anything was read of its files.
        further: units of queues that do not lie in files.

    Raises:
        UnreadablePath: a file may not be read.
    """
    end = max((_end(units) for units in further), default=0)
    for queue in model.all_queues():
        end = max(end, _freeze_queue(queue.files, queue.layout))
    if not end:
        return
    model.judged_up_to = end
    for file in model.commitlog.files:
        if file.end > end:
            file.limit = max(end - file.start, 0)


def _freeze_queue(files: FileQueue, layout: Layout) -> int:
    """Freeze one queue; give the end of the newest record that its units point to, or 0.

    The files before the last one that has a unit are full, and no broker writes to them.
    """
    for file in reversed(files.files):
        file.limit, end = _ends(file, layout)
        if file.limit:
            return end
    return 0


def _ends(file: ModelFile, layout: Layout) -> tuple[int, int]:
    """Give the end of the last unit in a file, and of the newest record that one points to."""
    last = end = 0
    with file.open() as reader:
        for begin, stop in reader.stretches(file.length, layout.size):
            position = begin
            for units in chunks(reader, layout, begin, stop):
                real = np.flatnonzero(are_real(units))
                if real.size:
                    last = position + (int(real[-1]) + 1) * layout.size
                    end = max(end, _end(units))
                position += units.nbytes
    return last, end


def _end(units: Units) -> int:
    """Give the end of the newest record that units point to; 0 without one."""
    real = units[are_real(units)]
    if not real.size:
        return 0
    return int((real["physical_offset"].astype(np.int64) + real["size"]).max())
