"""What an export is asked. Light: `--help` reads it, too."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmqtool.errors import UsageError
from rmqtool.plural import meant
from rmqtool.reads.options import SourceOptions, TableName
from rmqtool.table import Column, Table, Type

if TYPE_CHECKING:
    from collections.abc import Callable

TARGET_FILE_SIZE: Final = 256 << 20  # bytes: what readers of data lakes like
DATE: Final = "date"  # of `store_time`, UTC
PARTITIONS: Final = {
    TableName.MESSAGES: ("topic", "queue_id", DATE),
    TableName.QUEUE_UNITS: ("topic", "queue_id"),
    TableName.INDEX_ENTRIES: (DATE,),
    TableName.FINDINGS: ("code", "severity"),
    TableName.SEGMENTS: (),
    TableName.PENDING_TIMERS: ("topic", "queue_id"),
    TableName.POP_IN_FLIGHT: ("topic", "queue_id"),
    TableName.TOPICS: (),
    TableName.QUEUES: ("topic", "queue_id"),
    TableName.GROUPS: ("group", "topic"),
    TableName.CONSUMER_OFFSETS: ("group", "topic", "queue_id"),
    TableName.DELAY_OFFSETS: (),
    TableName.CHECKPOINT: (),
    TableName.LOST_MESSAGES: ("topic",),
    TableName.TRACES: ("group",),
}

FLEET_PARTITIONS: Final = ("store", "broker")  # where several stores are read


EXPORT: Final = Table(
    "export",
    "written files of an export",
    (
        Column("files", Type.INT64, "files in the target, all runs together", "files"),
        Column("rows", Type.INT64, "rows in them", "rows"),
        Column("damaged", Type.INT64, "rows that tell of damage", "rows"),
        Column("tasks", Type.INT64, "parts into which the work was cut", "tasks"),
        Column("resumed", Type.INT64, "parts that an earlier run had done", "tasks"),
        Column("read", Type.INT64, "bytes of the store that were read", "bytes"),
    ),
)


class ExportFormat(enum.StrEnum):
    """What files are written."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What `export` was asked."""

    source: SourceOptions  # which rows
    output: str  # the directory, or a URI
    form: ExportFormat = ExportFormat.PARQUET  # of the files
    by: tuple[str, ...] = ()  # partition columns
    cell: Callable[[object], str] = str  # how a value is written in CSV; picklable
    # bytes from which on a file is closed and another one begun
    target_file_size: int = TARGET_FILE_SIZE
    # the log between the offsets of the selection is known to be what it was: files that have grown
    # since, after them, are the same
    is_settled: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, before anything is started."""
        from rmqtool.reads.tables import schema_of

        self.source.selection.refuse_impossible()
        table = self.source.table
        known = schema_of(self.source).names
        partitions = (*(FLEET_PARTITIONS if self.source.is_fleet else ()), *PARTITIONS[table])
        for name in self.source.columns or ():
            if name not in known:
                reason = f"{table} has no column {name!r}; {meant(name, known)}"
                raise UsageError(option="--columns", reason=reason)
        for name in self.by:
            if name not in partitions:
                there = " ".join(partitions) or "none"
                reason = f"{table} cannot be split by {name!r}; it can by: {there}"
                raise UsageError(option="--partition-by", reason=reason)
        if len(set(self.by)) < len(self.by):
            raise UsageError(option="--partition-by", reason="names a column twice")
        if not self.names:
            raise UsageError(option="--columns", reason="leaves no column for the files")

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the files: those that were asked for without those of partitions."""
        from rmqtool.reads.tables import schema_of

        names = self.source.columns or tuple(schema_of(self.source).names)
        return tuple(name for name in names if name not in self.by)
