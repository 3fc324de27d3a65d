"""What an extract is asked. Light: `--help` reads it, too."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rmqtool.errors import UsageError
from rmqtool.plural import meant
from rmqtool.tables.bodies import BodyMode, BodyOptions
from rmqtool.tables.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Sequence


class ExtractFormat(enum.StrEnum):
    """What file is written."""

    JSONL = "jsonl"  # a line a message
    RMQ = "rmq"  # records as they are stored, one after the other
    PARQUET = "parquet"  # a row a message
    JSON_SCHEMA = "json-schema"  # what the lines are


_BY_SUFFIX: Final = {".rmq": ExtractFormat.RMQ, ".parquet": ExtractFormat.PARQUET}


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """What `extract` was asked."""

    paths: tuple[str, ...]  # stores
    output: str  # the new file
    format: ExtractFormat | None = None  # of it; None is what its name says
    # which messages; topics, queues and queue offsets are those they were sent to
    selection: Selection = field(default_factory=Selection)
    unconsumed_by: str | None = None  # a group: only what it has not consumed
    dead_letters: str | None = None  # a group: only what it gave up
    held: bool = False  # half messages and timer copies, too
    where: str | None = None  # an SQL92 expression that properties fulfil
    undecided: bool = False  # only half messages of open transactions
    pending: bool = False  # only what waits: for its time, or for its transaction
    lost_in: str | None = None  # another store: only what is not in it
    columns: tuple[str, ...] | None = None  # of a line; None is all
    body_limit: int = BodyOptions().ceiling  # bytes that one body may have
    decoder: str | None = None  # command or entry point that makes the text of bodies
    broker_conf: str | None = None  # the broker's configuration file
    jobs: int | None = None  # threads; None is one for each processor

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, before any file is opened."""
        from rmqtool.messages.sent import SENT

        self._refuse_columns(SENT.names)
        if self.dead_letters is not None and self.selection.topics:
            raise UsageError(option="--dead-letters", reason="cannot be combined with --topic")
        if self.dead_letters is not None and self.unconsumed_by is not None:
            reason = "cannot be combined with --unconsumed-by"
            raise UsageError(option="--dead-letters", reason=reason)
        for name in ("undecided", "pending"):
            if getattr(self, name) and (self.dead_letters or self.unconsumed_by):
                reason = "cannot be combined with --dead-letters or --unconsumed-by"
                raise UsageError(option=f"--{name}", reason=reason)
        if self.undecided and self.pending:
            raise UsageError(option="--pending", reason="includes the messages of --undecided")
        self.selection.refuse_impossible()

    def _refuse_columns(self, names: Sequence[str]) -> None:
        """Refuse columns that are not there, and what records do not have."""
        for name in self.columns or ():
            if name not in names:
                reason = f"no column {name!r}; {meant(name, names)}"
                raise UsageError(option="--columns", reason=reason)
        for option in ("columns", "decoder"):
            if getattr(self, option) is not None and self.wanted_format is ExtractFormat.RMQ:
                reason = f"records are written whole: no {option}"
                raise UsageError(option=f"--{option}", reason=reason)
        if self.columns == ():
            raise UsageError(option="--columns", reason="leaves no column for the file")

    @property
    def wanted_format(self) -> ExtractFormat:
        """The format of the file."""
        if self.format is not None:
            return self.format
        suffix = os.path.splitext(self.output)[1]  # noqa: PTH122 - pathlib takes 3 ms to import
        return _BY_SUFFIX.get(suffix, ExtractFormat.JSONL)

    @property
    def body(self) -> BodyOptions:
        """How bodies are written: decompressed, as text, and exactly where they are none."""
        return BodyOptions(BodyMode.TEXT, ceiling=self.body_limit, decoder=self.decoder)
