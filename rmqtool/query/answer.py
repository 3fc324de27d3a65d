"""What a request found: records, how each is known, and where else was looked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rmqtool.query.explain import Trail

if TYPE_CHECKING:
    from rmqtool.query.log import LogRange, LogRecord
    from rmqtool.query.requests import Request

BY_OFFSET: Final = "physical offset"
BY_COVERING: Final = "offset inside of it"
BY_INDEX: Final = "index"
BY_QUEUE: Final = "consume queue"
BY_SEARCH: Final = "search of the log"
BY_TIME: Final = "store time"
NEIGHBOUR: Final = "neighbour"  # how a message fits that stands beside the one that was asked for


@dataclass(slots=True)
class Hit:
    """One record that was found and verified."""

    record: LogRecord  # what it is
    found_by: str  # what led to it
    how: str = ""  # as what it fits the request, such as `key`
    stage: str = ""  # in the life of a message, where that was asked for
    note: str = ""  # what a person ought to know, or empty


@dataclass(slots=True)
class Answer:
    """What one request found."""

    request: Request  # what was asked
    hits: list[Hit] = field(default_factory=list)  # records in the order of the log, each once
    trail: Trail = field(default_factory=Trail)  # the way to them
    taken_for: str = ""  # what the request was taken for, one phrase
    # what is wrong with the request or the store, and what is nearest; may be empty
    problem: str = ""
    rows: list[dict[str, object]] | None = None  # of queues, for times
    doubtful: set[str] = field(default_factory=set)  # index files that turned out to be damaged
    # stretches of the log that were searched
    searched: list[LogRange] = field(default_factory=list)
    # trace records of the message, by physical offset, where its life was asked for
    traces: dict[int, LogRecord] = field(default_factory=dict)
    may_search: bool = False  # a place of a queue may be found by searching the log

    @property
    def is_found(self) -> bool:
        """Whether there is an answer."""
        return bool(self.hits or self.rows)

    def take(self, hit: Hit) -> bool:
        """Add a record unless it is there; tell whether it was new."""
        offset = hit.record.physical_offset
        if any(hit.record.physical_offset == offset for hit in self.hits):
            return False
        self.hits.append(hit)
        self.hits.sort(key=lambda hit: hit.record.physical_offset)
        return True

    @property
    def summary(self) -> str:
        """Say in one sentence what came of it."""
        if self.is_found:
            return "; ".join(filter(None, (self.taken_for, self._known(), self.problem)))
        where = "; ".join(self.trail.searched) or "nothing could be searched"
        words = [f"not found: {self.request}", self.taken_for, self.problem]
        return "; ".join([*filter(None, words), f"searched: {where}"])

    def _known(self) -> str:
        hits = [hit for hit in self.hits if hit.how != NEIGHBOUR]
        if not hits:
            return ""
        ways = " and ".join(dict.fromkeys(hit.found_by for hit in hits))
        first = hits[0]
        verified = first.record.verified if len(hits) == 1 else "each record"
        how = ", ".join(dict.fromkeys(filter(None, (hit.how for hit in hits))))
        how = "" if how == ways else how
        count = "1 message" if len(hits) == 1 else f"{len(hits):,} messages"
        words = [f"{count} by {ways}, verified: {', '.join(filter(None, (how, verified)))}"]
        words += dict.fromkeys(filter(None, (hit.note for hit in hits)))
        if others := len(self.hits) - len(hits):
            words.append(f"{others} neighbours")
        return "; ".join(words)
