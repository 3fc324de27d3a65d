"""Judge DLedger's own index by itself, and a conversion: DL-ENTRY, CL-MIXDL.

Entries, and the units that belong to them, are in judge/dledger.py.

Source: DLedgerEntryCoder, DLedgerMmapFileStore#recover, library 0.2.3 to 0.3.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_commitlog import CL_MIXDL, DL_ENTRY
from rmqtool.formats.dledger import DLEDGER_ENTRY, DLEDGER_INDEX_UNIT
from rmqtool.machine.arrays import stretches
from rmqtool.plural import counted
from rmqtool.store.used import used_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding
    from rmqtool.store.place import OpenFile
    from rmqtool.store.segment import Segment

_CHUNK_UNITS: Final = 1 << 15


def check(inspection: Inspection) -> Iterator[Finding]:
    """Say that a store was converted to DLedger; entries are judged with the log."""
    try:
        old = inspection.store.old_commitlog
    except UnreadablePath as error:
        yield inspection.unread(inspection.path_of(error.path), error)
        return
    for segment in inspection.store.dledger_index.segments:
        try:
            segment.open().close()
        except UnreadablePath as error:
            yield inspection.unread(segment.path, error)
    try:
        yield from _holes(inspection)
    except UnreadablePath as error:
        if not inspection.is_known_unread(inspection.path_of(error.path)):
            yield inspection.unread(inspection.path_of(error.path), error)
    if old.segments:
        yield finding(CL_MIXDL, At(old.segments[0].path.rpartition("/")[0]))


def _holes(inspection: Inspection) -> Iterator[Finding]:
    """Find units of the index that are zeros, and an index of which nothing is left.

    Entries are looked up by it; the library only writes it anew from the last three files on.
    Source: DLedgerMmapFileStore#recover, #get, library 0.2.3 to 0.3.2.
    """
    store = inspection.store
    data, index = store.commitlog, store.dledger_index
    if not store.is_dledger or not data.segments:
        return
    header = data.segments[0].place.read(DLEDGER_ENTRY.size)
    if not any(header) or len(header) < DLEDGER_ENTRY.size:
        return  # no entry was ever written
    unit = DLEDGER_INDEX_UNIT.size
    first = DLEDGER_ENTRY["index"].of(header) * unit
    ends = []
    for segment in index.segments:
        with segment.open() as file:
            ends.append(used_bytes(file, unit))
    if index.oddities and not any(ends):
        return  # said elsewhere
    if not any(ends):
        directory = data.segments[0].path.rpartition("/data/")[0]
        path = index.segments[0].path if index.segments else f"{directory}/index"
        what = "is empty" if index.segments else "is not there"
        message = f"the index of the entries {what}: the library rebuilds it from data/"
        yield finding(DL_ENTRY, At(path), message, severity=Severity.WARNING)
        return
    last = max(number for number, end in enumerate(ends) if end)
    for number, segment in enumerate(index.segments[: last + 1]):
        begin = max(first - segment.start, 0)
        end = ends[number] if number == last else segment.size // unit * unit
        with segment.open() as file:
            yield from _zero_units(segment, file, begin, end)


def _zero_units(segment: Segment, file: OpenFile, begin: int, end: int) -> Iterator[Finding]:
    """Say which units of an index file are zeros although others follow, a stretch at a time."""
    unit, size = DLEDGER_INDEX_UNIT.size, _CHUNK_UNITS * DLEDGER_INDEX_UNIT.size
    for start in range(begin, end, size):
        raw = file.read_at(start, min(size, end - start))
        units = np.frombuffer(raw, np.uint8, len(raw) // unit * unit).reshape(-1, unit)
        for first, after in stretches(np.logical_not(units.any(axis=1))):
            at = At(segment.path, start + first * unit, (after - first) * unit)
            message = f"{counted(after - first, 'unit')} of the index are zeros, and others follow"
            yield finding(DL_ENTRY, at, message)
