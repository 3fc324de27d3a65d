"""The edits that bring what a replica lends to the log: bytes of files, lengths, whole files."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker.conf import FORCES_PROPERTY_CRC
from rmqtool.check.log.message import RecordOptions
from rmqtool.errors import NotAStore, UnsupportedStore, UsageError
from rmqtool.findings.registry_layout import FS_LEN
from rmqtool.repair.log.borrowed import Borrower
from rmqtool.repair.log.content import Content, LentBytes
from rmqtool.repair.writer import EditWriter
from rmqtool.store.branch import BranchKind
from rmqtool.store.segment import NAME_DIGITS
from rmqtool.store.tree import open_store

if TYPE_CHECKING:
    from rmqtool.repair.log.borrowed import Loan
    from rmqtool.repair.options import RepairOptions
    from rmqtool.repair.plans import Edit
    from rmqtool.store.segment import MappedFiles, Segment
    from rmqtool.store.tree import Store

OPTION: Final = "--from"
MOST_SAID: Final = 10  # stretches that the replica was not used for; the others are counted


class Lent(NamedTuple):
    """What a replica lends.

    Attributes:
        edits: that bring it, in order.
        notes: where it was not used, and why.
    """

    edits: list[Edit]
    notes: list[str]


NOTHING_LENT: Final = Lent([], [])


def borrow(options: RepairOptions, replica: str) -> Lent:
    """Decide what a store takes from a replica of it; both are only read.

    Args:
        options: of the repair.
        replica: the root of the other store.

    Raises:
        UsageError: it is no replica: no record of the log is in both.
        NotAStore: one of them is no whole store.
        UnsupportedStore: one of them is a node of DLedger, or their files have other lengths.
        UnreadablePath: the log that is repaired cannot be read.
    """
    store, other = open_store(options.store, options.broker_conf), open_store(replica)
    _refuse(store, other)
    records = RecordOptions(force_property_crc=FORCES_PROPERTY_CRC.of(store.broker_conf))
    own_log, other_log = store.commitlog.well_named(), other.commitlog.well_named()
    borrower = Borrower(own_log, other_log, records, options.jobs)
    loans = borrower.loans()
    if not borrower.is_replica:
        reason = f"{other.root} is no replica of {store.root}: their logs have no record in common"
        raise UsageError(
            option=OPTION, reason=reason, step=f"rmqtool diff {store.root} {other.root}"
        )
    writer = EditWriter(store.root)
    for segment, some in groupby(loans, key=lambda one: one.segment):
        _edit(writer, own_log, other, segment, list(some))
    return Lent(writer.edits, _notes(other, borrower.refused))


def _refuse(store: Store, other: Store) -> None:
    if store.root == other.root:
        raise UsageError(option=OPTION, reason="is the store that is repaired; name its replica")
    for one in (store, other):
        if one.asked.kind is not BranchKind.STORE:
            raise NotAStore(path=str(one.root), reason="is no whole store")
        if one.is_dledger:
            reason = "is a node of DLedger: start it without this log, and its group brings it"
            raise UnsupportedStore(path=str(one.root), reason=reason)
        if not one.commitlog:
            raise NotAStore(path=str(one.root), reason="has no commitlog")
    lengths = [one.commitlog.file_length for one in (store, other)]
    is_known = min(len(store.commitlog), len(other.commitlog)) > 1  # one file may be a damaged one
    if is_known and lengths[0] != lengths[1]:
        reason = (
            f"its log has files of {lengths[1]:,} bytes, that of {store.root} of {lengths[0]:,}"
        )
        raise UnsupportedStore(path=str(other.root), reason=reason)


def _edit(
    writer: EditWriter, own: MappedFiles, other: Store, segment: Segment, loans: list[Loan]
) -> None:
    """Bring what one file of the replica lends."""
    length = own.file_length
    target = next((one for one in reversed(own.segments) if one.start == segment.start), None)
    contents = [
        (
            one.start - segment.start,
            Content(one.end - one.start, ((0, _bytes(other, one)),)),
        )
        for one in loans
    ]
    if target is None:
        whole = Content(length)
        for position, content in contents:
            whole = whole.overlaid(position, content)
        location = own.places[0].child(f"{segment.start:0{NAME_DIGITS}}").location
        reason = "; ".join(source(other, one) for one in loans)
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


def _notes(other: Store, refused: list[str]) -> list[str]:
    notes = [f"{other.root}: {one}" for one in refused[:MOST_SAID]]
    more = len(refused) - len(notes)
    return [*notes, f"{other.root}: not used for {more} further stretches"] if more else notes
