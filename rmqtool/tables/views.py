"""What can be dumped: which rows each kind of artefact gives, and what they can be chosen by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmqtool.store.artefact import ArtefactKind
from rmqtool.tables import file_tables as files
from rmqtool.tables import pending_tables as pending
from rmqtool.tables import record_tables
from rmqtool.tables import unit_tables as units
from rmqtool.tables.record_tables import MESSAGES
from rmqtool.tables.trace_table import TRACES as TRACE_TABLE

if TYPE_CHECKING:
    from rmqtool.table import Table

QUEUE: Final = frozenset({"--topic", "--queue"})
UNITS: Final = QUEUE | {"--queue-offsets"}
OFFSETS: Final = frozenset({"--offsets"})
NUMBERED: Final = frozenset({"--queue-offsets"})
ALL: Final = UNITS | {"--tag", "--key", "--where-property", "--from", "--to", "--offsets"}


@dataclass(frozen=True, slots=True)
class View:
    """One kind of rows."""

    word: str  # what `--as` takes
    branch: ArtefactKind  # the artefact that it shows
    table: Table  # its columns
    filters: frozenset[str] = frozenset()  # options that can choose among its rows
    is_bulk: bool = False  # its rows come as columns

    @property
    def is_messages(self) -> bool:
        """Whether its rows are the records of a commitlog."""
        return self.branch in LOGS and self.word == str(self.branch)


INNER_BATCH: Final = "inner-batch"
PENDING_TIMERS: Final = "pending-timers"
POP_IN_FLIGHT: Final = "pop-in-flight"
UNDECIDED: Final = "undecided-transactions"
TRACES: Final = "traces"
OF_STORES: Final = (PENDING_TIMERS, POP_IN_FLIGHT, UNDECIDED, TRACES)  # not of one file
LOGS: Final = (ArtefactKind.COMMITLOG, ArtefactKind.DLEDGER, ArtefactKind.COMPACTION_LOG)
VIEWS: Final = {
    view.word: view
    for view in (
        *(View(str(log), log, MESSAGES, ALL, is_bulk=True) for log in LOGS),
        View(INNER_BATCH, ArtefactKind.COMMITLOG, record_tables.INNER_BATCH, ALL),
        View("dledger-entry", ArtefactKind.DLEDGER, files.DLEDGER_ENTRY),
        View(
            "dledger-index",
            ArtefactKind.DLEDGER_INDEX,
            units.DLEDGER_INDEX,
            NUMBERED,
            is_bulk=True,
        ),
        View("dledger-state", ArtefactKind.DLEDGER_STATE, files.TEXT),
        View(
            "consume-queue",
            ArtefactKind.CONSUME_QUEUE,
            units.CONSUME_QUEUE,
            UNITS | {"--tag", "--offsets"},
            is_bulk=True,
        ),
        *(
            View(
                str(queue),
                queue,
                units.BATCH_QUEUE,
                UNITS | {"--tag", "--offsets", "--from", "--to"},
                is_bulk=True,
            )
            for queue in (ArtefactKind.BATCH_QUEUE, ArtefactKind.COMPACTION_QUEUE)
        ),
        View("consume-queue-ext", ArtefactKind.CONSUME_QUEUE_EXT, files.EXT, QUEUE),
        View(
            "index",
            ArtefactKind.INDEX,
            units.INDEX,
            frozenset({"--topic", "--key", "--from", "--to", "--offsets"}),
            is_bulk=True,
        ),
        View("index-header", ArtefactKind.INDEX, files.INDEX_HEADER),
        View("index-slot", ArtefactKind.INDEX, units.INDEX_SLOTS, is_bulk=True),
        View("checkpoint", ArtefactKind.CHECKPOINT, files.CHECKPOINT),
        View("abort", ArtefactKind.ABORT, files.TEXT),
        View("lock", ArtefactKind.LOCK, files.TEXT),
        View("config", ArtefactKind.CONFIG, files.CONFIG),
        View("compaction-position", ArtefactKind.COMPACTION_POSITION, files.CONFIG),
        View("timer-wheel", ArtefactKind.TIMER_WHEEL, units.TIMER_WHEEL, is_bulk=True),
        View("timer-log", ArtefactKind.TIMER_LOG, units.TIMER_LOG, OFFSETS, is_bulk=True),
        View("timer-check", ArtefactKind.TIMER_CHECK, files.TIMER_CHECK),
        View("tiered-index", ArtefactKind.TIERED_INDEX, units.TIERED_INDEX, OFFSETS, is_bulk=True),
        View("tiered-index-header", ArtefactKind.TIERED_INDEX, files.TIERED_INDEX_HEADER),
        View(
            "tiered-index-slot", ArtefactKind.TIERED_INDEX, units.TIERED_INDEX_SLOTS, is_bulk=True
        ),
        View("rocksdb", ArtefactKind.ROCKSDB, files.ROCKSDB, UNITS | OFFSETS),
        View(PENDING_TIMERS, ArtefactKind.TIMER_LOG, pending.PENDING_TIMERS),
        View(POP_IN_FLIGHT, ArtefactKind.ROCKSDB, pending.POP_IN_FLIGHT),
        View(UNDECIDED, ArtefactKind.COMMITLOG, pending.UNDECIDED_TRANSACTIONS),
        View(TRACES, ArtefactKind.COMMITLOG, TRACE_TABLE),
        View("epoch", ArtefactKind.EPOCH, files.EPOCH),
        View("broker-identity", ArtefactKind.BROKER_IDENTITY, files.IDENTITY),
    )
}
EVERYTHING: Final = "all"
# `all` shows each artefact once, not its parts again.
PARTS: Final = frozenset(
    {
        *("dledger-entry", "index-header", "index-slot", "tiered-index-header"),
        *("tiered-index-slot", *OF_STORES),
    }
)
