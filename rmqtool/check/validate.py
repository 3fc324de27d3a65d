"""Validate a store: what its checks find, streamed, and the account of what was looked at."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rmqtool.broker.release import COMMONEST
from rmqtool.check.checks import Checks
from rmqtool.check.findings_list import Bounded
from rmqtool.check.manifest.manifest import Manifest
from rmqtool.check.manifest.manifest_ledger import Ledger
from rmqtool.check.observer import Observers
from rmqtool.check.options import UNREAD
from rmqtool.check.report import Account, Summary
from rmqtool.errors import UnreadablePath
from rmqtool.machine import announce
from rmqtool.store.record_heads import LogReader
from rmqtool.store.refused import refused_reads
from rmqtool.store.remote_listing import listed_once
from rmqtool.store.tail import WALKED_RECORDS, Walker
from rmqtool.store.tree import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from rmqtool.broker.release import Version
    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.observer import Observer
    from rmqtool.check.options import ValidateOptions
    from rmqtool.findings.catalogue import Code, Severity
    from rmqtool.findings.finding import Finding
    from rmqtool.store.place import Place

SOUND: Final = 0
DAMAGED: Final = 1
INCOMPLETE: Final = 3


class Findings:
    """The findings of one validation; they stream, and the summary is known after the last one.

    Attributes:
        summary: what was checked, and what not.
        ledger: keeps book for a manifest; None when nobody asked for one.
    """

    def __init__(
        self,
        options: ValidateOptions,
        watch: Callable[[int], None],
        observer: Observer | None = None,
        before: Manifest | None = None,
        place: Place | None = None,
    ) -> None:
        """Begin; nothing is read yet.

        Args:
            options: what to validate, and how.
            watch: takes the bytes of the commitlog done since it was last called.
            observer: sees what is read, for a report.
            before: of the last round over this store with these options, which said what it found.
            place: the root to read in place of the one that was asked for.
        """
        self._options, self._watch, self._observer = options, watch, observer
        self._store = open_store(place or options.store, options.broker_conf)
        self.summary = Summary(Account())
        self._checks: Checks | None = None
        self.ledger: Ledger | None = None
        if before is not None:
            self.ledger = Ledger(before)
        elif options.since is not None or options.keeps_book:
            given = None if options.since is None else Manifest.read(options.since)
            self.ledger = Ledger(given, os.fspath(options.since or ""))

    @property
    def location(self) -> str:
        """Absolute path of the store root."""
        return str(self._store.root)

    @property
    def version(self) -> Version:
        """Release that is to run on the store, or may have written it, as far as is known yet."""
        return self._checks.inspection.scope.version if self._checks else COMMONEST

    @property
    def total_bytes(self) -> int:
        """Bytes of the commitlog that are going to be read, for a progress bar."""
        if not self._options.level.reads_log:
            return 0
        try:
            return self._store.commitlog.size + self._store.old_commitlog.size
        except UnreadablePath:
            return 0

    def __iter__(self) -> Generator[Finding, None, None]:
        """Validate, and yield each finding when it is found."""
        with listed_once(self._store.root):
            yield from self._found()

    def _found(self) -> Iterator[Finding]:
        begin, compiling = time.monotonic(), announce.seconds()
        bounded = Bounded()
        self.summary.codes = bounded.counts  # while it grows: an interrupted run has counted, too
        account = self.summary.account
        observers = Observers(self._watch, self._observer, self.ledger)
        checks = self._checks = Checks(self._store, self._options, account, observers)
        try:
            read = _refused(checks.inspection, checks.run())
            found = _once(account, _keep_book(checks, self.ledger, read))
            yield from bounded.take(filter(self._options.keeps, found))
            bounded.add(_kept(checks.facts, self._options).items())
            yield from bounded.rest()
            account.since = self._since(checks.facts)
            self.summary.is_finished = True
        finally:
            checks.close()
            compiling = announce.seconds() - compiling
            self.summary.seconds = max(time.monotonic() - begin - compiling, 0.0)

    def _since(self, facts: LogFacts) -> int | None:
        """Count the records that a running broker has stored after the last one that was read."""
        if not self._store.lock_held() or facts.last_record < 0:
            return None
        with suppress(UnreadablePath):  # a file that expired meanwhile
            now = open_store(self._options.store, self._options.broker_conf)  # with its new files
            with LogReader(now.commitlog) as reader:
                if (head := reader.head_at(facts.last_record)) is not None:
                    walker = Walker(now.commitlog, reader, is_dledger=now.is_dledger)
                    return walker.walk(head, WALKED_RECORDS).records - 1
        return None

    @property
    def exit_code(self) -> int:
        """0 nothing at or above --fail-on, 1 found something, 3 some input could not be read."""
        if self.summary.account.unread:
            return INCOMPLETE
        limit = self._options.fail_on.rank
        failed = any(
            count for severity, count in self.summary.counts.items() if severity.rank >= limit
        )
        return DAMAGED if failed else SOUND


def validate(
    options: ValidateOptions,
    watch: Callable[[int], None] = lambda _: None,
    observer: Observer | None = None,
    place: Place | None = None,
) -> Findings:
    """Begin to validate a store; reading goes on while the findings are read.

    Args:
        options: what to validate, and how.
        watch: takes the bytes of the commitlog done since it was last called.
        observer: sees what is read, for a report.
        place: the root to read in place of the one that was asked for: a store as edits leave it.

    Raises:
        UnreadablePath: the store cannot be opened at all.
        NotAStore: nothing of a store was recognised.
        UnsupportedStore: it is a RocksDB database.
    """
    return Findings(options, watch, observer, place=place)


def _kept(facts: LogFacts, options: ValidateOptions) -> dict[tuple[Code, Severity], int]:
    """Give what was only counted, as far as it was asked for."""
    return {key: count for key, count in facts.counted.items() if options.keeps_code(key[0])}


def _keep_book(
    checks: Checks, ledger: Ledger | None, found: Iterator[Finding]
) -> Iterator[Finding]:
    """Let a ledger, if there is one, look at what is found."""
    if ledger is None:
        yield from found
        return
    yield from ledger.begin(checks.inspection)
    yield from ledger.watch(found)
    yield from ledger.finish(checks.inspection, checks.facts)


def _once(account: Account, found: Iterator[Finding]) -> Iterator[Finding]:
    """Leave out what says again that something cannot be read: several checks want it.

    What a running broker deleted meanwhile is counted, and no finding.
    """
    seen = set()
    for one in found:
        if one.code == UNREAD:
            if one.path in seen or one.path in account.expired:
                continue
            seen.add(one.path)
        yield one


def _refused(inspection: Inspection, found: Iterator[Finding]) -> Iterator[Finding]:
    """Add what the disk refused to read without that any check said so."""
    with refused_reads() as refused:
        yield from found
    for error in refused.values():
        path = inspection.path_of(error.path)
        if not (inspection.is_below_unread(path) or inspection.is_known_unread(error.path)):
            yield inspection.unread(path, error)
