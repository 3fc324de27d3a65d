"""Judge DLedger's entry headers, and the index units of entries: DL-ENTRY.

Source: DLedgerEntryCoder, DLedgerMmapFileStore#recover, library 0.2.3 to 0.3.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.errors import UnreadablePath
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_commitlog import DL_ENTRY
from rmqtool.formats.dledger import DLEDGER_ENTRY, DLEDGER_INDEX_UNIT, ENTRY_MAGIC
from rmqtool.scan import columns as row

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.findings.finding import Finding
    from rmqtool.scan.batch import Batch
    from rmqtool.store.segment import MappedFiles

NEVER_COMPUTED: Final = ("channel", "chain_crc", "body_crc")


class DLedgerEntryJudge:
    """Judges the entry headers of one scan. Belongs to one thread.

    Attributes:
        first: index and term of the first entry; None for none.
        last: index and term of the last one.
        unread: why an index file could not be read; None where all could.
    """

    def __init__(self, index: MappedFiles | None) -> None:
        self._index = index
        self.first: tuple[int, int] | None = None
        self.last: tuple[int, int] | None = None
        self.unread: UnreadablePath | None = None

    def judge(self, batch: Batch) -> Iterator[Finding]:
        """Judge the entries of a batch: numbers, terms, unused fields, units of the index."""
        entries = _headers(batch)
        numbers, terms = entries["index"].astype(np.int64), entries["term"].astype(np.int64)
        before = self.last or (int(numbers[0]) - 1, int(terms[0]))
        steps = np.diff(numbers, prepend=before[0]) != 1
        falls = np.diff(terms, prepend=before[1]) < 0
        unused = np.zeros(len(entries), bool)
        for name in NEVER_COMPUTED:
            unused |= entries[name] != 0
        for number in np.flatnonzero(steps | falls | unused).tolist():
            at = _at(batch, number)
            if unused[number]:
                message = "a field that the library never sets is set"
                yield finding(DL_ENTRY, at, message, expected=0)
            else:
                message = "the entry's number or term does not follow the previous entry's"
                actual = f"entry {numbers[number]} of term {terms[number]}"
                yield finding(DL_ENTRY, at, message, actual=actual)
        self.first = self.first or (int(numbers[0]), int(terms[0]))
        self.last = int(numbers[-1]), int(terms[-1])
        if self._index is not None and not steps[1:].any():
            yield from self._compare(entries, self._index, batch)

    def _compare(
        self, entries: npt.NDArray[np.void], index: MappedFiles, batch: Batch
    ) -> Iterator[Finding]:
        """Compare the index units of consecutive entries."""
        wanted = np.zeros(len(entries), DLEDGER_INDEX_UNIT.dtype)
        wanted["magic"] = ENTRY_MAGIC
        for name in ("pos", "size", "index", "term"):
            wanted[name] = entries[name]
        start = int(entries["index"][0]) * DLEDGER_INDEX_UNIT.size
        try:
            raw = _read(index, start, wanted.nbytes)
        except UnreadablePath as error:
            self.unread = error
            return
        units = np.frombuffer(raw, np.uint8).reshape(-1, DLEDGER_INDEX_UNIT.size)
        expected = wanted.view(np.uint8).reshape(-1, DLEDGER_INDEX_UNIT.size)[: len(units)]
        # Units at the tail may not have been written; the library adds them when it starts.
        written = units.any(axis=1)
        for number in np.flatnonzero(written & (units != expected).any(axis=1)).tolist():
            place = start + number * DLEDGER_INDEX_UNIT.size
            segment = index.at(place)
            if segment is not None:
                position = place - segment.start
                at = At(
                    segment.path,
                    position,
                    DLEDGER_INDEX_UNIT.size,
                    _at(batch, number).physical_offset,
                )
                yield finding(
                    DL_ENTRY,
                    at,
                    "the index unit does not match its entry",
                    expected=expected[number].tobytes().hex(),
                    actual=units[number].tobytes().hex(),
                )


def _headers(batch: Batch) -> npt.NDArray[np.void]:
    """Give the entry headers in front of the records of a batch."""
    size = DLEDGER_ENTRY.size
    starts = batch.columns[row.RECORD_START] - size
    places = starts[:, None] + np.arange(size)
    raw = np.ascontiguousarray(batch.window[places])
    return raw.view(DLEDGER_ENTRY.dtype).reshape(-1)


def _at(batch: Batch, number: int) -> At:
    record = batch.matrix[:, number]
    size = DLEDGER_ENTRY.size
    position, physical_offset = int(record[row.POSITION]), int(record[row.PHYSICAL_OFFSET])
    return At(batch.segment.path, position - size, size, physical_offset - size)


def _read(files: MappedFiles, start: int, length: int) -> bytes:
    """Read across the border of two files."""
    parts = []
    while length > 0:
        segment = files.at(start)
        raw = files.read_at(start, length) if segment else b""
        if not raw:
            break
        parts.append(raw)
        start, length = start + len(raw), length - len(raw)
    joined = b"".join(parts)
    return joined[: len(joined) // DLEDGER_INDEX_UNIT.size * DLEDGER_INDEX_UNIT.size]
