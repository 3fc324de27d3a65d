"""Leave out records that the key index says have other keys than those that are asked for.

1. Entries of a segment lie beside each other in an index file. All are read: those with the hash of
   a wanted key, of any known topic, name records that are read.
2. A record without any entry is read, too, and so are the first and the last one that a file has
   entries of here: a crash may have cut them.
3. The chain of each wanted hash is walked, and one record of each topic is looked at. Where entries
   are not in the order of the log, a chain leads elsewhere, an entry names no record, or a queue
   has records of another topic, the index is not believed: the segment is read as a whole.

So it takes damage in two places that fit each other for a record to be missed.
Source: IndexService#buildIndex, IndexFile#putKey, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.formats import java
from rmqtool.formats.index import FIRST_ENTRY, INDEX_ENTRY, entry_position
from rmqtool.machine.arrays import is_in
from rmqtool.query.index import KeyIndex
from rmqtool.query.topics import known_topics
from rmqtool.spark.claims import NotTrueError
from rmqtool.store.record_heads import LogReader

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.query.index import IndexReader
    from rmqtool.spark.claims import Claims, Int64s
    from rmqtool.spark.options import SourceOptions
    from rmqtool.store.segment import SegmentPart
    from rmqtool.store.tree import Store

MORE: Final = 8  # entries before and behind those of a part: one that is damaged misleads a search
MOST_CHAINS: Final = 10_000  # each is some reads of 20 bytes
MARK: Final = "\ufffd"  # stands for what is not UTF-8; the index has the hash of it, of any bytes


def with_keys(claims: Claims, store: Store, part: SegmentPart, options: SourceOptions) -> Claims:
    """Want only the records that may have one of the keys of a question.

    Args:
        claims: what queues name of a part.
        store: whose.
        part: of its commitlog.
        options: of the read.

    Raises:
        NotTrueError: the index is not believed.
        RmqtoolError: something cannot be read.
    """
    topics = options.selection.topics or known_topics(store)
    if any(MARK in one for one in (*topics, *claims.of_topics)):
        raise NotTrueError
    _check_topics(claims, store, part)
    hashes = {java.key_hash(topic, key) for topic in topics for key in options.by_keys}
    chained = {
        java.key_hash(topic, key)
        for topic in claims.of_topics
        if topic in topics
        for key in options.by_keys
    }
    wanted = np.array(sorted(hashes), np.int64)
    named: list[Int64s] = []
    matching: list[Int64s] = []
    cut: list[int] = []
    with KeyIndex(store) as index:
        readers = [one for one in index.readers if not one.trouble]
        if len(chained) * len(readers) > MOST_CHAINS:
            raise NotTrueError
        for reader in readers:
            entries = _entries(reader, part)
            if not entries.size:
                continue
            offsets = entries["physical_offset"].astype(np.int64)
            is_match = is_in(entries["key_hash"].astype(np.int64), wanted)
            named.append(offsets)
            matching.append(offsets[is_match])
            cut += [int(offsets[0]), int(offsets[-1])]
            _check_chains(reader, chained, set(offsets[is_match].tolist()), part)
    begin, empty = part.segment.start, np.zeros(0, np.int64)
    found = np.sort(np.concatenate([empty, *matching])) - begin
    if not is_in(found, claims.positions).all():
        raise NotTrueError
    is_named = is_in(claims.positions, np.sort(np.concatenate([empty, *named])) - begin)
    is_cut = is_in(claims.positions, np.array(sorted(cut), np.int64) - begin)
    may_have = ~is_named | is_cut | is_in(claims.positions, found)
    return claims._replace(is_wanted=claims.is_wanted & may_have)


def _entries(reader: IndexReader, part: SegmentPart) -> npt.NDArray[np.void]:
    """Give the entries of a part of the log, as they are in the file.

    Raises:
        NotTrueError: they are not in the order of the log.
        UnreadablePath: the file cannot be read.
    """
    begin, end = part.segment.start + part.begin, part.segment.start + part.end
    low = _bisect(reader, begin)
    high = _bisect(reader, end, low)
    first, behind = max(low - MORE, FIRST_ENTRY), min(high + MORE, reader.count)
    if first >= behind:
        return np.zeros(0, INDEX_ENTRY.dtype)
    with reader.file.open() as file:
        size = (behind - first) * INDEX_ENTRY.size
        raw = file.read_at(entry_position(reader.slots, first), size)
    if len(raw) < size:
        raise NotTrueError
    entries = np.frombuffer(raw, INDEX_ENTRY.dtype)
    offsets = entries["physical_offset"].astype(np.int64)
    if (np.diff(offsets) < 0).any():
        raise NotTrueError
    return entries[(offsets >= begin) & (offsets < end)]


def _bisect(reader: IndexReader, physical_offset: int, low: int = FIRST_ENTRY) -> int:
    """Give the number of the first entry of a record at or past an offset, were all in order.

    Raises:
        NotTrueError: an entry that the header counts is not there.
    """
    high = reader.count
    while low < high:
        middle = (low + high) // 2
        entry = reader.entry(middle)
        if entry is None:
            raise NotTrueError
        if entry.physical_offset >= physical_offset:
            high = middle
        else:
            low = middle + 1
    return low


def _check_chains(
    reader: IndexReader, hashes: set[int], found: set[int], part: SegmentPart
) -> None:
    """Walk chains, as a broker does.

    Raises:
        NotTrueError: one leads elsewhere, or has what the entries do not have.
    """
    begin, end = part.segment.start + part.begin, part.segment.start + part.end
    for one in hashes:
        chain = reader.chain(one)
        if chain.trouble or any(begin <= at < end and at not in found for at in chain.offsets):
            raise NotTrueError


def _check_topics(claims: Claims, store: Store, part: SegmentPart) -> None:
    """Look at a record of each topic: a directory of queues may have another name than it had.

    Raises:
        NotTrueError: one is not of its topic.
    """
    with LogReader(store.commitlog) as reader:
        for topic, position in claims.of_topics.items():
            head = reader.head_at(part.segment.start + position)
            if head is None or reader.topic_of(head) != topic:
                raise NotTrueError
