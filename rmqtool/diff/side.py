"""One of the two stores that are compared: its log, its queues, and what could not be read."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from rmqtool.errors import UnreadablePath
from rmqtool.info.survey import Survey
from rmqtool.query.log import Log, NoRecord
from rmqtool.store.artefact import ArtefactKind, FamilyDepth

if TYPE_CHECKING:
    from rmqtool.errors import RmqtoolError
    from rmqtool.query.log import LogRecord
    from rmqtool.store.record_heads import LogReader
    from rmqtool.store.segment import Segment
    from rmqtool.store.tree import Store


class Part(enum.StrEnum):
    """What of two stores is compared."""

    LOG = "logs"
    QUEUES = "queues"
    CONFIG = "configurations"
    EPOCHS = "epochs"


WRITTEN_LATER: Final = "its log ended here when the comparison began"
_KINDS: Final = {
    Part.LOG: (ArtefactKind.COMMITLOG, ArtefactKind.DLEDGER),
    Part.QUEUES: (ArtefactKind.CONSUME_QUEUE, ArtefactKind.BATCH_QUEUE),
    Part.CONFIG: (ArtefactKind.CONFIG,),
    Part.EPOCHS: (ArtefactKind.EPOCH,),
}


def parts_of(store: Store) -> set[Part]:
    """Say what can be compared of what was asked for: all of a store root, else what is there."""
    if store.asked.kind is ArtefactKind.STORE:
        return set(Part)
    parts = {part for part, kinds in _KINDS.items() if store.branches_of(*kinds)}
    if all(
        artefact.level is FamilyDepth.FILE for artefact in store.branches_of(ArtefactKind.CONFIG)
    ):
        parts.discard(Part.CONFIG)  # a lone file is found by its directory
    return parts


class SideProblem(NamedTuple):
    """Something that could not be read, or is damaged."""

    path: str  # relative to the store root where that is known
    problem: str  # one phrase
    is_unread: bool = True  # so that what is the same was not proven
    physical_offset: int | None = None  # in the log
    length: int | None = None  # bytes of the log
    code: str | None = None  # of the finding


@dataclass
class Side:
    """A store that is compared. A context manager: some files stay open."""

    name: str  # A or B
    store: Store  # the store
    # what could not be read or is damaged, so far
    troubles: list[SideProblem] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.survey.__exit__(*exception)

    @cached_property
    def survey(self) -> Survey:
        """A few reads of each file."""
        return Survey(self.store)

    @property
    def reader(self) -> LogReader:
        """Reads single records."""
        return self.survey.reader

    @cached_property
    def segments(self) -> list[Segment]:
        """All files of the log, in its order."""
        return [segment for files in self.reader.logs for segment in files]

    @property
    def begin(self) -> int:
        """First physical offset that is there."""
        return self.survey.log_start

    @cached_property
    def end(self) -> int:
        """Physical offset past the last record, and a blank that closes its file.

        It is found before anything is compared: what a running broker appends later is not seen.
        """
        tail, log = self.survey.tail, self.survey.commitlog
        if not log:
            return max((segment.end for segment in self.segments), default=0)
        if tail.data_beyond is not None:
            segment = log.at(tail.data_beyond)
            problem = f"past the end of the log at {tail.physical_offset} lies no record of it"
            path = segment.path if segment else log.path
            self.note(SideProblem(path, problem, False, tail.data_beyond))
        return max(tail.physical_offset, self.begin)

    def record_at(self, physical_offset: int) -> LogRecord | NoRecord:
        """Read and verify the record at an offset.

        Raises:
            UnreadablePath: the file may not be read.
        """
        if physical_offset >= self.end and self.store.moment.is_live:
            return NoRecord(physical_offset, WRITTEN_LATER)
        with Log(self.store) as log:
            return log.record_at(physical_offset)

    def time_before(self, physical_offset: int) -> int | None:
        """Give the store time of the last record before an offset, ms since 1970; None for none.

        Raises:
            UnreadablePath: a file may not be read.
        """
        with Log(self.store) as log:
            head = log.previous_record(physical_offset)
        return head.store_timestamp if head else None

    def problem(self, error: RmqtoolError) -> None:
        """Note what could not be read.

        Raises:
            UnreadablePath: a running broker has deleted it meanwhile: all is to be compared anew.
        """
        if isinstance(error, UnreadablePath) and self.store.moment.is_gone(error.path, error):
            raise error
        path, reason = getattr(error, "path", ""), getattr(error, "reason", str(error))
        self.note(SideProblem(path, reason))

    def note(self, trouble: SideProblem) -> None:
        """Note a trouble, once; its path becomes relative to the store root."""
        path = trouble.path.removeprefix(f"{self.store.root}/")
        trouble = trouble._replace(path=path)
        if trouble not in self.troubles:
            self.troubles.append(trouble)

    def all_troubles(self) -> list[SideProblem]:
        """Give what was noted here and in the survey."""
        for problem in self.survey.problems:
            self.note(SideProblem(problem.path, problem.reason))
        return self.troubles
