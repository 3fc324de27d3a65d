"""Messages that are lost, or that nobody can vouch for, as far as queues and index still name them.

1. Findings say where the log holds no record, or one with a wrong checksum; what lies between its
   files, and past its end, is lost, too.
2. Queues name what was there: topic, queue, queue offset, size. The index has hashes of its keys
   and, to the second, the store time.
3. A neighbour may be a copy (a half message, a retry): a key of it whose hash under the lost
   message's topic is in the index, is the lost message's key.

Each fact has its source. What expired is not lost. Of a store that lost millions the first are
listed and the others counted, as a list takes some KiB of memory a row. Importing this loads numpy.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from rmqtool.broker.names import LMQ_PREFIX
from rmqtool.errors import RmqtoolError
from rmqtool.findings.catalogue import Area, Owner, Severity
from rmqtool.findings.registry import CODES
from rmqtool.findings.registry_commitlog import CL_PHYOFF, CL_TAIL
from rmqtool.formats import java
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.ledger.numbers import LostNumbers, last_believed
from rmqtool.machine.arrays import are_within, distinct
from rmqtool.query.log import LogRecord
from rmqtool.query.lookup import Lookup
from rmqtool.query.rows import message_row
from rmqtool.queues.kinds import are_real
from rmqtool.scan.index import entry_times, scan
from rmqtool.tables.lost_messages import LOST_MESSAGES
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from rmqtool.findings.finding import Finding
    from rmqtool.query.log import Log
    from rmqtool.queues.units import QueueUnits
    from rmqtool.store.record_heads import RecordHead
    from rmqtool.store.tree import Store

Between: TypeAlias = "tuple[RecordHead | None, RecordHead | None]"
Fields: TypeAlias = dict[str, Any]
KeysByHash: TypeAlias = "dict[int, list[KeyNear]]"
Bound: TypeAlias = tuple[int, int, "str | None"]
LOST: Final = "lost"
DOUBTFUL: Final = "doubtful"
UNLISTED: Final = "unlisted"
UNKNOWN: Final = "unknown"
LISTED: Final = 20_000  # places
HASHES: Final = 64  # of one place; an index that is damaged may name it a million times
BESIDE: Final = "queue_offset: the records of the queue on both sides"
ELSEWHERE: Final = "which is damaged, or lies elsewhere"
NEIGHBOURS: Final = 32  # records on each side whose keys are tried
ASKED_AGAIN: Final = 1 << 20  # bytes; what lies around a place is looked for some MiB far
PAST_ALL: Final = 2**63 - 1
LOG_AREAS: Final = frozenset({Area.COMMITLOG, Area.LAYOUT, Area.DLEDGER})


@dataclass
class DoubtfulPlaces:
    """Where the log may have lost messages: physical offsets, half open, with a code each."""

    bounds: list[Bound] = field(default_factory=list)
    # where records begin that state another physical offset, and which
    moved: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, log: Log, findings: Iterable[Finding]) -> DoubtfulPlaces:
        """Take them from findings of damage, and from what no file holds.

        Raises:
            UnreadablePath: a file of the log may not be read.
        """
        places = cls()
        for finding in findings:
            is_harmless = finding.severity is Severity.NOTE and finding.code != CL_TAIL
            if finding.physical_offset is None or is_harmless:
                continue
            if finding.code.area not in LOG_AREAS:
                continue
            begin, end = finding.physical_offset, finding.physical_offset + (finding.length or 1)
            if finding.code == CL_PHYOFF:
                places.moved[begin] = int(finding.actual)
            if not isinstance(log.record_at(begin), LogRecord):
                following = log.next_record(begin)
                end = max(end, following.physical_offset if following else end)
            places.bounds.append((begin, end, str(finding.code)))
        for segment in log.segments:
            for start, length in segment.missing:
                places.bounds.append((start, start + length, None))
        places.bounds.append((log.end if log.files else 0, PAST_ALL, None))
        return places

    def holds(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell which physical offsets lie in one of them."""
        begins, ends, _ = self._merged
        return are_within(offsets, begins, ends)

    def code(self, offset: int) -> str | None:
        """Give the code of the damage at an offset; None where no file holds it."""
        begins, _, groups = self._merged
        group = groups[max(int(np.searchsorted(begins, offset, side="right")) - 1, 0)]
        return next((code for begin, end, code in group if begin <= offset < end), None)

    @cached_property
    def place_of(self) -> dict[int, int]:
        """Where the record lies that states a physical offset at which it does not lie."""
        return {stated: place for place, stated in self.moved.items()}

    @cached_property
    def unvouched(self) -> frozenset[int]:
        """Where records begin whose bytes are damaged, by the codes of the log."""
        return frozenset(
            begin
            for begin, _, code in self.bounds
            if code is not None and CODES[code].owner is Owner.LOG
        )

    @cached_property
    def _merged(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], list[list[Bound]]]:
        """Give begin and end of each run of places that overlap, and the places in it."""
        begins: list[int] = []
        ends: list[int] = []
        groups: list[list[Bound]] = []
        for bound in sorted(self.bounds, key=lambda bound: bound[:2]):
            begin, end, _ = bound
            if ends and begin < ends[-1]:
                ends[-1] = max(ends[-1], end)
                groups[-1].append(bound)
            else:
                begins.append(begin)
                ends.append(end)
                groups.append([bound])
        return _int64(begins), _int64(ends), groups


def _int64(offsets: list[int]) -> npt.NDArray[np.int64]:
    """Give offsets as an array; the name of a stranger's file may put it past all numbers."""
    return np.array([min(offset, PAST_ALL) for offset in offsets], np.int64)


def lost_messages(
    store: Store, findings: Iterable[Finding], numbers: Iterable[LostNumbers] | None = None
) -> list[Fields]:
    """List what is lost, by topic, queue and queue offset, as rows of `LOST_MESSAGES`.

    Args:
        store: a whole store; of one that cannot be read, a row says so.
        findings: of a validation of it.
        numbers: queue offsets that have lost their messages, None where that is not known. Those
            that no unit leads to any more are listed, too; a queue offset that is not among them is
            in a record elsewhere.
    """
    try:
        with Lookup(store, scan=False) as lookup:
            rows = _Listing(lookup, DoubtfulPlaces.of(lookup.log, findings)).rows()
    except RmqtoolError as error:
        rows = [_no_place(UNKNOWN, None, str(error))]
    return rows if numbers is None else as_counted(rows, [*numbers])


def as_counted(rows: list[Fields], numbers: list[LostNumbers]) -> list[Fields]:
    """List as lost what the number of lost messages counts: no more, and no less.

    Args:
        rows: of places, as `LOST_MESSAGES`.
        numbers: queue offsets that have lost their messages, of each queue ascending.
    """
    return _with_numbers(_but_elsewhere(rows, numbers), numbers)


def _but_elsewhere(rows: list[Fields], numbers: Iterable[LostNumbers]) -> list[Fields]:
    """Call doubtful what is lost by its place alone: a record elsewhere has the queue offset."""
    lost: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for number in numbers:
        stretch = number.queue_offset, number.queue_offset + number.messages
        lost.setdefault((number.topic, number.queue_id), []).append(stretch)
    kept = set()  # places whose own queue has not lost what was there
    for row in rows:
        topic, first = row["topic"], row["queue_offset"]
        if row["fate"] != LOST or first is None or topic.startswith(LMQ_PREFIX):
            continue
        stretches = lost.get((topic, row["queue_id"]), [])
        before = bisect_left(stretches, (first + row["messages"],)) - 1
        if before < 0 or stretches[before][1] <= first:
            kept.add(row["physical_offset"])
    return [
        {**row, "fate": DOUBTFUL} if row["fate"] == LOST and row["physical_offset"] in kept else row
        for row in rows
    ]


def _with_numbers(rows: list[Fields], numbers: Iterable[LostNumbers]) -> list[Fields]:
    """Add the queue offsets in a row that no other row names, one row for each run of them."""
    listed: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for row in rows:
        if row["queue_offset"] is not None:
            queue = listed.setdefault((row["topic"], row["queue_id"]), [])
            queue.append((row["queue_offset"], row["queue_offset"] + row["messages"]))
    joined = {key: _joined(stretches) for key, stretches in listed.items()}
    added: list[Fields] = []
    for number in numbers:
        for first, end in _rest(number, joined.get((number.topic, number.queue_id), [])):
            rest = LostNumbers(number.topic, number.queue_id, first, end - first)
            row = LOST_MESSAGES.row(rest, None, sources=[BESIDE])
            added.append({**row, "fate": LOST})
    if not added:
        return rows
    unnamed = [row for row in rows if row["topic"] is None and row["physical_offset"] is not None]
    if len(unnamed) == len(added) == added[0]["messages"] == 1:  # both are the same message
        (same,) = unnamed
        known = {name: value for name, value in added[0].items() if value is not None}
        same |= known | {"sources": [*same["sources"], BESIDE]}
        return sorted(rows, key=_place)
    known_rows = [row for row in rows if row["fate"] not in {UNLISTED, UNKNOWN}]
    others = [row for row in rows if row["fate"] in {UNLISTED, UNKNOWN}]
    return [*sorted([*known_rows, *added[:LISTED]], key=_place), *others]


def _joined(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Give the same in order, those that overlap as one."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(stretches):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


def _rest(number: LostNumbers, listed: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield what of some queue offsets is in none of these stretches, as `_joined` gives them."""
    first, last = number.queue_offset, number.queue_offset + number.messages
    for at in range(max(bisect_left(listed, (first,)) - 1, 0), len(listed)):
        begin, end = listed[at]
        if begin >= last:
            break
        if begin > first:
            yield first, begin
        first = max(first, end)
    if first < last:
        yield first, last


def _no_place(fate: str, messages: int | None, source: str) -> Fields:
    """Give a row about messages of which no place is told."""
    rows_by_offset = {"fate": fate, "messages": messages, "sources": [source]}
    return {name: rows_by_offset.get(name) for name in LOST_MESSAGES.names}


class KeyNear(NamedTuple):
    """A key of a record near a place in question."""

    number: int  # in the order in which they are tried
    key: str
    is_unique: bool  # whether it is the record's unique key
    physical_offset: int  # of the record


@dataclass(slots=True)
class _Listing:
    """Collects what is told about the places in question."""

    lookup: Lookup  # the store
    places: DoubtfulPlaces  # where messages may be lost
    # rows by physical offset, one for each queue that names the place
    rows_by_offset: dict[int, list[Fields]] = field(default_factory=dict)
    # keys of the records around a place, by the next record after it and a topic
    near: dict[tuple[int, str], KeysByHash] = field(default_factory=dict)
    between: Between = (None, None)  # the records before and after the place asked for last
    asked: int | None = None  # that place
    past: set[int] = field(default_factory=set)  # numbers of files that places are in
    unlisted: int = 0  # messages at further places in question

    def rows(self) -> list[Fields]:
        for topic in self.lookup.queues.topics():
            for units in self.lookup.queues.queues_of(topic):
                self._ask_queue(units)
        self._ask_index()
        end = self._believed_end()
        listed = [
            self._completed(offset, row)
            for offset, rows in sorted(self.rows_by_offset.items())
            if offset < end
            if (record := self._record(offset)) is not True
            for row in _with_record(rows, record)
        ]
        listed.sort(key=_place)
        if self.unlisted:
            source = f"consume queues; the first {LISTED:,} places are listed"
            listed.append(_no_place(UNLISTED, self.unlisted, source))
        return listed

    def _ask_queue(self, units: QueueUnits) -> None:
        """Take what a queue says of the places in question."""
        for first, some in units.used():
            offsets = some["physical_offset"].astype(np.int64)
            chosen = are_real(some) & (offsets >= self.lookup.log.start)
            chosen &= self.places.holds(offsets)
            is_batch = units.layout is BATCH_CQ_UNIT
            self._speak_of(offsets[chosen])
            listed = self._with_room(offsets, chosen)
            rest = some[chosen & ~listed]
            counts = np.maximum(rest["batch_size"].astype(np.int64), 1) if is_batch else None
            self.unlisted += len(rest) if counts is None else int(counts.sum())
            for row in map(int, np.flatnonzero(listed)):
                unit = some[row]
                rows_by_offset: Fields = {
                    "topic": units.topic,
                    "queue_id": units.queue_id,
                    "queue_offset": int(unit["msg_base_offset"]) if is_batch else first + row,
                    "messages": max(int(unit["batch_size"]), 1) if is_batch else 1,
                    "physical_offset": int(unit["physical_offset"]),
                    "size": int(unit["size"]),
                    "sources": ["topic, queue_id, queue_offset, size: consume queue"],
                }
                if is_batch:
                    rows_by_offset["store_time"] = iso_time(int(unit["store_timestamp"]))
                self.rows_by_offset.setdefault(int(offsets[row]), []).append(rows_by_offset)

    @property
    def file_length(self) -> int:
        """Bytes of a commitlog file; no limit where there is none to tell."""
        return self.lookup.store.commitlog.file_length or PAST_ALL

    def _speak_of(self, offsets: npt.NDArray[np.int64]) -> None:
        """Note into which files of the log some units or entries lead."""
        self.past |= {*distinct(offsets // self.file_length).tolist()}

    def _believed_end(self) -> int:
        """Give the end of what units and index say was in the log."""
        ends = [part.end for part in self.lookup.log.files]
        last = (max(ends) - 1) // self.file_length if ends else min(self.past, default=0)
        return (last_believed(self.past, last) + 1) * self.file_length

    def _with_room(
        self, offsets: npt.NDArray[np.int64], chosen: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Choose what is listed already, and as many further places as there is room for."""
        room = max(LISTED - len(self.rows_by_offset), 0)
        known = np.fromiter(self.rows_by_offset, np.int64, len(self.rows_by_offset))
        is_known = chosen & np.isin(offsets, known)
        is_new = chosen & ~is_known
        is_listed: npt.NDArray[np.bool_] = is_known | (is_new & (np.cumsum(is_new) <= room))
        return is_listed

    def _ask_index(self) -> None:
        """Take the hashes and the second that the index has for a place."""
        for reader in self.lookup.index.readers:
            if reader.trouble or reader.held is None:
                continue
            with reader.file.open() as file:
                for batch in scan(file, reader.held):
                    offsets = batch.column("physical_offset")
                    chosen = self.places.holds(offsets) & (offsets >= self.lookup.log.start)
                    chosen &= batch.column("key_hash") >= 0
                    self._speak_of(offsets[chosen])
                    numbers = np.flatnonzero(self._with_room(offsets, chosen))
                    pairs = np.stack([offsets, batch.column("key_hash")], axis=1)[numbers]
                    _, first = np.unique(pairs, axis=0, return_index=True)
                    begin = reader.held.header["begin_timestamp"]
                    times = entry_times(batch.column("time_difference"), begin, batch.first)
                    for number in numbers[np.sort(first)]:
                        key_hash = int(batch.values["key_hash"][number])
                        self._indexed(int(offsets[number]), key_hash, iso_time(int(times[number])))

    def _indexed(self, offset: int, key_hash: int, time: str) -> None:
        alone: Fields = {"physical_offset": offset, "sources": []}
        for row in self.rows_by_offset.setdefault(offset, [alone]):
            hashes = row.setdefault("key_hashes", [])
            if key_hash not in hashes and len(hashes) < HASHES:
                hashes.append(key_hash)
            if "store_time" not in row:
                row["store_time"] = time
                row["sources"].append("key_hashes, store_time to the second: index")

    def _record(self, offset: int) -> bool | LogRecord:
        """Say whether a whole record is there: True, False, or one that nobody can vouch for."""
        record = self.lookup.log.record_at(offset)
        if not isinstance(record, LogRecord):
            return self._moved(offset)
        is_damaged = offset in self.places.unvouched
        return record if is_damaged or record.crc_matches is False else True

    def _moved(self, offset: int) -> bool | LogRecord:
        """Give the whole record that lies elsewhere, or here under another physical offset.

        Where a file lies under the name of another one, a record of that one may be here.
        """
        log, places = self.lookup.log, self.places
        if offset in places.place_of:
            record = log.record_at(places.place_of[offset], offset)
        elif offset in places.moved:
            record = log.record_at(offset, places.moved[offset])
        else:
            return False
        return record if isinstance(record, LogRecord) else False

    def _completed(self, offset: int, row: Fields) -> Fields:
        """Add code, and what neighbours tell."""
        before, after = self._between(offset)
        row["code"] = self.places.code(offset)
        row["stored_after"] = before and iso_time(before.store_timestamp)
        row["stored_before"] = after and iso_time(after.store_timestamp)
        if row["fate"] == LOST and row.get("key_hashes") and row.get("topic"):
            self._keys_of_copies(offset, row)
        return {name: row.get(name) for name in LOST_MESSAGES.names}

    def _between(self, offset: int) -> Between:
        """Give the records before and after a place; they are the same all over a gap."""
        before, after = self.between
        is_same = self.asked is not None and self.asked <= offset < self.asked + ASKED_AGAIN
        is_same &= before is None or before.end <= offset
        if not is_same or (after is not None and after.physical_offset <= offset):
            log = self.lookup.log
            self.between = log.previous_record(offset), log.next_record(offset + 1)
            self.asked = offset
        return self.between

    def _keys_of_copies(self, offset: int, row: Fields) -> None:
        """Try the keys of neighbours, which may be copies, against the hashes."""
        keys: list[str] = []
        near = self._keys_near(offset, row["topic"])
        known = [key for key_hash in {*row["key_hashes"]} for key in near.get(key_hash, ())]
        for _, key, is_unique, place in sorted(known):
            source = f"{key}: the record at {place}, confirmed by the index"
            if is_unique and not row.get("unique_key"):
                row["unique_key"] = key
                row["sources"].append(source)
            elif not is_unique and key not in keys:
                keys.append(key)
                row["sources"].append(source)
        if keys:
            row["keys"] = keys

    def _keys_near(self, offset: int, topic: str) -> KeysByHash:
        """Give the keys of the records around a place, by the hash that the index has for them."""
        _, following = self._between(offset)
        end = following.physical_offset if following else PAST_ALL
        if (end, topic) not in self.near:
            table: KeysByHash = {}
            keys = [
                (key, key == record.message.unique_key, record.physical_offset)
                for record in self._neighbours(offset, following)
                for key in filter(None, (record.message.unique_key, *record.message.keys))
            ]
            for number, (key, is_unique, place) in enumerate(keys):
                known = KeyNear(number, key, is_unique, place)
                table.setdefault(java.key_hash(topic, key), []).append(known)
            self.near[end, topic] = table
        return self.near[end, topic]

    def _neighbours(self, offset: int, following: RecordHead | None) -> Iterator[LogRecord]:
        """Yield the records around a place."""
        log = self.lookup.log
        places: list[int] = []
        head = following
        while head is not None and len(places) < NEIGHBOURS:
            places.append(head.physical_offset)
            head = log.next_record(head.end)
        head = log.previous_record(offset)
        while head is not None and len(places) < 2 * NEIGHBOURS:
            places.append(head.physical_offset)
            head = log.previous_record(head.physical_offset)
        for record in map(log.record_at, places):
            if isinstance(record, LogRecord):
                yield record


def _with_record(rows: list[Fields], record: bool | LogRecord) -> Iterator[Fields]:
    """Give the rows of a place with what a doubtful record says of itself."""
    # One that states another place is the one that the queues name, or lies in its stead.
    if not isinstance(record, LogRecord) or not (
        record.physical_offset == rows[0]["physical_offset"] or _is_named(record, rows)
    ):
        yield from ({**row, "fate": LOST} for row in rows)
        return
    shown = message_row(record)
    rows_by_offset = {name: shown[name] for name in ("store_time", "keys", "unique_key", "size")}
    flaw = "whose checksum differs" if record.crc_matches is False else ELSEWHERE
    source = f"store_time, keys, unique_key: the record itself, {flaw}"
    for row in rows:
        own = {**rows_by_offset, **_confirmed(rows_by_offset, row)}
        yield {**row, **own, "fate": DOUBTFUL, "sources": [*row["sources"], source]}


def _is_named(record: LogRecord, rows: list[Fields]) -> bool:
    """Tell whether one of the rows about a place is of the queue and queue offset of a record."""
    message = record.message
    own = message.topic, message.queue_id, message.queue_offset
    named = ("topic", "queue_id", "queue_offset")
    return any(own == tuple(map(row.get, named)) for row in rows)


def _confirmed(rows_by_offset: Fields, row: Fields) -> Fields:
    """Give the keys of a doubtful record whose hashes the index has, if it has any."""
    hashes, topic = row.get("key_hashes"), row.get("topic")
    if not hashes or not topic:
        return {}
    keys, unique_key = rows_by_offset["keys"] or (), rows_by_offset["unique_key"]
    kept = [key for key in keys if java.key_hash(topic, key) in hashes]
    is_known = unique_key is not None and java.key_hash(topic, unique_key) in hashes
    return {"keys": kept or None, "unique_key": unique_key if is_known else None}


def _place(row: Fields) -> tuple[str, int, int, int]:
    """Order rows by topic, queue and queue offset; those that only the index names come last."""
    topic = row["topic"]
    if topic is None:
        return chr(0x10FFFF), 0, 0, row["physical_offset"]
    return topic, row["queue_id"], row["queue_offset"], row["physical_offset"] or 0
