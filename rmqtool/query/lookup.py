"""Find what was asked for: ask offsets, index and queues, verify, and search where they fail.

1. An offset is read. An index or a queue proposes records; each is verified (match.py).
2. Stretches of the log that no trustworthy index file covers are searched themselves.
3. Where nothing was found, the index is proved whole; where it is not, or cannot be asked, more of
   the log is searched: by the time that a unique key carries, else all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.errors import UnreadablePath
from rmqtool.formats import java
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.formats.message_id import ClientMessageId, OffsetMessageId, UniqueKey, recognise
from rmqtool.plural import counted
from rmqtool.query import topics
from rmqtool.query.answer import (
    BY_COVERING,
    BY_INDEX,
    BY_OFFSET,
    BY_QUEUE,
    BY_SEARCH,
    Answer,
    Hit,
)
from rmqtool.query.log import NO_LOG, LogRange, LogRecord
from rmqtool.query.match import RecordNeed, at_place, hash_collision
from rmqtool.query.requests import (
    ById,
    ByKey,
    ByOffset,
    ByQueueOffset,
    ByText,
    ByTime,
    ByTransaction,
    Request,
    described,
)
from rmqtool.query.sources import Sources
from rmqtool.query.time import first_record_from
from rmqtool.store.artefact import ArtefactKind
from rmqtool.times import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.query.explain import Trail
    from rmqtool.query.log import Log
    from rmqtool.queues.units import LookedUp
    from rmqtool.store.key_index import Chain
    from rmqtool.store.segment import Segment


class Lookup(Sources):
    """A store that can be asked. A context manager; keeps files open between questions.

    Args:
        store: to look into.
        scan: None searches the log where index or queues fail; True always searches all of it;
            False never does.
        jobs: threads that search the log; None is one for each processor.
    """

    def find(self, request: Request) -> Answer:
        """Answer one request.

        Raises:
            UnreadablePath: what is needed for any answer may not be read.
        """
        answer = Answer(request)
        match request:
            case ById():
                self._by_id(request.text, answer)
            case ByKey():
                self._by_key(request, answer)
            case ByOffset():
                self._by_offset(request.physical_offset, answer)
            case ByQueueOffset():
                find_place(self, request, answer)
            case ByTime():
                from rmqtool.query.store_times import find_time

                find_time(self, request, answer)
            case ByText():
                from rmqtool.query.grep import grep

                grep(self.log, request, answer)
            case ByTransaction():
                answer.taken_for = "transaction ID"
                self.find_text(RecordNeed(request.text, as_transaction=True), answer)
        if not self.log.files and not answer.is_found:
            answer.problem = "; ".join(filter(None, (NO_LOG, answer.problem)))
        return answer

    # IDs

    def _by_id(self, text: str, answer: Answer) -> None:
        answer.taken_for = described(text)
        kind = ById(text).kind
        if isinstance(kind, OffsetMessageId) and self._by_offset_id(kind, text, answer):
            return
        names = list(dict.fromkeys((text, text.upper())))
        for name in names:
            self._from_index(RecordNeed(name), answer)
            if answer.hits:
                answer.taken_for = "unique key" if name == text else f"unique key {name}"
        is_opaque = kind is None and self.scan is None and bool(self.index)
        for name in names[-1:] if is_opaque else names:
            self._from_log(RecordNeed(name), answer, may_search_all=not is_opaque)

    def _by_offset_id(self, kind: OffsetMessageId, text: str, answer: Answer) -> bool:
        """Read the record that an offset ID names; tell whether that settles it."""
        record = self.log.record_at(kind.physical_offset)
        answer.trail.search(f"offset {kind.physical_offset} in the log")
        if not isinstance(record, LogRecord):
            answer.trail.add(
                "offset message ID",
                record.reason,
                record.segment.path if record.segment else "",
                physical_offset=kind.physical_offset,
            )
            answer.problem = f"at {kind.physical_offset}: {record.reason}"
            return False
        note = ""
        if record.message.message_id != text.upper():
            note = f"the record was stored by {record.message.store_host}, the ID says {kind.host}"
            self._from_index(RecordNeed(text), answer)
            if answer.hits:  # an ID of the application that looks like an offset
                answer.taken_for = "unique key"
                return True
        self.verified(record, answer, "offset message ID")
        answer.take(Hit(record, BY_OFFSET, "offset message ID", note=note))
        return True

    # keys

    def _by_key(self, request: ByKey, answer: Answer) -> None:
        answer.taken_for = "key"
        wanted = RecordNeed(request.key, as_key=True, topics=request.topics)
        if not request.key:
            answer.problem = "an empty key is never indexed"
            return
        self.find_text(wanted, answer)
        if answer.hits:
            return
        unknown = [topic for topic in request.topics if topic not in self.topics]
        problems = [topics.hint(topic, self.topics) for topic in unknown]
        problems += filter(None, map(topics.light_hint, request.topics))
        if " " in request.key:
            problems.append("brokers cut keys at spaces: look for its parts")
        if self.scan is None and self.store.branches_of(ArtefactKind.BATCH_QUEUE):
            problems.append("keys of messages inside a batch are not indexed")
        answer.problem = "; ".join(problems)

    def find_text(self, wanted: RecordNeed, answer: Answer) -> None:
        """Find all records that have a text, by the index and where that does not reach."""
        self._from_index(wanted, answer)
        self._from_log(wanted, answer)

    def _from_index(self, wanted: RecordNeed, answer: Answer) -> None:
        """Ask the index for each topic, and verify what it proposes."""
        names = wanted.topics or self.topics
        trail = answer.trail
        files = len(self.index.readers)
        if files:
            trail.search(f"{counted(files, 'index file')} for {counted(len(names), 'topic')}")
        for path, trouble in self.index.troubles():
            trail.add("index file", f"not believed: {trouble}", path)
        for topic in names if files else ():
            key_hash = java.key_hash(topic, wanted.text)
            for chain in self.index.chains(key_hash):
                self._from_chain(chain, f"{topic}#{wanted.text}", wanted, answer)

    def _from_chain(self, chain: Chain, key: str, wanted: RecordNeed, answer: Answer) -> None:
        if chain.trouble:
            trouble = f"hash {chain.key_hash}, slot {chain.slot}: {chain.trouble}"
            answer.trail.add("index chain", trouble, chain.path)
            answer.doubtful.add(chain.path)
        if not chain.offsets:
            if wanted.topics and not chain.trouble:  # else there may be thousands of topics
                head = f"first entry {chain.head}" if chain.walked else "empty"
                result = f"{key}: hash {chain.key_hash}, slot {chain.slot}, {head}, "
                result += f"{counted(chain.walked, 'entry', 'entries')} walked, none of this hash"
                answer.trail.add("index chain", result, chain.path)
            return
        answer.trail.add(
            "index chain",
            f"{key}: hash {chain.key_hash}, slot {chain.slot}, first entry {chain.head}, "
            f"{counted(chain.walked, 'entry', 'entries')} walked, "
            f"{len(chain.offsets):,} of this hash",
            chain.path,
        )
        for entry in chain.entries:
            same = "this hash" if entry.key_hash == chain.key_hash else f"hash {entry.key_hash}"
            answer.trail.add(
                "index entry",
                f"entry {entry.number}: {same}, next older {entry.previous}",
                chain.path,
                physical_offset=entry.physical_offset,
            )
        for physical_offset in dict.fromkeys(reversed(chain.offsets)):
            self._propose(physical_offset, chain.key_hash, wanted, answer)

    def _propose(
        self, physical_offset: int, key_hash: int, wanted: RecordNeed, answer: Answer
    ) -> None:
        """Verify a record that the index proposes."""
        record = self.log.record_at(physical_offset)
        if not isinstance(record, LogRecord):
            answer.trail.add("record", record.reason, physical_offset=physical_offset)
            return
        how = wanted.match(record.message)
        if how:
            self.verified(record, answer, how)
            answer.take(Hit(record, BY_INDEX, how))
            return
        other = hash_collision(record.message, key_hash)
        reason = f"hash collision with {other}" if other else "the record has no such key"
        answer.trail.add("record", reason, record.segment.path, record.position, physical_offset)

    def _from_log(self, wanted: RecordNeed, answer: Answer, *, may_search_all: bool = True) -> None:
        """Search the log where the index says nothing that can be believed."""
        if self.scan is False:
            answer.trail.search("the log was not searched (--no-scan)")
            return
        if self.scan:
            self._search(wanted, [LogRange(self.log.start, self.log.end)], answer)
            return
        stretches = self.uncovered(answer.doubtful)
        if not wanted.topics and not self.knows_topics:
            answer.trail.add("topics", "not known: the index cannot be asked without them")
            stretches = [LogRange(self.log.start, self.log.end)]
        is_long = any(stretch.length > WORTHWHILE for stretch in stretches)
        bound = earliest(self.log, wanted.text) if is_long else None
        if bound is not None:
            answer.trail.add("time window", f"its time says not before offset {bound}")
            stretches = [
                LogRange(max(stretch.start, bound), stretch.end)
                for stretch in stretches
                if stretch.end > bound
            ]
        self._search(wanted, stretches, answer)
        if answer.hits or not may_search_all:
            return
        self._prove_index(wanted, answer)
        if not answer.hits and (near := around(self.log, wanted.text)):
            self._search(wanted, near, answer)
        if not answer.hits and not wanted.topics and not self.keeps_queues:
            self._search(wanted, [LogRange(self.log.start, self.log.end)], answer)

    def _prove_index(self, wanted: RecordNeed, answer: Answer) -> None:
        """Read index files as a whole; search what a damaged one would have covered."""
        damaged = set()
        for reader in self.index.readers:
            if reader.trouble or reader.file.path in answer.doubtful:
                continue
            if trouble := reader.proves_whole():
                answer.trail.add("index file", f"not believed: {trouble}", reader.file.path)
                damaged.add(reader.file.path)
        if damaged:
            answer.doubtful |= damaged
            self._search(wanted, self.uncovered(answer.doubtful), answer)

    def _search(self, wanted: RecordNeed, stretches: list[LogRange], answer: Answer) -> None:
        todo = [
            stretch for stretch in stretches if stretch.length and stretch not in answer.searched
        ]
        answer.searched += todo
        for stretch in todo:
            answer.trail.search(self.log.described(stretch))
        for record, how in search(self.log, wanted, todo, answer.trail):
            if answer.take(Hit(record, BY_SEARCH, how)):
                self.verified(record, answer, how)

    def uncovered(self, doubtful: Iterable[str] = ()) -> list[LogRange]:
        """Give the stretches of the log that no trustworthy index file covers."""
        ranges: list[LogRange] = []
        cursor = self.log.start
        for first, last in self.index.covered(doubtful):
            if first - cursor >= SMALLEST_RECORD:
                ranges.append(LogRange(cursor, first))
            head = self.log.reader.head_at(last)
            cursor = max(cursor, head.end if head else last)
        if self.log.end - cursor >= SMALLEST_RECORD:
            ranges.append(LogRange(cursor, self.log.end))
        return ranges

    # offsets

    def _by_offset(self, physical_offset: int, answer: Answer) -> None:
        answer.taken_for = "physical offset"
        answer.trail.search(f"offset {physical_offset} in the log")
        record = self.log.covering(physical_offset)
        if isinstance(record, LogRecord):
            inside = physical_offset - record.physical_offset
            how = BY_COVERING if inside else BY_OFFSET
            note = f"byte {inside} of its {record.message.total_size}" if inside else ""
            self.verified(record, answer, how)
            answer.take(Hit(record, how, how, note=note))
            return
        answer.trail.add("record", record.reason, physical_offset=physical_offset)
        words = [f"at {physical_offset}: {record.reason}"]
        if before := self.log.previous_record(physical_offset):
            words.append(f"the record before it is at {before.physical_offset}")
        if after := self.log.next_record(physical_offset):
            words.append(f"the next one is at {after.physical_offset}")
        answer.problem = ", ".join(words)


# Search the log itself, where no index and no queue can be asked or believed.
#
# A text of some length is looked for as bytes, window by window, and each place where it stands is
# traced back to its record, which decides; that needs nothing but Python. Short texts, places of
# queues and many texts at once go through the kernels (scan.py).


WINDOW: Final = 2 << 20  # searching for 32 bytes: 3 GB/s; with 256 KiB 1.9
SHORT: Final = 8  # bytes; shorter texts stand everywhere
LIGHT_BYTES: Final = 4 << 20  # a stretch for which importing the kernels would take longer
_BEFORE: Final = frozenset(b"\x01 ")
_ENDS: Final = frozenset(b"\x02 \x00\xff")  # \0 and \xff begin what follows the record


def search(
    log: Log, wanted: RecordNeed, stretches: Iterable[LogRange], trail: Trail
) -> Iterator[tuple[LogRecord, str]]:
    """Yield the records of some stretches of the log that have a text, each with how.

    Args:
        log: to be read.
        wanted: what a record must have.
        stretches: which parts.
        trail: takes down what was searched, and what could not be.
    """
    for stretch in stretches:
        is_long = stretch.length > LIGHT_BYTES
        if is_long and len(wanted.text.encode("utf-8", "surrogatepass")) < SHORT:
            from rmqtool.query.scan import find_keys

            records = find_keys(log, [wanted], [stretch], [trail])
        else:
            records = find_text(log, wanted, stretch, trail)
        count = 0
        for record, how in records:
            count += 1
            yield record, how
        trail.add("search of the log", f"{stretch}: {count:,} found")


def find_text(
    log: Log, wanted: RecordNeed, stretch: LogRange, trail: Trail
) -> Iterator[tuple[LogRecord, str]]:
    """Yield the records of a stretch that have a text, found by its bytes."""
    needle = wanted.text.encode("utf-8", "surrogatepass")
    if not needle:
        return
    for segment in log.segments:
        if segment.end <= stretch.start or segment.start >= stretch.end:
            continue
        try:
            yield from _in_segment(log, wanted, needle, segment, stretch)
        except UnreadablePath as error:
            trail.add("search of the log", f"cannot be read: {error.reason}", segment.path)
            trail.search(f"{segment.path} could not be read: {error.reason}")


def _in_segment(
    log: Log, wanted: RecordNeed, needle: bytes, segment: Segment, stretch: LogRange
) -> Iterator[tuple[LogRecord, str]]:
    passed = 0  # physical offset up to which records were judged
    for physical_offset in _places(log, needle, segment, stretch):
        if physical_offset < passed:
            continue
        record = log.covering(physical_offset)
        if not isinstance(record, LogRecord):
            continue
        passed = record.end
        if record.physical_offset >= stretch.start and (how := wanted.match(record.message)):
            yield record, how


def _places(log: Log, needle: bytes, segment: Segment, stretch: LogRange) -> Iterator[int]:
    """Yield where the needle stands between separators of properties."""
    file = log.reader.file_of(segment)
    position = max(stretch.start - segment.start, 0)
    end = min(stretch.end - segment.start, file.size)
    margin = len(needle) + 1
    while position < end:
        # A text may stand across the border of two windows, so they overlap.
        raw = file.read_at(position, min(WINDOW, end - position) + margin)
        if not raw:
            return
        at = raw.find(needle)
        while at >= 0:
            past = at + len(needle)
            fits = at == 0 or raw[at - 1] in _BEFORE
            if fits and (past >= len(raw) or raw[past] in _ENDS):
                yield segment.start + position + at
            at = raw.find(needle, at + 1)
        position += WINDOW


# When a message was sent, as far as its ID tells, and where in the log that is.
#
# A unique key holds the milliseconds since its month began in the client's time zone, so it names
# one moment in each month, give or take half a day. Copies of a message (delivered, retried,
# committed) have the same ID and are stored later, never earlier.


ZONE_MS: Final = 15 * 3_600_000  # time zones reach from -12 to +14 hours, clocks are off, too
LONGEST_WAIT_MS: Final = 4 * DAY_MS  # from sending to the last copy, as brokers come
WORTHWHILE: Final = 4 << 20  # bytes; a shorter stretch is searched faster than times are


def moments(log: Log, text: str) -> list[int]:
    """Give when an ID may have been made, ms since 1970, so that the log may hold it."""
    kind = recognise(text)
    if isinstance(kind, ClientMessageId):
        return [kind.time]
    if not isinstance(kind, UniqueKey):
        return []
    first = log.next_record(log.start)
    last = log.previous_record(log.end)
    if first is None or last is None:
        return []
    low = first.store_timestamp - LONGEST_WAIT_MS
    high = last.store_timestamp + ZONE_MS
    times = {
        moment
        for reference in range(first.store_timestamp, high + 28 * DAY_MS, 28 * DAY_MS)
        for moment in kind.time_candidates(min(reference, high))
    }
    return sorted(moment for moment in times if low - ZONE_MS <= moment <= high)


def earliest(log: Log, text: str) -> int | None:
    """Give the offset before which a record with this ID cannot lie; None when nothing tells."""
    times = moments(log, text)
    if not times:
        return None
    head = first_record_from(log, times[0] - ZONE_MS)
    return log.end if head is None else head.physical_offset


def around(log: Log, text: str) -> list[LogRange]:
    """Give the stretches of the log in which a message with this ID was stored first."""
    stretches = []
    for moment in moments(log, text):
        low = first_record_from(log, moment - ZONE_MS)
        high = first_record_from(log, moment + ZONE_MS)
        if low is not None:
            end = log.end if high is None else high.physical_offset
            stretches.append(LogRange(low.physical_offset, end))
    return stretches


# Places of queues: through the queue's unit, or where that fails by searching the log.


def find_place(sources: Sources, request: ByQueueOffset, answer: Answer) -> None:
    """Find the record at a place of a queue; where that cannot be read, in the log.

    Raises:
        UnreadablePath: the log may not be read, or a running broker deletes files of it.
    """
    answer.taken_for = "place in a queue"
    try:
        _ask_queue(sources, request, answer)
    except UnreadablePath as error:
        if sources.store.moment.is_gone(error.path, error):
            raise
        answer.trail.add("queue", f"cannot be read: {error.reason}", error.path)
        answer.trail.search(f"{error.path} could not be read: {error.reason}")
        _search_place(sources, request, None, None, answer)


def _ask_queue(sources: Sources, request: ByQueueOffset, answer: Answer) -> None:
    queue = sources.queue(request.topic, request.queue_id)
    if queue is None:
        _without_queue(sources, request, answer)
        return
    unit, span = queue.units.find(request.queue_offset), queue.span
    answer.trail.search(f"queue {queue.units.path}")
    if unit is not None and _unit_agrees(sources, request, unit, answer):
        return
    if unit is not None and unit.problem:
        answer.trail.add("queue unit", unit.problem, unit.place.path, unit.place.position)
    inside = span.first is not None and span.min_offset <= request.queue_offset < span.max_offset
    if inside and not (unit and unit.unit and unit.unit.physical_offset < sources.log.start):
        low, high = queue.bounds(request.queue_offset)
        _search_place(sources, request, low, high, answer)
    if not answer.hits:
        answer.problem = (
            f"queue {request.topic} {request.queue_id} has offsets "
            f"[{span.min_offset}, {span.max_offset})"
        )
        if span.expired:
            answer.problem += f", {span.expired} before them are expired"


def _unit_agrees(sources: Sources, request: ByQueueOffset, unit: LookedUp, answer: Answer) -> bool:
    """Verify the record that a unit names."""
    if unit.unit is None:
        return False
    physical_offset = unit.unit.physical_offset
    answer.trail.add("queue unit", "names a record", *unit.place, physical_offset)
    record = sources.log.record_at(physical_offset)
    if not isinstance(record, LogRecord):
        answer.trail.add("record", record.reason, physical_offset=physical_offset)
        return False
    how = at_place(record.message, request)
    if not how:
        message = record.message
        says = f"{message.topic} {message.queue_id} {message.queue_offset}"
        reason = f"the record says it belongs to {says}"
        answer.trail.add("record", reason, record.segment.path, record.position,
                         physical_offset)  # fmt: skip
        return False
    sources.verified(record, answer, how)
    answer.take(Hit(record, BY_QUEUE, how))
    return True


def _without_queue(sources: Sources, request: ByQueueOffset, answer: Answer) -> None:
    """Answer where there is no such queue: it may be lost, or never have been."""
    known = sources.queue_topics
    if request.topic in known:
        numbers = [queue.units.queue_id for queue in sources.queues_of(request.topic)]
        of_topic = ", ".join(map(str, numbers)) or "none"
        answer.problem = f"topic {request.topic} has queues: {of_topic}"
    elif known:
        answer.problem = topics.hint(request.topic, known)
    answer.trail.add("queue", answer.problem or "there are no queues here")
    is_lost = not sources.keeps_queues or (
        request.topic in sources.topics and request.topic not in known
    )
    if is_lost or sources.scan:
        _search_place(sources, request, None, None, answer)
    else:
        answer.trail.search("the directories of queues")
    if answer.hits:
        answer.problem = ""


def _search_place(
    sources: Sources, request: ByQueueOffset, low: int | None, high: int | None, answer: Answer
) -> None:
    """Search the log for the record of a place, between its neighbours where known."""
    answer.may_search = True
    if sources.scan is False:
        answer.trail.search("the log was not searched (--no-scan)")
        return
    from rmqtool.query.scan import find_places

    begin = sources.log.start if low is None else low
    stretch = LogRange(begin, sources.log.end if high is None else high + 1)
    answer.trail.search(f"the log {stretch}")
    for record, _ in find_places(sources.log, [request], [stretch], [answer.trail]):
        how = at_place(record.message, request)
        if answer.take(Hit(record, BY_SEARCH, how)):
            sources.verified(record, answer, how)
