"""What a validation is asked: the store, the areas, how deep, and what counts as failure."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rmqtool.broker.release import Version
from rmqtool.errors import UsageError
from rmqtool.findings.catalogue import Area, Severity
from rmqtool.findings.registry import CODES
from rmqtool.findings.registry_layout import FS_READ
from rmqtool.plural import nearest

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from rmqtool.findings.catalogue import Code
    from rmqtool.findings.finding import Finding

AREAS: Final = tuple(map(str, Area))
# Areas that are not cut by topic: with --topic they would judge what nobody asked about.
TOPIC_AREAS: Final = frozenset(
    {Area.COMMITLOG, Area.CONSUME_QUEUE, Area.EXTENSION, Area.BATCH_QUEUE, Area.OFFSETS}
)
# What is judged only when records are read, at least in part.
LOG_AREAS: Final = frozenset(
    {Area.COMMITLOG, Area.DLEDGER, Area.CONSUME_QUEUE, Area.BATCH_QUEUE, Area.INDEX}
)
UNREAD: Final = FS_READ


class CheckLevel(enum.StrEnum):
    """How deep a validation goes; each level has all of the one before.

    quick: names, lengths, headers and tails. full: every record, unit and entry, with the body's
    and the properties' CRC. deep: bodies are decompressed and properties parsed, too.
    """

    QUICK = "quick"
    FULL = "full"
    DEEP = "deep"

    @property
    def reads_log(self) -> bool:
        """Whether every record is read."""
        return self is not CheckLevel.QUICK

    @property
    def is_deep(self) -> bool:
        """Whether what records hold is looked into."""
        return self is CheckLevel.DEEP


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    """What `validate` was asked."""

    store: str | os.PathLike[str]  # store root, a directory of it, or one file
    only: frozenset[str] = frozenset()  # areas or finding codes to report; empty is all
    level: CheckLevel = CheckLevel.FULL  # how deep
    topic: str | None = None  # the one topic whose queues are compared; None is all
    ignore: frozenset[str] = frozenset()  # finding codes that are not reported and do not count
    fail_on: Severity = Severity.DAMAGE  # the least severity that makes the exit code 1
    # the broker that is to run on the store; None is whoever wrote it
    broker_version: str | None = None
    broker_conf: str | os.PathLike[str] | None = None  # its configuration file
    jobs: int | None = None  # threads; None is one for each processor
    # an earlier manifest: what a broker does not touch again is not read again
    since: str | os.PathLike[str] | None = field(default=None, kw_only=True)
    keeps_book: bool = field(default=False, kw_only=True)  # make a manifest
    # with the checksums that brokers compute for a range of the log
    range_checksums: bool = field(default=False, kw_only=True)
    # who runs the broker, by name or number; None is whoever owns most of the store
    as_user: str | None = field(default=None, kw_only=True)
    part_bytes: int = field(default=32 << 20, kw_only=True)  # how much of a segment one task reads

    def __post_init__(self) -> None:
        if unknown := self.only - CODES.keys() - frozenset(AREAS):
            word = min(unknown)
            near = nearest(word, [*AREAS, *CODES])
            hint = f"nearest: {' '.join(near)}" if near else f"areas: {' '.join(AREAS)}"
            reason = f"{word} is neither a finding code nor an area; {hint}"
            raise UsageError(option="--only", reason=reason)
        if unknown := self.ignore - CODES.keys():
            word = min(unknown)
            near = nearest(word, CODES)
            hint = f"; nearest: {' '.join(near)}" if near else ""
            raise UsageError(option="--ignore", reason=f"no finding code {word}{hint}")
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(option="--jobs", reason=f"{self.jobs} threads can do nothing")
        if self.broker_version is not None:
            Version.parse(self.broker_version)

    def wants(self, *areas: str) -> bool:
        """Tell whether one of these areas is to be checked."""
        if not self.only:
            return self.topic is None or not TOPIC_AREAS.isdisjoint(areas)
        asked = {CODES[word].area if word in CODES else word for word in self.only}
        return not asked.isdisjoint(areas)

    @property
    def reads_records(self) -> bool:
        """Whether what records say is judged, not only where they lie and whether they are whole.

        The area alone, at full level, does without: it is read as fast as its checksums.
        """
        if not self.only or self.level.is_deep:
            return self.wants(Area.COMMITLOG)
        return any(word in CODES and CODES[word].area == Area.COMMITLOG for word in self.only)

    def keeps(self, finding: Finding) -> bool:
        """Tell whether a finding is to be reported: of queues several codes are of both kinds."""
        if self.keeps_code(finding.code):
            return True
        is_of_batches = finding.path.startswith(f"{Area.BATCH_QUEUE}/")
        is_shared = is_of_batches and finding.code.area == Area.CONSUME_QUEUE
        return is_shared and Area.BATCH_QUEUE in self.only and finding.code not in self.ignore

    def keeps_code(self, code: Code) -> bool:
        """Tell whether findings of a code are to be reported; what cannot be read always is."""
        if code in self.ignore:
            return False
        return not self.only or code in self.only or code.area in self.only or code == UNREAD

    def looks_for(self, code: Code) -> bool:
        """Tell whether this validation would report a code if it were the case."""
        return self.wants(code.area) and self.keeps_code(code)

    def limits(self) -> Iterator[tuple[str, str]]:
        """Say what was not asked for, and by which option."""
        if self.only:
            yield f"all but {' '.join(sorted(self.only))}", "--only"
        if self.topic is not None:
            yield (
                f"queues of other topics than {self.topic}, and files that are not cut by topic",
                "--topic",
            )
        for code in sorted(self.ignore):
            yield f"findings of code {code}", "--ignore: they are neither told nor counted"

    @property
    def version(self) -> Version | None:
        """The broker's version; None when nobody named one."""
        return None if self.broker_version is None else Version.parse(self.broker_version)
