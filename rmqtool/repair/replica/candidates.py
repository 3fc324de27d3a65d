"""The edits that bring what a replica lends: bytes of files, lengths, whole files."""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.conf import FORCES_PROPERTY_CRC
from rmqtool.broker.names import LMQ_PREFIX, is_deleted
from rmqtool.broker.release import RELEASES
from rmqtool.derive.settings import rules_of
from rmqtool.errors import NotAStore, UnreadablePath, UnsupportedStore, UsageError
from rmqtool.findings.registry_consume_queue import CQ_GAP
from rmqtool.findings.registry_layout import FS_LEN
from rmqtool.findings.registry_state import CF_JSON
from rmqtool.formats.config_names import (
    DELAYS_JSON,
    FILTERS_JSON,
    GROUPS_JSON,
    MAPPINGS_JSON,
    MODES_JSON,
    OFFSETS_JSON,
    ORDERS_JSON,
    TOPICS_JSON,
)
from rmqtool.formats.config_shapes import topics
from rmqtool.formats.message import LONGEST_PROPERTIES
from rmqtool.judge.message import RecordOptions
from rmqtool.plural import counted
from rmqtool.queues.discovery import Queues
from rmqtool.repair.log.content import Content, LentBytes
from rmqtool.repair.log.disputed import Witness
from rmqtool.repair.log.from_replica import Borrower, Vouch
from rmqtool.repair.plans import place_of
from rmqtool.repair.replica.merge_edits import Lent
from rmqtool.repair.state.config import has_topics, is_config
from rmqtool.repair.writer import EditWriter
from rmqtool.store.artefact import ArtefactKind, FamilyDepth
from rmqtool.store.config_files import BACKUP, LARGEST_CONFIG
from rmqtool.store.key_index import KeyIndex
from rmqtool.store.segment import NAME_DIGITS
from rmqtool.store.tree import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.queues.units import QueueUnits
    from rmqtool.repair.log.from_replica import Loan
    from rmqtool.repair.options import RepairOptions
    from rmqtool.store.place import Place
    from rmqtool.store.record_heads import LogReader, RecordHead
    from rmqtool.store.segment import Segment
    from rmqtool.store.tree import Store


OPTION: Final = "--from"
COMMITLOG: Final = "commitlog"
MOST_NOTED: Final = 10  # stretches that the replica was not used for; the others are counted


def borrow(options: RepairOptions, replica: str) -> Lent:
    """Decide what a store takes from a replica of it; both are only read.

    Args:
        options: of the repair.
        replica: the root of the other store.

    Raises:
        UsageError: it is no replica: no record of the log is in both, or it has no log.
        NotAStore: one of them is not a whole store.
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
            reason = f"{other.root} is not a replica of {store.root}: their logs share no record"
            step = f"rmqtool diff {store.root} {other.root}"
            raise UsageError(option=OPTION, reason=reason, step=step)
        writer = EditWriter(store.root)
        for segment, some in groupby(loans, key=lambda loan: loan.segment):
            _edit(writer, store, other, segment, list(some))
        lend_queues(writer, store, other, queues)
    lend_files(writer, store, other)
    return Lent(writer.edits, _notes(other, borrower))


def _refuse(store: Store, other: Store) -> None:
    if store.root == other.root:
        raise UsageError(option=OPTION, reason="is the store that is repaired; name its replica")
    for side in (store, other):
        if side.asked.kind is not ArtefactKind.STORE:
            raise NotAStore(path=str(side.root), reason="is not a whole store")
        if side.is_dledger:
            reason = "is a node of DLedger: start it without this log, and its group brings it"
            raise UnsupportedStore(path=str(side.root), reason=reason)
    lengths = [store.commitlog.file_length for store in (store, other)]
    if not other.commitlog:
        reason, step = f"{other.root} has no commitlog to lend", f"rmqtool repair {store.root}"
        raise UsageError(option=OPTION, reason=reason, step=f"{step} --dry-run")
    is_known = min(len(store.commitlog), len(other.commitlog)) > 1  # one file may be a damaged one
    if is_known and lengths[0] != lengths[1]:
        own, others = lengths
        reason = f"its log has files of {others:,} bytes, the log of {store.root} of {own:,}"
        raise UnsupportedStore(path=str(other.root), reason=reason)


def _edit(
    writer: EditWriter, store: Store, other: Store, segment: Segment, loans: list[Loan]
) -> None:
    """Bring what one file of the replica lends."""
    own = store.commitlog.well_named()
    length = own.file_length or other.commitlog.file_length
    target = next((other for other in reversed(own.segments) if other.start == segment.start), None)
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
    for loan, (position, content) in zip(loans, contents, strict=True):
        writer.write(target, position, content, loan.code, source(other, loan))


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
    notes = [f"{other.root}: {reason}" for reason in refused[:MOST_NOTED]]
    if more := len(refused) - len(notes):
        notes.append(f"{other.root}: not used for {more:,} further stretches")
    if places := borrower.undecided:
        shown = ", ".join(map(str, places[:MOST_NOTED])) + (", …" if places[MOST_NOTED:] else "")
        verb = "differs" if len(places) == 1 else "differ"
        kept = f"{counted(len(places), 'record')} of the log {verb} in {other.root}"
        notes.append(f"{kept}, and nothing tells which is damaged: kept as they are, at {shown}")
    return notes


# Whether the queues of a store speak of another store's log: what tells where no record is left.
#
# A unit says where a record lies and how long it is. A log without a record, next to queues with
# units, has lost all of it: the log that has these records, at these places, is the same log.


FIELDS: Final = ("physical_offset", "size")
OF_EACH: Final = 8  # units of a queue that are asked, from all over it: noise is in one place
MOST: Final = 512
FEWEST: Final = 3  # records that have to be where units say; by chance one may be


def ask_queues(queues: Queues, other: LogReader) -> Vouch:
    """Say whether records of a log lie where the units of other queues have them.

    Topic and numbers of a light queue are not those of its records, which name it in a property.

    Args:
        queues: of the store that is repaired.
        other: the log that lends.
    """
    same = others = 0
    for topic, queue_id, number, physical_offset, size in islice(_units(queues), MOST):
        if not physical_offset or other.segment_at(physical_offset) is None:
            continue
        head = other.head_at(physical_offset)
        is_same = False
        if head is not None and head.size == size:
            its = other.topic_of(head), head.queue_id, head.queue_offset
            is_light = topic.startswith(LMQ_PREFIX)
            is_same = _names(head, topic, other) if is_light else its == (topic, queue_id, number)
        same += is_same
        others += not is_same
    if same >= FEWEST and same > others:
        return Vouch.SAME
    return Vouch.OTHER if others else Vouch.NOTHING


def _names(head: RecordHead, topic: str, log: LogReader) -> bool:
    """Tell whether the properties of a record, which end it, name a light queue."""
    length = min(head.size, LONGEST_PROPERTIES)
    return topic.encode() in log.read_at(head.end - length, length)


def _units(queues: Queues) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield topic, queue, number, place and size of some units of each queue."""
    for source in (queues.files, queues.database):
        try:
            for queue in source.queues():
                for number, units in islice(queue.used(), 1):
                    used = np.flatnonzero(units["size"])
                    count = min(OF_EACH, len(used))
                    for at in used[np.linspace(0, len(used) - 1, count, dtype=int)].tolist():
                        place, size = (int(units[name][at]) for name in FIELDS)
                        yield queue.topic, queue.queue_id, number + at, place, size
        except UnreadablePath:
            continue


# Configuration that a replica lends: JSON files that a store cannot read, or has not at all.
#
# A store's own `.bak` goes first, as brokers take it; a slave's file is a copy of its master's.
# See ConfigManager#load, SlaveSynchronize#syncAll, 4.9.3 to 5.5.0.


DIRECTORY: Final = "config"
# What a slave fetches from its master, or a broker cannot make anew.
NAMES: Final = (
    TOPICS_JSON, OFFSETS_JSON, DELAYS_JSON, GROUPS_JSON,
    FILTERS_JSON, ORDERS_JSON, MAPPINGS_JSON,
    "timermetrics", MODES_JSON,
)  # fmt: skip


def lend_files(writer: EditWriter, store: Store, other: Store) -> None:
    """Bring the JSON files that the store has not, neither as file nor as backup.

    Args:
        writer: takes the edits.
        store: that is repaired.
        other: that lends.
    """
    own, theirs = _directory(store), _directory(other)
    if theirs is None:
        return
    target = own or store.root.child(DIRECTORY)
    for name in NAMES:
        if own is not None and _sound(own, name) is not None:
            continue
        there = target.child(name).stat()
        is_missing = there is None and target.child(name + BACKUP).stat() is None
        if is_missing and store.config_in_rocksdb:
            continue
        sound = _sound(theirs, name)
        if sound is None:
            continue
        path, raw = sound
        reason = f"from {other.root}: {DIRECTORY}/{path}, bytes 0 to {len(raw)}"
        place = target.child(name)
        if there is None:
            writer.create(place.location, Content.of(raw), CF_JSON, reason)
        else:
            writer.replace(place.location, Content.of(raw), CF_JSON, reason)


def _directory(store: Store) -> Place | None:
    for artefact in store.branches_of(ArtefactKind.CONFIG):
        if artefact.level is not FamilyDepth.FILE:
            return artefact.place
    return None


def _sound(directory: Place, name: str) -> tuple[str, bytes] | None:
    """Give what a broker would load: the file, or its backup; None where neither can be parsed."""
    for path in (name, name + BACKUP):
        with suppress(UnreadablePath):
            raw = directory.child(path).read_whole(LARGEST_CONFIG)
            if is_config(name, raw) and (name != TOPICS_JSON or has_topics(raw)):
                return path, raw
    return None


# Queues that a replica lends: those that no log has a record of any more.
#
# All other queues, and the index, follow from the log, in the same bytes. But where all records of
# a
# queue have expired, its last unit alone says which queue offset comes next: without it the broker
# begins at 0 again, and groups that have consumed more pass over what comes.
# See ConsumeQueue#deleteExpiredFile (the last file stays), QueueOffsetOperator, 4.9.3 to 5.5.0.


DIRECTORY_OF_QUEUES: Final = "consumequeue"


def lend_queues(
    writer: EditWriter, store: Store, other: Store, queues: tuple[Queues, Queues]
) -> None:
    """Bring the files of queues of which both logs have no record, and only the replica the end.

    Args:
        writer: takes the edits.
        store: that is repaired.
        other: that lends.
        queues: of both, in this order.
    """
    own, theirs = queues
    logs = [store.commitlog for store in (store, other) if store.commitlog]
    start, end = (
        min((log.start for log in logs), default=0),
        max((log.end for log in logs), default=0),
    )
    known = {topic.topic for topic in topics(store.config(TOPICS_JSON).document)}
    try:
        for queue in theirs.files.queues():
            if is_deleted(queue.topic, known, ()):
                continue
            if _is_lent(own.files.queue(queue.topic, queue.queue_id), queue, (start, end)):
                for segment in queue.files:
                    _bring(writer, store, other, segment)
    except UnreadablePath:
        return  # what cannot be read lends nothing


def _is_lent(own: QueueUnits | None, theirs: QueueUnits, log: tuple[int, int]) -> bool:
    """Tell whether a queue is sound, wholly expired, and goes further than the own one.

    Args:
        own: the queue of the store that is repaired, whose units may be noise; None without.
        theirs: the one that is lent.
        log: where both logs begin and end.
    """
    start, end = log
    span = theirs.span(start)
    if span.last is None or span.messages or not _is_sound(theirs, start):
        return False
    own_end = 0
    for number, units in own.used() if own is not None else ():
        places = np.where(units["size"] > 0, units["physical_offset"], -1).astype(np.int64)
        if ((places >= start) & (places < end)).any():
            return False
        expired = np.flatnonzero((places >= 0) & (places < start))
        own_end = number + int(expired[-1]) + 1 if expired.size else own_end
    return own_end < span.max_offset


def _is_sound(queue: QueueUnits, start: int) -> bool:
    """Tell whether each unit of a queue lies past the one before, and before the log."""
    files = queue.files
    if any(file.size != files.file_length for file in files):
        return False
    last = -1
    for _, units in queue.used():
        places = units["physical_offset"][units["size"] > 0].astype(np.int64)
        if len(places) and (places[0] <= last or (np.diff(places) <= 0).any()):
            return False
        last = int(places[-1]) if len(places) else last
    return last < start


def _bring(writer: EditWriter, store: Store, other: Store, segment: Segment) -> None:
    """Bring one file of a queue."""
    place = segment.place
    path = f"{DIRECTORY_OF_QUEUES}/{place.parent.parent.name}/{place.parent.name}/{place.name}"
    target = place_of(store.root, path)
    content = Content(segment.size, ((0, LentBytes(other.root, path, 0, segment.size)),))
    reason = f"from {other.root}: {segment.path}, bytes 0 to {segment.size}"
    if target.stat() is None:
        writer.create(target.location, content, CQ_GAP, reason, mtime_ms=segment.mtime_ms)
    else:
        writer.replace(target.location, content, CQ_GAP, reason)
