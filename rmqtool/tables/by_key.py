"""Leave out records that the key index says have other keys than the one that is asked for.

1. Entries of a segment are next to each other in an index file. All are read: those with the hash
   of the key, of any topic that queues name, name records that are read.
2. Records without an entry are read, and so are records of batch queues, and the first and the
   last record that a file has entries of here: a crash may have cut their entries.
3. The chain of each hash is walked, some records are compared with their entries, and one record
   of each topic is looked at. Where entries are not in the order of the log, a chain leads
   elsewhere or an entry names no record, the index is not believed: the segment is read as a whole.

So a record is missed only if its entries, and their chain, were damaged alike.
Source: IndexService#buildIndex, IndexFile#putKey, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.errors import DecodeError
from rmqtool.formats import java, properties
from rmqtool.formats.index import FIRST_ENTRY, INDEX_ENTRY, entry_position
from rmqtool.formats.message import decode
from rmqtool.machine.arrays import distinct, is_in
from rmqtool.store.index_files import number_at
from rmqtool.store.key_index import KeyIndex
from rmqtool.tables.claims import NotTrueError

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.store.key_index import IndexReader
    from rmqtool.store.place import OpenFile
    from rmqtool.store.segment import SegmentPart
    from rmqtool.store.tree import Store
    from rmqtool.tables.claims import Claims, Int64s

    Entries = npt.NDArray[np.void]

NEAR: Final = 8  # entries before and after those of a part: a damaged one misleads a search
MOST_CHAINS: Final = 10_000  # each is some reads of 20 bytes
MOST_ENTRIES: Final = 1 << 24  # of one part of the log: 320 MB
ENTRIES_A_RECORD: Final = 16  # on average, at most: a hole of an index file is no entries
COMPARED: Final = 16  # records of a part, with their entries
LARGEST_COMPARED: Final = 1 << 20  # bytes of such a record
MARK: Final = "\ufffd"  # stands for what is not UTF-8; many bytes have the hash of it


def with_key(claims: Claims, store: Store, part: SegmentPart, key: str) -> Claims:
    """Want only the records that may have a key.

    Args:
        claims: what queues name of a part.
        store: whose.
        part: of its commitlog.
        key: of the application, or the unique key.

    Raises:
        NotTrueError: the index is not believed.
        RmqtoolError: something cannot be read.
    """
    if any(MARK in name or not _is_text(name) for name in (key, *claims.topics)):
        raise NotTrueError
    hashes = {java.key_hash(topic, key) for topic in claims.topics}
    wanted = np.array(sorted(hashes), np.int64)
    most = min(ENTRIES_A_RECORD * len(claims.positions) + 2 * NEAR, MOST_ENTRIES)
    offsets, key_hashes, edges = [], [], []
    with KeyIndex(store) as index:
        readers = [reader for reader in index.readers if not reader.trouble]
        if len(hashes) * len(readers) > MOST_CHAINS:
            raise NotTrueError
        for reader in readers:
            entries = _entries(reader, part, most)
            if entries.size:
                offsets.append(entries["physical_offset"].astype(np.int64))
                key_hashes.append(entries["key_hash"].astype(np.int64))
                edges += [int(offsets[-1][0]), int(offsets[-1][-1])]
                matching = offsets[-1][is_in(key_hashes[-1], wanted)]
                _check_chains(reader, hashes, set(matching.tolist()), part)
    if not offsets:
        raise NotTrueError  # none of it is indexed: all of it would be read
    begin = part.segment.start
    named, all_hashes = np.concatenate(offsets) - begin, np.concatenate(key_hashes)
    order = np.argsort(named, kind="stable")
    named, all_hashes = named[order], all_hashes[order]
    matching = distinct(named[is_in(all_hashes, wanted)])
    if not is_in(matching, claims.positions).all():
        raise NotTrueError
    is_named = is_in(claims.positions, named)
    _check_records(claims, is_named, named, all_hashes, part)
    is_edge = is_in(claims.positions, np.array(sorted(edges), np.int64) - begin)
    may_have = ~is_named | is_edge | claims.is_batch | is_in(claims.positions, matching)
    return claims._replace(is_wanted=claims.is_wanted & may_have)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _entries(reader: IndexReader, part: SegmentPart, most: int) -> Entries:
    """Give the entries of a part of the log, as they are in the file.

    Raises:
        NotTrueError: they are not in the order of the log, are not there, or are more than `most`.
        UnreadablePath: the file cannot be read.
    """
    begin, end = part.segment.start + part.begin, part.segment.start + part.end
    if (held := reader.held) is None:
        raise NotTrueError
    with held.file.open() as file:
        low = number_at(file, held, begin)
        high = number_at(file, held, end, low)
        first, stop = max(low - NEAR, FIRST_ENTRY), min(high + NEAR, held.end)
        if first >= stop:
            return np.zeros(0, INDEX_ENTRY.dtype)
        if stop - first > most:
            raise NotTrueError
        size = (stop - first) * INDEX_ENTRY.size
        raw = file.read_at(entry_position(reader.slots, first), size)
    if len(raw) < size:
        raise NotTrueError
    entries = np.frombuffer(raw, INDEX_ENTRY.dtype)
    offsets = entries["physical_offset"].astype(np.int64)
    if (np.diff(offsets) < 0).any():
        raise NotTrueError
    return entries[(offsets >= begin) & (offsets < end)]


def _check_chains(
    reader: IndexReader, hashes: set[int], matching: set[int], part: SegmentPart
) -> None:
    """Walk chains, as a broker does.

    Raises:
        NotTrueError: one leads elsewhere, or has what the entries do not have.
    """
    begin, end = part.segment.start + part.begin, part.segment.start + part.end
    for key_hash in hashes:
        chain = reader.chain(key_hash)
        if chain.trouble or any(begin <= at < end and at not in matching for at in chain.offsets):
            raise NotTrueError


def _check_records(
    claims: Claims, is_named: npt.NDArray[np.bool_], named: Int64s, hashes: Int64s,
    part: SegmentPart,
) -> None:  # fmt: skip
    """Compare records with their entries: some of all, and the newest, which a crash may replace.

    Args:
        claims: of the part.
        is_named: which of them entries name.
        named: positions of records that entries name, sorted.
        hashes: of these entries.
        part: of the log.

    Raises:
        NotTrueError: a record has a key that no entry of it has the hash of.
        UnreadablePath: the file cannot be read.
    """
    numbers = np.flatnonzero(is_named)
    spread = numbers[:: max(numbers.size // COMPARED, 1)].tolist()
    with part.segment.open() as file:
        for number in {*spread, *numbers[-COMPARED:].tolist()}:
            position, size = int(claims.positions[number]), int(claims.sizes[number])
            if size <= LARGEST_COMPARED:
                low, high = np.searchsorted(named, [position, position + 1])
                if not _hashes_of(file, position, size) <= set(hashes[low:high].tolist()):
                    raise NotTrueError


def _hashes_of(file: OpenFile, position: int, size: int) -> set[int]:
    """Give the hashes of the keys of a record, as brokers index them.

    Raises:
        NotTrueError: it is no record.
        UnreadablePath: the file cannot be read.
    """
    try:
        message = decode(file.read_at(position, size))
    except DecodeError as error:
        raise NotTrueError from error
    decoded = message.properties
    keys = [decoded.get(properties.UNIQ_KEY, ""), *properties.keys(decoded)]
    return {java.key_hash(message.topic, key) for key in keys if key}
