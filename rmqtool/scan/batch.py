"""What a scan of a commitlog yields, and what it was asked to read."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.scan import kernels_text
from rmqtool.scan.window import DEFAULT_WINDOW_BYTES

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rmqtool.findings.catalogue import Code
    from rmqtool.scan.topics import TopicTable
    from rmqtool.store.segment import Segment

# A window of records of 350 bytes; not a power of two: rows would fall on the same cache lines.
BATCH_ROWS: Final = 12288 + 8


class Extent(enum.StrEnum):
    """What a stretch of a segment is."""

    RECORD = "record"
    FILLER = "filler"  # blank record up to the end of the file
    GAP = "gap"  # nothing that can be read
    UNUSED = "unused"  # zeros up to the end of the file


class ScanOptions(NamedTuple):
    """What a scan reads beside the headers of the records."""

    body_crc: bool = True  # compute the checksum of each body
    texts: bool = True  # read topics and properties
    keys: bool = False  # collect the entries of the key index; needs `texts`
    tag_keys: bool = False  # 5.4.0+: the index has an entry for the tags, too
    property_crc: bool = False  # compute the checksum of records that hold one of all they are
    well_formed: bool = False  # mark records whose texts are no UTF-8
    window_bytes: int = DEFAULT_WINDOW_BYTES  # bytes read at a time
    batch_rows: int = BATCH_ROWS  # records in a batch at most
    crc_by_tables: bool = False  # do not use isal

    @property
    def wanted(self) -> int:
        """The WANT_ bits of the text kernel."""
        return (
            self.keys * kernels_text.WANT_KEYS
            | (self.keys and self.tag_keys) * kernels_text.WANT_TAG_KEYS
            | self.property_crc * kernels_text.WANT_PROPERTY_CRC
            | self.well_formed * kernels_text.WANT_WELL_FORMED
        )


@dataclass(slots=True)
class Batch:
    """One stretch of a segment. Its arrays are used again for the next one: copy what lasts."""

    kind: Extent  # what the stretch is
    segment: Segment  # the file
    position: int  # first byte of the stretch in the file
    length: int  # bytes
    code: Code | None  # of a gap, or of what is odd about a filler; None when all is well
    count: int  # records; 0 unless `kind` is RECORD
    matrix: npt.NDArray[np.int64]  # int64, shape (ROWS, m), C order, m >= count; for kernels
    window: npt.NDArray[np.uint8]  # uint8; what the `*_START` rows index
    key_matrix: npt.NDArray[np.int64]  # int64, shape (2, k), C order, k >= key_count; for kernels
    key_count: int  # index entries
    topics: TopicTable  # the topics of this scan so far
    has_texts: bool = False  # whether the rows from TOPIC_NUMBER on are filled
    # codes of records that are damaged, by their position; `judge` fills it
    damage: dict[int, Code] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """Position after the last byte of the stretch."""
        return self.position + self.length

    @property
    def columns(self) -> npt.NDArray[np.int64]:
        """The records: int64, shape (ROWS, count)."""
        return self.matrix[:, : self.count]

    @property
    def key_pairs(self) -> npt.NDArray[np.int64]:
        """The index entries, in dispatch order: int64, shape (2, key_count): record and hash."""
        return self.key_matrix[:, : self.key_count]

    def text(self, start: int, length: int) -> bytes:
        """Give bytes of the window, as `*_START` and `*_LENGTH` say."""
        return self.window[start : start + length].tobytes()
