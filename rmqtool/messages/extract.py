"""`extract`: messages of stores into one new file, which appears complete or not at all."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from rmqtool.errors import UsageError
from rmqtool.messages.options import ExtractFormat
from rmqtool.messages.part import MessagesSent
from rmqtool.messages.sent import SENT
from rmqtool.messages.tables import ParquetMessages
from rmqtool.messages.wanted import Wanted, wanted_of
from rmqtool.plural import counted
from rmqtool.scan.join import run_joined
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.moment import expired_sentences
from rmqtool.tables.defects import log_damage
from rmqtool.tables.inputs import segment_parts, store_of, whole_parts
from rmqtool.tables.messages import PART_BYTES, MessageOptions
from rmqtool.tables.selection import EVERYTHING
from rmqtool.tables.views import VIEWS
from rmqtool.writing.output import OutputFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.errors import StoreError
    from rmqtool.findings.finding import Finding
    from rmqtool.ledger.account import LossAccount
    from rmqtool.messages.options import ExtractOptions
    from rmqtool.messages.part import PartMessages
    from rmqtool.relog.sources import LogSource
    from rmqtool.rows import Row
    from rmqtool.store.segment import SegmentPart
    from rmqtool.store.tree import Store

_SHOWN: Final = 5  # queues that are named
_HELD: Final = "half messages and timer copies"
_LOGS: Final = (ArtefactKind.COMMITLOG, ArtefactKind.DLEDGER)


@dataclass(slots=True)
class Extracted:
    """What an extract wrote, and what it left out."""

    messages: int = 0  # written
    records: int = 0  # of the log, that hold them
    bytes: int = 0  # length of the file
    damaged: int = 0  # messages whose body is not what was sent
    undecoded: int = 0  # messages that the decoder did not decode; their bytes are written
    gaps: int = 0  # stretches of the log that hold no record, and files of it that are not read
    gap_bytes: int = 0  # their length
    torn_bytes: int = 0  # at the end of the log, of what is no whole record
    damaged_files: list[Finding] = field(default_factory=list)  # what is wrong with such files
    delivered_copies: int = 0  # delayed copies that were left out
    held_copies: int = 0  # half messages and timer copies that were left out
    # copies of retried and dead messages that were left out, as their first records are written
    retried_copies: int = 0
    unknown_copies: int = 0  # retried messages that were written, and may be copies
    own_records: int = 0  # records of brokers' own topics
    bridges: int = 0  # records that a repair has put over damage
    # what each store has lost, where that is known and is not nothing
    lost: dict[str, LossAccount] = field(default_factory=dict)
    # queues that the group has no offset for: all of them was taken
    without_offset: set[tuple[str, int]] = field(default_factory=set)
    # open transactions, where those were asked for
    undecided: list[Row] = field(default_factory=list)
    # bytes of the other store that are no record: what lay there counts as lost
    other_gap_bytes: int = 0
    unread: list[StoreError] = field(default_factory=list)  # what could not be read
    # files that a running broker deleted while they were read
    expired: set[str] = field(default_factory=set)

    def add(self, messages: PartMessages) -> None:
        """Count what a part gave."""
        self.messages += messages.messages
        self.records += messages.records
        self.bytes += sum(map(len, messages.chunks))
        self.damaged += messages.damaged
        self.undecoded += messages.undecoded
        self.gaps += len(messages.gaps)
        self.gap_bytes += sum(messages.gaps)
        self.torn_bytes += sum(messages.torn)
        self.delivered_copies += messages.delivered
        self.held_copies += messages.held
        self.retried_copies += messages.repeated
        self.unknown_copies += messages.unknown_copies
        self.own_records += messages.own
        self.bridges += messages.bridges
        self.without_offset |= messages.without_offset
        self.expired |= messages.expired
        if messages.unread is not None and str(messages.unread) not in map(str, self.unread):
            self.unread.append(messages.unread)


class ExtractRun:
    """An extract that was asked for; nothing is written before it runs.

    Args:
        options: what is wanted.

    Attributes:
        total_bytes: of the logs.

    Raises:
        UsageError: an option does not fit what is there.
        StoreError: a store cannot be opened at all.
    """

    def __init__(self, options: ExtractOptions) -> None:
        self.options = options
        self._stores = [(path, _store(path, options)) for path in options.paths]
        self._wanted: list[Wanted] = [wanted_of(store, options) for _, store in self._stores]
        self._other = None if options.lost_in is None else _open_other(options.lost_in)
        offsets = options.selection.offsets
        self.total_bytes = (0 if self._other is None else self._other.size) + sum(
            part.length
            for _, store in self._stores
            for kind in _LOGS
            if store.branches_of(kind)
            for part in segment_parts(store, VIEWS[str(kind)], offsets)
        )

    def run(self, advance: Callable[[int], None] = lambda _: None) -> Extracted:
        """Write the file.

        Args:
            advance: takes the bytes that were read since it was last called.

        Raises:
            OutputExists: the file is there.
            UnreadablePath: the other store cannot be read to its end.
            WriteFailed: the system refused; nothing is left behind.
        """
        done = Extracted()
        with OutputFile(self.options.output) as file, ExitStack() as keep:
            table = None
            if self.options.wanted_format is ExtractFormat.PARQUET:
                columns = self.options.columns or SENT.names
                table = keep.enter_context(ParquetMessages(file.binary, columns))
            for messages in self._messages(done, advance):
                done.add(messages)
                for chunk in messages.chunks:
                    file.binary.write(chunk)
                if table is not None:
                    table.put(messages.tables)
            if done.gaps or done.damaged or done.bridges:
                self._count_lost(done)
            keep.close()
            done.bytes += 0 if table is None else table.length
        return done

    def _messages(self, done: Extracted, advance: Callable[[int], None]) -> Iterator[PartMessages]:
        """Read all logs of all stores."""
        choices = self._choices(done, advance)
        for (path, store), wanted in zip(self._stores, choices, strict=True):
            for kind in _LOGS:
                if store.branches_of(kind):
                    yield from self._parts(path, store, kind, wanted, advance)
                    selection = self.options.selection
                    findings, unread = log_damage(store, VIEWS[str(kind)], selection)
                    done.damaged_files += findings
                    done.gaps += len(findings)
                    done.unread += unread

    def _count_lost(self, done: Extracted) -> None:
        """Count what the stores have lost: no extract has it."""
        from rmqtool.startup.account import lost_of  # sound stores do without it

        for path, store in self._stores:
            account = lost_of(store)
            if account is not None and account.messages:
                done.lost[path] = account

    def _choices(self, done: Extracted, advance: Callable[[int], None]) -> Iterator[Wanted]:
        """Give what is wanted of each store, with what has to be read for it."""
        known = None
        if self._other is not None:
            from rmqtool.messages.choice import known_in

            known, done.other_gap_bytes = known_in(self._other, advance, self.options.jobs)
        for (_, store), wanted in zip(self._stores, self._wanted, strict=True):
            waiting = None
            if self.options.undecided or self.options.pending:
                from rmqtool.messages.choice import places_of, waiting_messages
                from rmqtool.tables.pending import open_transactions

                transactions = list(open_transactions(store))
                done.undecided += transactions
                messages = waiting_messages(store) if self.options.pending else []
                waiting = places_of(transactions, messages)
            yield replace(wanted, known=known, waiting=waiting)

    def _parts(
        self,
        path: str,
        store: Store,
        kind: ArtefactKind,
        wanted: Wanted,
        advance: Callable[[int], None],
    ) -> Iterator[PartMessages]:
        """Read one log, several parts at a time."""
        options = self.options
        # Topic, queue and queue offset are those that a message was sent to: not of each record.
        selection = replace(
            options.selection,
            topics=wanted.stored_topics,
            queue_id=None,
            queue_offsets=EVERYTHING,
        )
        records = MessageOptions(selection, options.body)
        read = MessagesSent(
            path, records, wanted, options.wanted_format, options.columns or SENT.names
        )
        view = VIEWS[str(kind)]
        parts = whole_parts(store, view, selection.offsets, PART_BYTES, read)
        is_plain = kind is ArtefactKind.COMMITLOG and selection.offsets == EVERYTHING
        if not is_plain or not selection.is_indexed:
            yield from self._joined(store, read, parts, advance)
            return
        from rmqtool.tables.assisted import by_segment  # most extracts do without

        for whole, some in by_segment(parts):
            pieces = read.assisted(store, whole)
            if pieces is None:
                yield from self._joined(store, read, some, advance)
                continue
            advance(whole.length)
            for piece in pieces:
                piece.judge_expired(store, whole)
                yield piece

    def _joined(
        self,
        store: Store,
        read: MessagesSent,
        parts: list[SegmentPart],
        advance: Callable[[int], None],
    ) -> Iterator[PartMessages]:
        """Read parts of a log as a whole."""
        for part, messages in run_joined(read, parts, jobs=self.options.jobs):
            advance(part.length)
            for piece in chain([messages], read.rest(part, messages)):
                piece.judge_expired(store, part)
                yield piece


def _store(path: str, options: ExtractOptions) -> Store:
    """Open a store that has a log.

    Raises:
        UsageError: it has none.
        StoreError: it cannot be opened.
    """
    store = store_of(path, options.broker_conf, None)
    if not store.branches_of(*_LOGS):
        raise UsageError(option="STORE", reason=f"{path}: there is no commitlog here")
    return store


def _open_other(path: str) -> LogSource:
    """Open what messages may be in, too; see `elsewhere`, which most extracts do not load."""
    from rmqtool.messages.choice import open_other

    return open_other(path)


def sentences(done: Extracted, group: str | None) -> Iterator[str]:
    """Give what is not in the file, and what in it is not whole.

    Args:
        done: the extract.
        group: whose committed offsets counted.
    """
    if stretches := done.gaps - len(done.damaged_files):
        yield (
            f"{counted(stretches, 'damaged stretch', 'damaged stretches')} of the log, "
            f"{done.gap_bytes:,} bytes: messages there are not in the file"
        )
    if done.torn_bytes:
        yield (
            f"left out: {done.torn_bytes:,} bytes at the end of the log, a record written only in "
            "part, or an old one"
        )
    yield from _not_whole(done)
    if done.without_offset:
        named = [f"{topic} queue {number}" for topic, number in sorted(done.without_offset)]
        more = f" and {len(named) - _SHOWN:,} more" if len(named) > _SHOWN else ""
        queues = counted(len(named), "queue")
        yield (
            f"group {group} has no offset for {queues}, so all messages there count: "
            f"{', '.join(named[:_SHOWN])}{more}"
        )
    if done.other_gap_bytes:
        yield (
            f"the other store is damaged: {done.other_gap_bytes:,} bytes hold no record, and "
            "their messages count as lost"
        )
    yield from expired_sentences(done.expired)
    if done.undecided:
        from rmqtool.messages.choice import decisions

        yield from decisions(done.undecided)
    if done.retried_copies:
        copies = counted(done.retried_copies, "copy", "copies")
        yield (
            f"left out: {copies} of retried and dead messages, each written as it was first "
            "sent; --held writes all copies, --dead-letters GROUP those of a group"
        )
    if done.unknown_copies:
        yield (
            f"{counted(done.unknown_copies, 'retried message')} may be there twice: the key index "
            "does not have the records that tell; rmqtool rebuild-index rebuilds it"
        )
    if done.held_copies:
        yield (
            f"left out: {counted(done.held_copies, 'half message or timer copy', _HELD)}; "
            "--pending writes the waiting ones, --held all"
        )


def _not_whole(done: Extracted) -> Iterator[str]:
    """Say what is damaged, and what was not decoded."""
    for file in done.damaged_files[:_SHOWN]:
        yield f"{file.path}: {file.message} ({file.code})"
    for path, account in done.lost.items():
        yield f"{account.sentence()}: rmqtool doctor {shlex.quote(path)} lists them"
    if done.damaged:
        yield f"{counted(done.damaged, 'damaged message')}: see column code"
    if done.undecoded:
        yield f"{counted(done.undecoded, 'message')} not decoded: see column body_error"
