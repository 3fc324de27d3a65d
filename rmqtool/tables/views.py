"""What can be dumped: which rows each kind of artefact gives, and what they can be chosen by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rmqtool.store.branch import BranchKind
from rmqtool.tables.record_tables import MESSAGES

QUEUE: Final = frozenset({"--topic", "--queue"})
UNITS: Final = QUEUE | {"--queue-offsets"}
NUMBERED: Final = frozenset({"--queue-offsets"})
ALL: Final = UNITS | {"--tag", "--key", "--where-property", "--from", "--to", "--offsets"}


@dataclass(frozen=True, slots=True)
class View:
    """One kind of rows.

    Attributes:
        word: what `--as` takes.
        branch: the artefact that it shows.
        filters: options that can choose among its rows.
        shown: columns of a table for people, the most important first; empty for all.
        is_bulk: its rows come as columns.
    """

    word: str
    branch: BranchKind
    filters: frozenset[str] = frozenset()
    shown: tuple[str, ...] = ()
    is_bulk: bool = False

    @property
    def is_messages(self) -> bool:
        """Whether its rows are the records of a commitlog."""
        return self.branch in LOGS and self.word == str(self.branch)


INNER_BATCH: Final = "inner-batch"
LOGS: Final = (BranchKind.COMMITLOG, BranchKind.DLEDGER, BranchKind.COMPACTION_LOG)
_QUEUE_COLUMNS: Final = ("topic", "queue_id", "queue_offset", "physical_offset", "size")
_BATCH_COLUMNS: Final = ("topic", "queue_id", "msg_base_offset", "batch_size", "physical_offset")
_STATE: Final = ("extent", "code", "count")
VIEWS: Final = {
    view.word: view
    for view in (
        *(View(str(log), log, ALL, MESSAGES.shown, is_bulk=True) for log in LOGS),
        View(INNER_BATCH, BranchKind.COMMITLOG, ALL),
        View("dledger-entry", BranchKind.DLEDGER),
        View("dledger-index", BranchKind.DLEDGER_INDEX, NUMBERED, is_bulk=True),
        View("dledger-state", BranchKind.DLEDGER_STATE),
        View(
            "consume-queue",
            BranchKind.CONSUME_QUEUE,
            UNITS | {"--tag", "--offsets"},
            (*_QUEUE_COLUMNS, "tags_code", "meaning", "deliver_time", *_STATE, "file"),
            is_bulk=True,
        ),
        *(
            View(
                str(queue),
                queue,
                UNITS | {"--tag", "--offsets", "--from", "--to"},
                (*_BATCH_COLUMNS, "size", "store_time", *_STATE, "tags_code", "file"),
                is_bulk=True,
            )
            for queue in (BranchKind.BATCH_QUEUE, BranchKind.COMPACTION_QUEUE)
        ),
        View("consume-queue-ext", BranchKind.CONSUME_QUEUE_EXT, QUEUE),
        View(
            "index",
            BranchKind.INDEX,
            frozenset({"--topic", "--key", "--from", "--to", "--offsets"}),
            (
                *("file", "number", "key_hash", "physical_offset", "store_time", "previous"),
                *("slot", "time_difference", *_STATE),
            ),
            is_bulk=True,
        ),
        View("index-header", BranchKind.INDEX),
        View("index-slot", BranchKind.INDEX, is_bulk=True),
        View("checkpoint", BranchKind.CHECKPOINT),
        View("abort", BranchKind.ABORT),
        View("lock", BranchKind.LOCK),
        View("config", BranchKind.CONFIG),
        View("compaction-position", BranchKind.COMPACTION_POSITION),
        View("timer-wheel", BranchKind.TIMER_WHEEL, is_bulk=True),
        View("timer-log", BranchKind.TIMER_LOG, frozenset({"--offsets"}), is_bulk=True),
        View("timer-check", BranchKind.TIMER_CHECK),
        View("tiered-index", BranchKind.TIERED_INDEX, frozenset({"--offsets"}), is_bulk=True),
        View("tiered-index-header", BranchKind.TIERED_INDEX),
        View("tiered-index-slot", BranchKind.TIERED_INDEX, is_bulk=True),
        View("epoch", BranchKind.EPOCH),
        View("broker-identity", BranchKind.BROKER_IDENTITY),
    )
}
EVERYTHING: Final = "all"
# `all` shows each artefact once, not its parts again.
PARTS: Final = frozenset(
    {"dledger-entry", "index-header", "index-slot", "tiered-index-header", "tiered-index-slot"}
)
