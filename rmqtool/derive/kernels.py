"""Kernels that turn record columns into packed units and index entries, and sort units by queue.

Source: ConsumeQueue#putMessagePositionInfo, CommitLog#checkMessageAndReturnSize,
IndexService#buildIndex, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.message import SysFlag
from rmqtool.machine.compiled import inlined, kernel
from rmqtool.machine.intrinsics import load_i4, load_i8, store_i4, store_i8
from rmqtool.scan import columns as row

if TYPE_CHECKING:
    from typing import TypeAlias

    from rmqtool.machine.arrays import Int64s, UInt8s

    Queues: TypeAlias = tuple[Int64s, Int64s, Int64s]  # what `QueueTable.state` gives
    Units: TypeAlias = tuple[UInt8s, Int64s]  # packed, and their facts

UNIT: Final = CQ_UNIT.size
_AT: Final = CQ_UNIT.positions
AT_PHYSICAL_OFFSET: Final = _AT["physical_offset"]
AT_SIZE: Final = _AT["size"]
AT_TAGS_CODE: Final = _AT["tags_code"]

# What records of a topic are, bits.
SCHEDULE: Final = 1  # a delay level that is no number throws
BATCH: Final = 2  # they go to a batch queue
BATCH_IF_INNER: Final = 4  # they do if they say that they are a batch
BATCH_NUMBERS: Final = 8  # INNER_BASE and INNER_NUM are read as numbers
DELIVER_TIME: Final = 16  # their tags code is one, if they wait

# Rows of the facts of units.
QUEUE, QUEUE_OFFSET, STORE_TIMESTAMP = range(3)
FACTS: Final = 3
# Rows of the facts of queues.
KEY, UNITS = range(2)
QUEUE_FACTS: Final = 2
# Rows of runs.
RUN_QUEUE, RUN_OFFSET, RUN_FIRST, RUN_COUNT, RUN_STORE_TIMESTAMP = range(5)
RUN_ROWS: Final = 5

# What came of a record, in row FATE of the scratch.
DISPATCHED, INDEX_ONLY, TO_BATCH, NOWHERE = range(4)

# Why a kernel stopped.
DONE, QUEUES_FULL = range(2)

TRANSACTION: Final = SysFlag.TRANSACTION_ROLLBACK_TYPE  # both bits: also the mask
COMMIT: Final = SysFlag.TRANSACTION_COMMIT_TYPE
INNER_BATCH: Final = SysFlag.INNER_BATCH_FLAG
MIXER: Final = 0x1E3779B97F4A7C15


@inlined
def first_slot(key: int, last: int) -> int:
    """Say where in a table of `last + 1` slots a key is looked for first."""
    mixed = key * MIXER
    return (mixed ^ (mixed >> 32)) & last


@inlined
def intern(topic: int, queue_id: int, queues: Queues) -> int:
    """Give the number of a queue, a new one if need be; -1 when there is no room."""
    slots, facts, count = queues
    key = (topic << 32) | (queue_id & 0xFFFFFFFF)
    last = slots.size - 1
    slot = first_slot(key, last)
    while slots[slot] >= 0:
        if facts[KEY, slots[slot]] == key:
            return int(slots[slot])
        slot = (slot + 1) & last
    number = count[0]
    if 2 * (number + 1) > slots.size:
        return -1
    slots[slot], facts[KEY, number], facts[UNITS, number] = number, key, 0
    count[0] = number + 1
    return int(number)


@kernel("void(int64[::1], int64[:, ::1], int64)")
def place_queues(slots: Int64s, facts: Int64s, count: int) -> None:
    """Enter the first `count` queues into an empty table of slots."""
    last = slots.size - 1
    for number in range(count):
        slot = first_slot(facts[KEY, number], last)
        while slots[slot] >= 0:
            slot = (slot + 1) & last
        slots[slot] = number


@inlined
def destination_of(columns: Int64s, number: int, kind: int, delay_level: int) -> int:
    """Say what a broker does with one record.

    A text where a number should be makes Java throw: such a record reaches neither queue nor
    index, unless the kernels know the number only from Java: see the collector. Transactions that
    are not decided, or that were rolled back, reach no queue.
    """
    base, batch = columns[row.INNER_BASE, number], columns[row.INNER_NUM, number]
    if kind & SCHEDULE and delay_level == row.UNPARSABLE:
        return NOWHERE
    has_batch = row.ABSENT not in (base, batch)
    if kind & BATCH_NUMBERS and has_batch and row.UNPARSABLE in (base, batch):
        return NOWHERE
    if columns[row.SYS_FLAG, number] & TRANSACTION not in (0, COMMIT):
        return INDEX_ONLY
    if kind & BATCH or (
        kind & BATCH_IF_INNER and has_batch and columns[row.SYS_FLAG, number] & INNER_BATCH
    ):
        if not has_batch:  # a message by itself
            base, batch = columns[row.QUEUE_OFFSET, number], 1
        return TO_BATCH if base >= 0 and batch >= 0 else INDEX_ONLY
    return DISPATCHED


@inlined
def tags_code(columns: Int64s, number: int, kind: int, levels: Int64s) -> int:
    """Give the tags code of a unit: hash of the tags, or the deliver time of a delayed message."""
    level = columns[row.DELAY_LEVEL, number]
    if kind & DELIVER_TIME and level > 0:
        delay = levels[min(level, levels.size) - 1]
        return int(columns[row.STORE_TIMESTAMP, number] + delay)
    return int(columns[row.TAGS_CODE, number])


@kernel(
    "UniTuple(int64, 4)(int64[:, ::1], UniTuple(int64, 4), Tuple((int64[::1], int64[::1])),"
    " Tuple((int64[::1], int64[:, ::1], int64[::1])), Tuple((uint8[::1], int64[:, ::1])),"
    " int64[::1])"
)
def dispatch(
    columns: Int64s,
    which: tuple[int, int, int, int],
    rules: tuple[Int64s, Int64s],
    queues: Queues,
    units: Units,
    destinations: Int64s,
) -> tuple[int, int, int, int]:
    """Pack the units of records, in log order.

    Returns:
        Where it stopped, why, the units so far, and the highest of all destinations so far.

    Args:
        columns: int64, shape (ROWS, m), with texts.
        which: first record, record after the last, units and highest destination so far.
        rules: int64, kind of each topic; int64, delay of each level in ms.
        queues: slots, facts and count of a `QueueTable`.
        units: uint8, shape (UNIT * k,); int64, shape (FACTS, k), with room for all records.
        destinations: int64, shape (m,), filled with what came of each record.
    """
    first, last, used, highest = which
    kinds, levels = rules
    packed, facts = units
    for number in range(first, last):
        topic = columns[row.TOPIC_NUMBER, number]
        kind = kinds[topic]
        destination = destination_of(columns, number, kind, columns[row.DELAY_LEVEL, number])
        destinations[number] = destination
        highest = max(highest, destination)
        if destination != DISPATCHED:
            continue
        queue = intern(topic, columns[row.QUEUE_ID, number], queues)
        if queue < 0:
            return number, QUEUES_FULL, used, highest
        queues[1][UNITS, queue] += 1
        at = used * UNIT
        store_i8(packed, at + AT_PHYSICAL_OFFSET, columns[row.PHYSICAL_OFFSET_FIELD, number])
        store_i4(packed, at + AT_SIZE, columns[row.SIZE, number])
        store_i8(packed, at + AT_TAGS_CODE, tags_code(columns, number, kind, levels))
        facts[QUEUE, used] = queue
        facts[QUEUE_OFFSET, used] = columns[row.QUEUE_OFFSET, number]
        facts[STORE_TIMESTAMP, used] = columns[row.STORE_TIMESTAMP, number]
        used += 1
    return last, DONE, used, highest


@kernel(
    "int64(int64[:, ::1], int64[:, ::1], UniTuple(int64, 2), int64[::1],"
    " Tuple((int32[::1], int64[:, ::1])))"
)
def index_entries(
    columns: Int64s,
    pairs: Int64s,
    counts: tuple[int, int],
    destinations: Int64s,
    entries: tuple[Int64s, Int64s],
) -> int:
    """Append the index entries of records, in dispatch order; return the entries so far.

    Args:
        columns: int64, shape (ROWS, m).
        pairs: int64, shape (2, n): record and hash.
        counts: pairs, entries so far.
        destinations: int64, shape (m,), as `dispatch` filled it.
        entries: int32, shape (k,), hashes; int64, shape (2, k), physical offsets and store
            timestamps; with room for all pairs.
    """
    count, used = counts
    hashes, places = entries
    for pair in range(count):
        number = pairs[0, pair]
        if destinations[number] == NOWHERE:
            continue
        hashes[used] = pairs[1, pair]
        places[0, used] = columns[row.PHYSICAL_OFFSET_FIELD, number]
        places[1, used] = columns[row.STORE_TIMESTAMP, number]
        used += 1
    return used


@inlined
def begins_run(facts: Int64s, number: int, run_units: int) -> bool:
    """Tell whether a unit does not go on where the one before it ended."""
    if number == 0 or facts[QUEUE, number] != facts[QUEUE, number - 1]:
        return True
    if facts[QUEUE_OFFSET, number] != facts[QUEUE_OFFSET, number - 1] + 1:
        return True
    return bool(run_units) and facts[QUEUE_OFFSET, number] % run_units == 0


@kernel(
    "int64(Tuple((uint8[::1], int64[:, ::1])), int64, int64[::1], int64,"
    " Tuple((uint8[::1], int64[:, ::1])))"
)
def sort_units(units: Units, count: int, starts: Int64s, run_units: int, into: Units) -> int:
    """Sort units by queue, in log order within each; return the number of runs.

    Args:
        units: packed and facts.
        count: units.
        starts: int64, shape (queues,): first unit of each queue in the result; used up.
        run_units: a run ends where a file of so many units does; 0 for nowhere.
        into: the same, with room.
    """
    packed, facts = units
    packed_into, facts_into = into
    for number in range(count):
        queue = facts[QUEUE, number]
        place = starts[queue]
        starts[queue] = place + 1
        for fact in range(FACTS):
            facts_into[fact, place] = facts[fact, number]
        source, other = number * UNIT, place * UNIT
        offset, size = (
            load_i8(packed, source + AT_PHYSICAL_OFFSET),
            load_i4(packed, source + AT_SIZE),
        )
        store_i8(packed_into, other + AT_PHYSICAL_OFFSET, offset)
        store_i4(packed_into, other + AT_SIZE, size)
        store_i8(packed_into, other + AT_TAGS_CODE, load_i8(packed, source + AT_TAGS_CODE))
    runs = 0
    for number in range(count):
        runs += begins_run(facts_into, number, run_units)
    return runs


@kernel("void(int64[:, ::1], int64, int64, int64[:, ::1])")
def cut_runs(facts: Int64s, count: int, run_units: int, runs: Int64s) -> None:
    """Fill in the runs of sorted units.

    Args:
        facts: int64, shape (FACTS, n), sorted by queue.
        count: units.
        run_units: as for `sort_units`.
        runs: int64, shape (RUN_ROWS, runs).
    """
    run = -1
    for number in range(count):
        if begins_run(facts, number, run_units):
            run += 1
            runs[RUN_QUEUE, run] = facts[QUEUE, number]
            runs[RUN_OFFSET, run] = facts[QUEUE_OFFSET, number]
            runs[RUN_FIRST, run] = number
            runs[RUN_COUNT, run] = 0
        runs[RUN_COUNT, run] += 1
        runs[RUN_STORE_TIMESTAMP, run] = facts[STORE_TIMESTAMP, number]
