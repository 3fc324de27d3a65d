"""What a carving is asked. Light: `--help` reads it, too."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass

from rmqtool.errors import UsageError
from rmqtool.plural import meant


class CarveFormat(enum.StrEnum):
    """What file is written."""

    RMQ = "rmq"  # records as they are stored, one after the other
    JSONL = "jsonl"  # a line a record: where it lies, and how sure it is
    JSON_SCHEMA = "json-schema"  # what the lines are


@dataclass(frozen=True, slots=True)
class CarveOptions:
    """What `carve` was asked."""

    images: tuple[str, ...]  # files or block devices
    output: str  # the new file, or the new directory
    format: CarveFormat | None = None  # of it; None is what its name says
    by_store: bool = False  # a file for each store, in a new directory
    lone: bool = False  # records without checksum or neighbour to confirm them, too
    columns: tuple[str, ...] | None = None  # of a line; None is all
    # bytes that a compressed image may take; None is what the disk has to spare
    unpack_limit: int | None = None
    jobs: int | None = None  # threads; None is one for each processor

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, before any file is opened."""
        from rmqtool.carve.rows import CARVED_RECORDS

        for name in self.columns or ():
            if name not in CARVED_RECORDS.names:
                reason = f"no column {name!r}; {meant(name, CARVED_RECORDS.names)}"
                raise UsageError(option="--columns", reason=reason)
        if self.columns is not None and self.wanted_format is CarveFormat.RMQ:
            reason = "records as they are stored have no columns"
            raise UsageError(option="--columns", reason=reason, step="--format jsonl")

    @property
    def wanted_format(self) -> CarveFormat:
        """The format of the file: what was asked for, else what its name ends in."""
        if self.format is not None:
            return self.format
        suffix = os.path.splitext(self.output)[1].lower()  # noqa: PTH122 - pathlib takes 3 ms
        return CarveFormat.JSONL if suffix in {".jsonl", ".json"} else CarveFormat.RMQ
