"""Kinds of artefacts of a store, and where one of them lies."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from rmqtool.store.place import Place

TIMER_CHECK: Final = "timercheck"  # the one file of `config` that is binary


class ArtefactKind(enum.StrEnum):
    """What an artefact is; these words are what `dump --as` takes."""

    STORE = "store"
    COMMITLOG = "commitlog"
    DLEDGER = "dledger"
    DLEDGER_INDEX = "dledger-index"
    DLEDGER_STATE = "dledger-state"  # `checkpoint` and `currterm`: Java properties
    CONSUME_QUEUE = "consume-queue"
    CONSUME_QUEUE_EXT = "consume-queue-ext"
    BATCH_QUEUE = "batch-queue"
    INDEX = "index"
    CHECKPOINT = "checkpoint"
    ABORT = "abort"
    LOCK = "lock"
    CONFIG = "config"
    TIMER_WHEEL = "timer-wheel"
    TIMER_LOG = "timer-log"
    TIMER_CHECK = "timer-check"
    COMPACTION_LOG = "compaction-log"
    COMPACTION_QUEUE = "compaction-queue"
    COMPACTION_POSITION = "compaction-position"  # JSON
    TIERED_INDEX = "tiered-index"
    EPOCH = "epoch"
    BROKER_IDENTITY = "broker-identity"
    ROCKSDB = "rocksdb"


class FamilyDepth(enum.IntEnum):
    """How deep in its family something lies."""

    FAMILY = 0  # consumequeue, commitlog, index
    TOPIC = 1  # consumequeue/T
    QUEUE = 2  # consumequeue/T/0
    FILE = 3


class Why(enum.StrEnum):
    """By what an artefact was recognised."""

    PLACE = "place"
    CONTENT = "content"
    ASKED = "asked"  # the user said so


class Artefact(NamedTuple):
    """One artefact, or a directory of equal ones."""

    kind: ArtefactKind  # what it is
    place: Place  # where it lies; behind a link, where the link leads
    path: str  # the same relative to the store root, `/` separated, printable
    level: FamilyDepth = FamilyDepth.FAMILY  # a whole family of directories, or a part of one
    why: Why = Why.PLACE  # by what it was recognised
    # topic and queue number, for a queue's directory or file whose place tells them
    queue: tuple[str, int] | None = None
