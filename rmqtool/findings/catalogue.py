"""What a finding code is; the codes themselves are the constants of `registry_*.py`.

A code is asked for as a value, `registry_commitlog.CL_CRC`, and never written as text elsewhere.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple, Self


class Severity(enum.StrEnum):
    """How bad a finding is, worst last; a word, as colour alone never carries meaning."""

    NOTE = "note"
    WARNING = "warning"
    DAMAGE = "damage"

    @property
    def rank(self) -> int:
        """0 for a note, 1 for a warning, 2 for damage."""
        return list(Severity).index(self)


DAMAGE: Final = Severity.DAMAGE
WARNING: Final = Severity.WARNING
NOTE: Final = Severity.NOTE

REBUILD_CQ: Final = "rmqtool rebuild-cq STORE --output DIR"
REPAIR: Final = "rmqtool repair STORE --dry-run"
REPAIR_GAP: Final = "rmqtool repair STORE --bridge-missing --dry-run"
REPAIR_OFFSETS: Final = "rmqtool repair STORE --clamp-offsets --dry-run"
RESET_CONFIG: Final = "rmqtool repair STORE --reset-config --dry-run"
STARTUP: Final = "rmqtool startup STORE --broker-version VERSION"
INFO: Final = "rmqtool info STORE"
VALIDATE: Final = "rmqtool validate STORE"
DUMP: Final = "rmqtool dump STORE/{path}"
DUMP_HEX: Final = "rmqtool dump STORE/{path} --hex"
DUMP_FILLERS: Final = "rmqtool dump STORE/{path} --fillers"
TOPICS: Final = "rmqtool info STORE --section topics"


class Area(enum.StrEnum):
    """What `--only` names: a part of a store, and the check that judges it."""

    LAYOUT = "layout"
    COMMITLOG = "commitlog"
    DLEDGER = "dledger"
    CONSUME_QUEUE = "consumequeue"
    EXTENSION = "consumequeue_ext"
    BATCH_QUEUE = "batchconsumequeue"
    COMPACTION = "compaction"
    INDEX = "index"
    CHECKPOINT = "checkpoint"
    TIMER = "timer"
    EPOCH = "epoch"
    CONFIG = "config"
    OFFSETS = "offsets"
    FILTERS = "filters"
    ROCKSDB = "rocksdb"


class Owner(enum.StrEnum):
    """Who repairs what a code names: a part of `repair`, a person, or nobody."""

    FILES = "files"  # lengths and names of files, by the part that owns their directory
    LOG = "log"
    PLACES = "places"  # records whose own topic, queue or queue offset has changed
    QUEUES = "queues"
    EXTENSIONS = "extensions"
    BATCH_QUEUES = "batch queues"
    LIGHT_QUEUES = "light queues"
    INDEX = "index"
    CHECKPOINT = "checkpoint"
    TIMER = "timer"
    COMPACTION = "compaction"
    ROCKSDB = "databases"
    CONFIG = "config"
    OFFSETS = "offsets"
    PERSON = "person"
    NOTHING = "nothing"  # nothing to be done, or nothing that helps

    @property
    def is_repair(self) -> bool:
        """Whether `repair` has a part for it."""
        return self not in {Owner.PERSON, Owner.NOTHING}


class Cure(enum.StrEnum):
    """How what a code names ends; the one field that says so."""

    NOT_NEEDED = "not needed"
    NONE = "not possible"
    REPAIR = "by rmqtool repair"
    REBUILD_CQ = "by rmqtool rebuild-cq"
    BY_HAND = "by hand"


class Family(NamedTuple):
    """Codes that begin alike."""

    area: Area  # what `--only` calls them
    title: str  # their heading in the manual
    of_log: bool = False  # whether what is right there follows from the log


FAMILIES: Final = {
    "FS": Family(Area.LAYOUT, "Files and directories", of_log=True),
    "CL": Family(Area.COMMITLOG, "Commitlog", of_log=True),
    "DL": Family(Area.DLEDGER, "DLedger log", of_log=True),
    "CQ": Family(Area.CONSUME_QUEUE, "Consume queues", of_log=True),
    "CX": Family(Area.EXTENSION, "Extension of consume queues"),
    "BQ": Family(Area.BATCH_QUEUE, "Batch consume queues", of_log=True),
    "CC": Family(Area.COMPACTION, "Compaction store"),
    "IX": Family(Area.INDEX, "Key index", of_log=True),
    "CP": Family(Area.CHECKPOINT, "Checkpoint", of_log=True),
    "AB": Family(Area.CHECKPOINT, "Abort file"),
    "TW": Family(Area.TIMER, "Timer wheel"),
    "TL": Family(Area.TIMER, "Timer log"),
    "TC": Family(Area.TIMER, "Timer checkpoint"),
    "EP": Family(Area.EPOCH, "Epochs and identity"),
    "BC": Family(Area.CONFIG, "Configuration of the broker"),
    "CF": Family(Area.CONFIG, "Configuration files"),
    "CO": Family(Area.OFFSETS, "Consumer offsets"),
    "DO": Family(Area.OFFSETS, "Delay offsets"),
    "BF": Family(Area.FILTERS, "Bloom filters"),
    "RD": Family(Area.ROCKSDB, "RocksDB databases"),
    "RQ": Family(Area.CONSUME_QUEUE, "Consume queues in RocksDB", of_log=True),
    "RI": Family(Area.INDEX, "Key index in RocksDB", of_log=True),
    "RT": Family(Area.TIMER, "Timer messages in RocksDB"),
    "RX": Family(Area.ROCKSDB, "Half messages in RocksDB"),
    "MV": Family(Area.CONFIG, "Metadata in RocksDB"),
}


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Code(str):  # noqa: SLOT000 - the decorator makes them
    """One kind of defect; permanent. As text it is its name."""

    name: str  # such as `CL-CRC`; never given another meaning
    severity: Severity  # how bad it is as a rule
    owner: Owner  # who repairs it
    meaning: str  # what is the case, one sentence
    consequence: str  # what a broker, or its clients, will do about it
    remedy: str  # what helps, one phrase; "none needed", or "none" when nothing does
    command: str  # the rmqtool command that helps; `{path}` stands for the file
    also: tuple[Severity, ...] = ()  # further severities that a finding of this code may have
    when: str = ""  # which severity it then has, and why; empty without `also`

    def __new__(cls, name: str, *_: object, **__: object) -> Self:
        """Make the text; `__init__` keeps what it means."""
        return str.__new__(cls, name)

    def __getnewargs__(self) -> tuple[str]:
        """Let the text travel to another process; the rest follows as attributes."""
        return (self.name,)

    @property
    def prefix(self) -> str:
        """The letters that its family has in common."""
        return self.name.partition("-")[0]

    @property
    def family(self) -> Family:
        """What it is about."""
        return FAMILIES[self.prefix]

    @property
    def area(self) -> Area:
        """What `--only` calls the check that looks for it."""
        return self.family.area

    @property
    def cure(self) -> Cure:
        """Who ends it: remedy and command follow from this, and never contradict it."""
        if self.owner is Owner.NOTHING:
            return Cure.NOT_NEEDED if self.remedy.startswith("none needed") else Cure.NONE
        if self.owner.is_repair:
            return Cure.REPAIR
        return Cure.REBUILD_CQ if self.command == REBUILD_CQ else Cure.BY_HAND
