"""Bodies of records, shown in groups that a budget bounds: a few bytes may inflate to gigabytes.

A group is shown when it is about to be taken. So all that is in memory is one group, and what the
threads show ahead of the writer, each within a `Budget`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rmqtool.formats.message import MESSAGE_PREFIX, middle_of
from rmqtool.scan import columns as row
from rmqtool.tables.bodies import BUDGET_BYTES, Body, BodyOptions, show_within, too_long

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from rmqtool.scan.batch import Batch

    Int64s: TypeAlias = npt.NDArray[np.int64]


@dataclass(slots=True)
class Budget:
    """What may still be shown.

    Attributes:
        left: bytes.
        is_spent: whether a body was left out, with all after it.
    """

    left: int = BUDGET_BYTES
    is_spent: bool = False


class Group(NamedTuple):
    """Some records with their bodies.

    Attributes:
        columns: int64, shape (ROWS, n); the records.
        bodies: n of them.
    """

    columns: Int64s
    bodies: Sequence[Body]


def groups(
    batch: Batch, columns: Int64s, options: BodyOptions, budget: Budget | None = None
) -> Iterator[Group]:
    """Yield records with their bodies, in order; a group has one body or BUDGET_BYTES at most.

    Args:
        batch: whose window the columns index.
        columns: int64, shape (ROWS, n); the records.
        options: how bodies are shown.
        budget: of all groups; the records from the first body on that it does not hold are left
            out. None has no end.

    Raises:
        UnreadablePath: a body that is longer than the window cannot be read.
    """
    bodies: list[Body] = []
    begin, weight = 0, 0
    for number in range(columns.shape[1]):
        body = _body(batch, columns[:, number], options, budget)
        if body is None:
            break
        more = body.weight
        if bodies and weight + more > BUDGET_BYTES:
            yield Group(columns[:, begin:number], bodies)
            bodies, begin, weight = [], number, 0
        bodies.append(body)
        weight += more
    if bodies:
        yield Group(columns[:, begin : begin + len(bodies)], bodies)


def _body(batch: Batch, record: Int64s, options: BodyOptions, budget: Budget | None) -> Body | None:
    """Show a body; None for one that the budget does not hold."""
    start, length = int(record[row.BODY_START]), int(record[row.BODY_LENGTH])
    flags = int(record[row.SYS_FLAG])
    if length > options.ceiling:
        return too_long(length, options)
    most = options.ceiling if budget is None else budget.left
    found = None
    if length <= most:
        if start >= 0:
            found = show_within(batch.text(start, length), flags, options, most)
        else:
            with batch.segment.open() as file:  # a record that is too long for a window
                position = int(record[row.POSITION]) + MESSAGE_PREFIX.size + middle_of(flags).size
                found = show_within(file.read_at(position, length), flags, options, most)
    if budget is not None:
        weight = 0 if found is None else found.weight
        if found is None or weight > budget.left:
            budget.is_spent = True
            return None
        budget.left -= weight
    return found
