"""The edits that bring what a replica lends: bytes of files, lengths, whole files."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from rmqtool.broker.conf import FORCES_PROPERTY_CRC
from rmqtool.broker.release import RELEASES
from rmqtool.derive.settings import rules_of
from rmqtool.errors import NotAStore, UnsupportedStore, UsageError
from rmqtool.findings.registry_layout import FS_LEN
from rmqtool.judge.message import RecordOptions
from rmqtool.query.index import KeyIndex
from rmqtool.queues.discovery import Queues
from rmqtool.repair.log.borrowed import Borrower
from rmqtool.repair.log.content import Content, LentBytes
from rmqtool.repair.log.disputed import Witness
from rmqtool.repair.replica.files import lend_files
from rmqtool.repair.replica.folding import Lent
from rmqtool.repair.replica.queues import lend_queues
from rmqtool.repair.replica.vouching import ask_queues
from rmqtool.repair.writer import EditWriter
from rmqtool.store.branch import BranchKind
from rmqtool.store.segment import NAME_DIGITS
from rmqtool.store.tree import open_store
from rmqtool.words import counted

if TYPE_CHECKING:
    from rmqtool.repair.log.borrowed import Loan
    from rmqtool.repair.options import RepairOptions
    from rmqtool.store.segment import Segment
    from rmqtool.store.tree import Store

OPTION: Final = "--from"
COMMITLOG: Final = "commitlog"
MOST_SAID: Final = 10  # stretches that the replica was not used for; the others are counted


def borrow(options: RepairOptions, replica: str) -> Lent:
    """Decide what a store takes from a replica of it; both are only read.

    Args:
        options: of the repair.
        replica: the root of the other store.

    Raises:
        UsageError: it is no replica: no record of the log is in both, or it has no log.
        NotAStore: one of them is no whole store.
        UnsupportedStore: one of them is a node of DLedger, or their files have other lengths.
        UnreadablePath: the log that is repaired cannot be read.
    """
    store, other = open_store(options.store, options.broker_conf), open_store(replica)
    _refuse(store, other)
    records = RecordOptions(force_property_crc=FORCES_PROPERTY_CRC.of(store.broker_conf))
    own_log, other_log = store.commitlog.well_named(), other.commitlog.well_named()
    with (
        Queues(store) as own_queues,
        Queues(other) as other_queues,
        KeyIndex(store) as own_index,
        KeyIndex(other) as other_index,
    ):
        queues = (own_queues, other_queues)
        newest = RELEASES[-1]  # tags codes are the same in all
        witnesses = (
            Witness(own_queues, own_index, rules_of(store, newest)),
            Witness(other_queues, other_index, rules_of(other, newest)),
        )
        borrower = Borrower(own_log, other_log, records, witnesses, ask_queues, options.jobs)
        loans = borrower.loans()
        if not borrower.is_replica:
            reason = f"{other.root} is no replica of {store.root}: no record is in both logs"
            step = f"rmqtool diff {store.root} {other.root}"
            raise UsageError(option=OPTION, reason=reason, step=step)
        writer = EditWriter(store.root)
        for segment, some in groupby(loans, key=lambda one: one.segment):
            _edit(writer, store, other, segment, list(some))
        lend_queues(writer, store, other, queues)
    lend_files(writer, store, other)
    return Lent(writer.edits, _notes(other, borrower))


def _refuse(store: Store, other: Store) -> None:
    if store.root == other.root:
        raise UsageError(option=OPTION, reason="is the store that is repaired; name its replica")
    for one in (store, other):
        if one.asked.kind is not BranchKind.STORE:
            raise NotAStore(path=str(one.root), reason="is no whole store")
        if one.is_dledger:
            reason = "is a node of DLedger: start it without this log, and its group brings it"
            raise UnsupportedStore(path=str(one.root), reason=reason)
    lengths = [one.commitlog.file_length for one in (store, other)]
    if not other.commitlog:
        reason, step = f"{other.root} has no commitlog to lend", f"rmqtool repair {store.root}"
        raise UsageError(option=OPTION, reason=reason, step=f"{step} --dry-run")
    is_known = min(len(store.commitlog), len(other.commitlog)) > 1  # one file may be a damaged one
    if is_known and lengths[0] != lengths[1]:
        reason = (
            f"its log has files of {lengths[1]:,} bytes, that of {store.root} of {lengths[0]:,}"
        )
        raise UnsupportedStore(path=str(other.root), reason=reason)


def _edit(
    writer: EditWriter, store: Store, other: Store, segment: Segment, loans: list[Loan]
) -> None:
    """Bring what one file of the replica lends."""
    own = store.commitlog.well_named()
    length = own.file_length or other.commitlog.file_length
    target = next((one for one in reversed(own.segments) if one.start == segment.start), None)
    contents = [
        (
            loan.start - segment.start,
            Content(loan.end - loan.start, ((0, _bytes(other, loan)),)),
        )
        for loan in loans
    ]
    if target is None:
        whole = Content(length)
        for position, content in contents:
            whole = whole.overlaid(position, content)
        directory = own.places[0] if own.places else store.root.child(COMMITLOG)
        location = directory.child(f"{segment.start:0{NAME_DIGITS}}").location
        reason = "; ".join(source(other, loan) for loan in loans)
        writer.create(location, whole, loans[0].code, reason, mtime_ms=segment.mtime_ms)
        return
    if target.size < max(position + content.size for position, content in contents):
        writer.length(target, length, FS_LEN, "the length that brokers load")
    for one, (position, content) in zip(loans, contents, strict=True):
        writer.write(target, position, content, one.code, source(other, one))


def _bytes(other: Store, loan: Loan) -> LentBytes:
    segment = loan.segment
    position, length = loan.start - segment.start, loan.end - loan.start
    return LentBytes(other.root, segment.path, position, length)


def source(other: Store, loan: Loan) -> str:
    """Say where lent bytes lie."""
    segment = loan.segment
    begin, end = loan.start - segment.start, loan.end - segment.start
    return f"from {other.root}: {segment.path}, bytes {begin} to {end}"


def _notes(other: Store, borrower: Borrower) -> list[str]:
    refused = borrower.refused
    notes = [f"{other.root}: {one}" for one in refused[:MOST_SAID]]
    if more := len(refused) - len(notes):
        notes.append(f"{other.root}: not used for {more:,} further stretches")
    if places := borrower.undecided:
        shown = ", ".join(map(str, places[:MOST_SAID])) + (", …" if places[MOST_SAID:] else "")
        verb = "differs" if len(places) == 1 else "differ"
        kept = f"{counted(len(places), 'record')} of the log {verb} in {other.root}"
        notes.append(f"{kept}, and nothing tells which is damaged: kept as they are, at {shown}")
    return notes
