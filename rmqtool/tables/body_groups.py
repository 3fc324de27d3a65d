"""Bodies of records, shown in groups that a budget bounds: a few bytes may inflate to gigabytes.

A group is shown when it is about to be taken. So all that is in memory is one group, and what the
threads show ahead of the writer, each within a `Budget`. Texts that lie in the window as they are
shown, as most do, are copied together; all others, and all where a budget ends, come one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from rmqtool.formats import java, properties
from rmqtool.formats.message import MESSAGE_PREFIX, middle_of
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.scan import columns as row
from rmqtool.tables.arrow import TEXT
from rmqtool.tables.bodies import (
    BUDGET_BYTES,
    ESCAPED,
    FIRST_PRINTED,
    Body,
    BodyMode,
    BodyOptions,
    show_within,
    too_long,
)
from rmqtool.tables.texts import TextStretches, exact_strings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.scan.batch import Batch
    from rmqtool.tables.decoders import BodyOwner

    Int64s: TypeAlias = npt.NDArray[np.int64]
    Bools: TypeAlias = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Budget:
    """What may still be shown."""

    left: int = BUDGET_BYTES  # bytes
    is_spent: bool = False  # whether a body was left out, with all after it


class BodyColumns(NamedTuple):
    """The bodies of some records, as `Body` describes them; a column of nulls only is None."""

    body: pa.StringArray | None = None
    body_b64: pa.StringArray | None = None
    body_error: pa.StringArray | None = None
    code: pa.StringArray | None = None

    @classmethod
    def of(cls, bodies: Sequence[Body]) -> BodyColumns:
        """Give bodies that were shown one by one."""
        columns = (pa.array([getattr(body, name) for body in bodies], TEXT) for name in cls._fields)
        return cls(*(column if column.null_count < len(column) else None for column in columns))


class Group(NamedTuple):
    """Some records with their bodies."""

    columns: Int64s  # int64, shape (ROWS, n); the records
    bodies: BodyColumns | None  # of these; None where they are not shown


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
    together = _together(batch, columns, options, budget)
    if together is not None:
        yield Group(columns, together)
        return
    bodies: list[Body] = []
    begin, weight = 0, 0
    for number in range(columns.shape[1]):
        body = _body(batch, columns[:, number], options, budget)
        if body is None:
            break
        more = body.weight
        if bodies and weight + more > BUDGET_BYTES:
            yield Group(columns[:, begin:number], BodyColumns.of(bodies))
            bodies, begin, weight = [], number, 0
        bodies.append(body)
        weight += more
    if bodies:
        yield Group(columns[:, begin : begin + len(bodies)], BodyColumns.of(bodies))


def _together(
    batch: Batch, columns: Int64s, options: BodyOptions, budget: Budget | None
) -> BodyColumns | None:
    """Show all bodies at once; None where one by one may give something else."""
    is_stored = _as_stored(columns, options)
    if not is_stored.any():
        return None
    stored = columns if is_stored.all() else columns[:, is_stored]
    texts = exact_strings(
        TextStretches(batch.window, stored[row.BODY_START], stored[row.BODY_LENGTH])
    )
    if texts is None:
        return None
    most = BUDGET_BYTES if budget is None else min(BUDGET_BYTES, budget.left)
    held = Budget(most - _weight_of(texts))
    others: list[Body] = []
    for number in np.flatnonzero(~is_stored).tolist():
        body = None if held.left < 0 else _body(batch, columns[:, number], options, held)
        if body is None:
            return None
        others.append(body)
    if held.left < 0:
        return None
    if budget is not None:
        budget.left -= most - held.left
    if not others:
        return BodyColumns(texts)
    return _in_order(texts, BodyColumns.of(others), is_stored)


def _weight_of(texts: pa.StringArray) -> int:
    """Give the sum of what `Body.weight` is of each."""
    raw = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    return raw.size + (ESCAPED - 1) * int(np.count_nonzero(raw < FIRST_PRINTED))


def _in_order(texts: pa.StringArray, others: BodyColumns, is_text: Bools) -> BodyColumns:
    """Put texts and other bodies into the order of their records."""
    order = np.empty(len(is_text), np.int64)
    order[is_text] = np.arange(len(texts))
    order[~is_text] = np.arange(len(texts), len(is_text))

    def column(first: pa.StringArray, second: pa.StringArray | None) -> pa.StringArray:
        after = pa.nulls(len(is_text) - len(first), TEXT) if second is None else second
        return pa.concat_arrays([first, after]).take(pa.array(order))

    none = pa.nulls(len(texts), TEXT)
    return BodyColumns(
        column(texts, others.body),
        *(None if other is None else column(none, other) for other in others[1:]),
    )


def _as_stored(columns: Int64s, options: BodyOptions) -> Bools:
    """Mark bodies that are shown as they lie in the window, if they are text: shape (n,)."""
    if options.mode is not BodyMode.TEXT or options.decoder is not None:
        return np.zeros(columns.shape[1], np.bool_)
    mask: Bools = (columns[row.BODY_START] >= 0) & (columns[row.BODY_LENGTH] <= options.ceiling)
    if not options.raw:
        mask &= columns[row.SYS_FLAG] & SysFlag.COMPRESSED_FLAG == 0
    return mask


def _body(batch: Batch, record: Int64s, options: BodyOptions, budget: Budget | None) -> Body | None:
    """Show a body; None for one that the budget does not hold."""
    start, length = int(record[row.BODY_START]), int(record[row.BODY_LENGTH])
    flags = int(record[row.SYS_FLAG])
    if length > options.ceiling:
        return too_long(length, options)
    most = options.ceiling if budget is None else budget.left
    owner = None if options.decoder is None else _owner(batch, record)
    shown = None
    if length <= most:
        if start >= 0:
            shown = show_within(batch.text(start, length), flags, options, most, owner)
        else:
            with batch.segment.open() as file:  # a record that is too long for a window
                position = int(record[row.POSITION]) + MESSAGE_PREFIX.size + middle_of(flags).size
                raw = file.read_at(position, length)
                shown = show_within(raw, flags, options, most, owner)
    if budget is not None:
        weight = 0 if shown is None else shown.weight
        if shown is None or weight > budget.left:
            budget.is_spent = True
            return None
        budget.left -= weight
    return shown


def _owner(batch: Batch, record: Int64s) -> BodyOwner:
    """Give the message that a body is of."""
    from rmqtool.tables.decoders import BodyOwner  # few have a decoder

    start = row.PROPERTIES_START
    texts = TextStretches(batch.window, record[start : start + 1], record[start + 1 : start + 2])
    topic = java.text(batch.topics[int(record[row.TOPIC_NUMBER])])
    return BodyOwner(topic, properties.decode(texts.raw(0)))
