"""Judge each key index file by itself: length, header, slots, chains, and the order of the files.

Whether the entries are those of the log is in index_entries.py.
Source: IndexFile#putKey, IndexService#load, #getAndCreateLastIndexFile, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.check.registry import At, finding
from rmqtool.errors import UnreadablePath
from rmqtool.findings import Severity
from rmqtool.formats.index import (
    FIRST_ENTRY,
    INDEX_ENTRY,
    INDEX_HEADER,
    INDEX_SLOT,
    entry_position,
    file_length,
    slot_position,
)
from rmqtool.scan.index import BATCH_ENTRIES, Chains, EntryBatch, read_header, read_slots, scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.findings import Finding
    from rmqtool.store.index_files import IndexFile
    from rmqtool.store.place import OpenFile

SHOWN_LINKS: Final = 8  # broken links of one file that are listed one by one
ENTRY: Final = INDEX_ENTRY.size


@dataclass(frozen=True, slots=True)
class IndexHead:
    """What is known of one file once its header has been judged.

    Attributes:
        file: where it is, and its geometry.
        header: its fields.
        end: number behind the last entry that can be read.
    """

    file: IndexFile
    header: dict[str, int]
    end: int

    @property
    def is_full(self) -> bool:
        """Whether the broker goes on in another file."""
        return self.header["index_count"] >= self.file.entries

    @property
    def count(self) -> int:
        """Entries in use."""
        return max(self.end - FIRST_ENTRY, 0)


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one file by itself gave.

    Attributes:
        file: which.
        head: None where no entries can be read.
        findings: of this file.
        unread: why it could not be read; empty when it could.
    """

    file: IndexFile
    head: IndexHead | None
    findings: tuple[Finding, ...]
    unread: str = ""


def inspect_index_file(file: IndexFile, *, deep: bool = True) -> IndexReport:
    """Judge one file: a per-file function for the engine.

    Args:
        file: which.
        deep: follow the chains; else only length and header are judged.
    """
    try:
        with file.open() as opened:
            head, found = _judge_head(file, opened)
            if head is not None and deep:
                found += _judge_chains(head, opened)
    except UnreadablePath as error:
        return IndexReport(file, None, (), error.reason)
    return IndexReport(file, head, tuple(found))


def judge_order(heads: Sequence[IndexHead]) -> Iterator[Finding]:
    """Judge the files among each other, in the order in which a broker loads them."""
    for before, after in pairwise(heads):
        at = At(after.file.path)
        first, next_first = (one.header["begin_physical_offset"] for one in (before, after))
        if next_first < first:
            yield finding("IX-ORDER", at, expected=f"from {first} on", actual=next_first)
        elif not before.is_full:
            yield finding("IX-CAP", At(before.file.path), actual=before.header["index_count"])


def _judge_head(file: IndexFile, opened: OpenFile) -> tuple[IndexHead | None, list[Finding]]:
    at = At(file.path)
    header = read_header(opened)
    if header is None:
        return None, [finding("IX-LEN", at, expected=INDEX_HEADER.size, actual=opened.size)]
    if not file.slots or not file.entries:
        message = "neither configuration nor content tells how many slots the file was made for"
        return None, [finding("IX-LEN", at, message, actual=opened.size)]
    found = []
    length = file_length(file.slots, file.entries)
    if opened.size != length:
        found.append(finding("IX-LEN", at, expected=length, actual=opened.size))
    count = header["index_count"]
    if not (FIRST_ENTRY <= count <= file.entries or not any(header.values())):
        at = At(file.path, INDEX_HEADER.positions["index_count"], 4)
        bounds = f"{FIRST_ENTRY} to {file.entries}"
        found.append(finding("IX-COUNT", at, expected=bounds, actual=count))
    room = (opened.size - entry_position(file.slots, 0)) // ENTRY
    return IndexHead(file, header, max(min(count, file.entries, room), 0)), found


def _judge_chains(head: IndexHead, opened: OpenFile) -> list[Finding]:
    """Follow all entries once: what they say every slot and every link must hold."""
    file, chains = head.file, Chains(head.file.slots)
    found: list[Finding] = []
    broken = empty = 0
    first: EntryBatch | None = None
    last: EntryBatch | None = None
    for batch in scan(opened, file, end=head.end):
        first, last = first or batch, batch
        zero = int((batch.raw.max(axis=1) == 0).sum())
        empty += zero
        for link in chains.follow(batch):
            broken += 1
            if broken <= SHOWN_LINKS:
                at = At(file.path, entry_position(file.slots, link.number), ENTRY)
                message = f"entry {link.number} is not chained to the one before it in its slot"
                found.append(
                    finding("IX-CHAIN", at, message, expected=link.expected, actual=link.actual)
                )
    if broken > SHOWN_LINKS:
        message = f"{broken - SHOWN_LINKS} more entries of this file are chained wrongly"
        found.append(finding("IX-CHAIN", At(file.path), message))
    if empty:
        message = f"{empty} entries before indexCount are all zero: a torn write"
        found.append(finding("IX-STALE", At(file.path), message))
    found += _judge_slots(head, chains, opened)
    if first is not None and last is not None:
        found += _judge_ends(head, first, last)
    if _has_bytes_behind(head, opened):
        position = entry_position(file.slots, head.end)
        at = At(file.path, position, opened.size - position)
        found.append(finding("IX-STALE", at, "bytes that are not zero lie behind the last entry"))
    return found


def _judge_slots(head: IndexHead, chains: Chains, opened: OpenFile) -> list[Finding]:
    """Compare the slots with the newest entry of each chain."""
    file, found = head.file, []
    slots = read_slots(opened, file.slots)
    shared = min(slots.size, file.slots)
    wrong = np.flatnonzero(slots[:shared] != chains.newest[:shared])
    for slot in wrong[:SHOWN_LINKS].tolist():
        at = At(file.path, slot_position(slot), INDEX_SLOT.size)
        exists = 0 <= slots[slot] < max(head.end, FIRST_ENTRY)
        found.append(
            finding(
                "IX-CHAIN" if exists else "IX-SLOT",
                at,
                f"slot {slot} does not name the newest entry of its chain" if exists else "",
                expected=int(chains.newest[slot]),
                actual=int(slots[slot]),
            )
        )
    if len(wrong) > SHOWN_LINKS:
        message = f"{len(wrong) - SHOWN_LINKS} more slots of this file are wrong"
        found.append(finding("IX-SLOT", At(file.path), message))
    used = int(np.count_nonzero(slots))
    stated = head.header["hash_slot_count"]
    if used != stated and not len(wrong):
        at = At(file.path, INDEX_HEADER.positions["hash_slot_count"], 4)
        found.append(finding("IX-SLOTCOUNT", at, expected=used, actual=stated))
    return found


def _judge_ends(head: IndexHead, first: EntryBatch, last: EntryBatch) -> Iterator[Finding]:
    """Compare the header's offsets with those of the first and the last entry."""
    ends = {
        "begin_physical_offset": int(first.column("physical_offset")[0]),
        "end_physical_offset": int(last.column("physical_offset")[-1]),
    }
    for name, expected in ends.items():
        if head.header[name] != expected:
            at = At(head.file.path, INDEX_HEADER.positions[name], 8, expected)
            yield finding("IX-HEAD", at, expected=expected, actual=head.header[name])


def _has_bytes_behind(head: IndexHead, opened: OpenFile) -> bool:
    """Tell whether anything but zeros lies behind the last entry; holes are not read."""
    position = entry_position(head.file.slots, max(head.end, FIRST_ENTRY))
    step = BATCH_ENTRIES * ENTRY
    while position < opened.size:
        data = opened.next_data(position)
        if data is None:
            return False
        position = max(data, position)
        if opened.read_at(position, step).strip(b"\0"):
            return True
        position += step
    return False


def expired_note(file: IndexFile, count: int) -> Finding:
    """Say how many entries of a file are of messages that have expired."""
    message = f"{count} entries are of messages that have expired"
    return finding("IX-KEY", At(file.path), message, severity=Severity.NOTE)
