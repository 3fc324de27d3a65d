"""Replicas that do not have the same record at one physical offset: which copy is taken.

A flipped bit in a unique key or a number leaves a record that looks sound, and is another message
by its key. Of three copies the two that are the same win; otherwise the copy that the queue units
and key indexes of the stores confirm more often, and of several such the one that has most bytes in
common with the others. What cannot be told is written once, as the first of the stores has it whose
copy is confirmed most, and named.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from rmqtool.errors import UnreadablePath
from rmqtool.formats import java
from rmqtool.query.log import LogRecord
from rmqtool.query.sources import Sources
from rmqtool.relog.fields import FACT_BITS, FACTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.formats.message import Message
    from rmqtool.relog.sources import LogSource

    Int64s: TypeAlias = npt.NDArray[np.int64]
    Bools: TypeAlias = npt.NDArray[np.bool_]

MOST_ASKED: Final = 10_000  # records whose evidence is looked at; others count as not told
_ALIKE: Final = 3  # facts of five that copies of one record have in common, at least


class Census(NamedTuple):
    """What is remembered of the records of a source: int64, shape (n,) each, in its order."""

    keys: Int64s  # see `fields.KEY`
    offsets: Int64s  # physical offsets
    contents: Int64s  # hashes of whole records
    facts: Int64s  # some bits of each of five facts; see `fields.facts_of`


NONE: Final = Census(*[np.empty(0, np.int64)] * 4)


class Votes(NamedTuple):
    """How the copies that differ were told apart; physical offsets."""

    by_majority: list[int]
    by_evidence: list[int]
    untold: list[int]
    # whether all sources hold one log: then offsets give the order, and no clock has to
    is_one_log: bool = False


class _CopyOfRecord(NamedTuple):
    """The record that a source has at an offset."""

    source: int
    number: int  # of the record in its source
    content: int
    facts: int


def vote(sources: Sequence[LogSource], censuses: Sequence[Census], marks: Sequence[Bools]) -> Votes:
    """Mark the copies that are not taken, and unmark those that are.

    Args:
        sources: stores, and files of records, which have no say.
        censuses: of each source.
        marks: bool, shape (n,), of each source; true where an earlier source has the message, too.
    """
    votes = Votes([], [], [], _are_one_log(sources, censuses))
    if votes.is_one_log:  # a key that several messages have tells nothing where one of them is lost
        _mark_by_offset(censuses, marks)
    with ExitStack() as opened:
        stores = [source.store for source in sources if source.store is not None]
        lookups = [opened.enter_context(Sources(store)) for store in stores]
        for offset, copies in _conflicts(sources, censuses):
            winner, decided = _majority(copies), votes.by_majority
            if winner is None:
                winner, decided = copies[0], votes.untold
                if len(votes.by_evidence) + len(votes.untold) < MOST_ASKED:
                    best = _confirmed(offset, copies, sources, lookups)
                    winner = best[0] if best else winner
                    decided = votes.by_evidence if len(best) == 1 else votes.untold
            decided.append(offset)
            for copy in copies:
                marks[copy.source][copy.number] = copy is not winner
    return votes


def _conflicts(
    sources: Sequence[LogSource], censuses: Sequence[Census]
) -> Iterator[tuple[int, list[_CopyOfRecord]]]:
    """Yield the copies of each record that is not the same in all stores, with its offset."""
    some = [number for number, source in enumerate(sources) if source.store is not None]
    by_offset: dict[int, list[_CopyOfRecord]] = {}
    odd: Int64s = np.empty(0, np.int64)
    for number, first in enumerate(some):
        for second in some[number + 1 :]:
            a, b = censuses[first], censuses[second]
            _, in_a, in_b = np.intersect1d(a.offsets, b.offsets, return_indices=True)
            differs = a.contents[in_a] != b.contents[in_b]
            differs &= _are_alike(a.facts[in_a], b.facts[in_b])
            odd = np.union1d(odd, a.offsets[in_a[differs]])
    for source in some:
        census = censuses[source]
        for number in np.flatnonzero(np.isin(census.offsets, odd)).tolist():
            copy = _CopyOfRecord(
                source, number, int(census.contents[number]), int(census.facts[number])
            )
            by_offset.setdefault(int(census.offsets[number]), []).append(copy)
    for offset, copies in sorted(by_offset.items()):
        for cluster in _clusters(copies):
            if len({copy.content for copy in cluster}) > 1:
                yield offset, cluster


def _are_one_log(sources: Sequence[LogSource], censuses: Sequence[Census]) -> bool:
    """Tell whether sources are stores that have most records at the same places as the first."""
    if any(source.store is None for source in sources):
        return False
    first = censuses[0]
    for other in censuses[1:]:
        _, in_a, in_b = np.intersect1d(first.offsets, other.offsets, return_indices=True)
        same = int((first.contents[in_a] == other.contents[in_b]).sum())
        if 2 * same <= len(in_a):
            return False
    return True


def _mark_by_offset(censuses: Sequence[Census], marks: Sequence[Bools]) -> None:
    """Mark the records at whose place an earlier source has one, too."""
    seen: Int64s = np.empty(0, np.int64)
    for census, mark in zip(censuses, marks, strict=True):
        mark[:] = np.isin(census.offsets, seen)
        seen = np.union1d(seen, census.offsets)


def _clusters(copies: list[_CopyOfRecord]) -> list[list[_CopyOfRecord]]:
    """Put copies of one record together: a store of another broker may lie at the same offset."""
    clusters: list[list[_CopyOfRecord]] = []
    for copy in copies:
        facts = np.array([copy.facts])
        for cluster in clusters:
            if any(_are_alike(facts, np.array([other.facts])).all() for other in cluster):
                cluster.append(copy)
                break
        else:
            clusters.append([copy])
    return clusters


def _are_alike(a: Int64s, b: Int64s) -> Bools:
    same = np.zeros(a.shape, np.int64)
    for fact in range(FACTS):
        shift = fact * FACT_BITS
        same += ((a ^ b) >> shift) & ((1 << FACT_BITS) - 1) == 0
    alike: Bools = same >= _ALIKE
    return alike


def _majority(copies: list[_CopyOfRecord]) -> _CopyOfRecord | None:
    """Give the first copy of the content that most have; None where two have as many."""
    counts: dict[int, int] = {}
    for copy in copies:
        counts[copy.content] = counts.get(copy.content, 0) + 1
    most = max(counts.values())
    best = [content for content, count in counts.items() if count == most]
    return next(copy for copy in copies if copy.content == best[0]) if len(best) == 1 else None


def _confirmed(
    offset: int,
    copies: list[_CopyOfRecord],
    sources: Sequence[LogSource],
    lookups: Sequence[Sources],
) -> list[_CopyOfRecord]:
    """Give the copies that are confirmed best, one of each content.

    First by queue units and key indexes, then by the bytes that they have in common with the
    others: where each of three has a damage of its own, the others have the byte there.
    """
    by_store = {id(lookup.store): lookup for lookup in lookups}
    records: list[tuple[_CopyOfRecord, LogRecord]] = []
    for copy in copies:
        record = by_store[id(sources[copy.source].store)].log.record_at(offset)
        if isinstance(record, LogRecord):
            records.append((copy, record))
    ranks: dict[int, tuple[int, int]] = {}
    firsts: dict[int, _CopyOfRecord] = {}
    for copy, record in records:
        if copy.content not in firsts:
            score = sum(_score(record.message, lookup) for lookup in lookups)
            common = sum(_common(record.raw, other.raw) for _, other in records)
            firsts[copy.content], ranks[copy.content] = copy, (score, common)
    best = max(ranks.values(), default=None)
    return [copy for content, copy in firsts.items() if ranks[content] == best]


def _common(raw: bytes, other: bytes) -> int:
    """Count the bytes that two records have in common, at the same places."""
    length = min(len(raw), len(other))
    first, second = (np.frombuffer(some, np.uint8, length) for some in (raw, other))
    return int((first == second).sum())


def _score(message: Message, lookup: Sources) -> int:
    """Count what of a store names the record as it is, less what would have to."""
    offset, score = message.physical_offset, 0
    try:
        for key in filter(None, (message.unique_key, *message.keys)):
            chains = lookup.index.chains(java.key_hash(message.topic, key))
            score += 1 if any(offset in chain.offsets for chain in chains) else -1
        queue = lookup.queue(message.topic, message.queue_id)
        place = None if queue is None else queue.units.find(message.queue_offset)
        unit = None if place is None else place.unit
        is_same = unit is not None and (unit.physical_offset, unit.size) == (
            offset,
            message.total_size,
        )
        score += 1 if is_same else -1
    except UnreadablePath:
        return score
    return score
