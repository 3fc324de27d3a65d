"""All runs of all images, in little memory: whose they are, and which of them are out of line.

A run takes 40 bytes, however many records it has. Stores are told apart by the store host of their
records. Where the host changes while records go on in one log, both hosts are one store: a broker
whose address changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.carve.kernels import (
    CHECKED,
    COUNT,
    HOST_HIGH,
    HOST_LOW,
    HOST_PORT,
    LENGTH,
    OFFSET,
    POSITION,
    STRIDE,
    UNSURE,
    V6,
)
from rmqtool.carve.kernels_judge import SECTOR
from rmqtool.errors import UnreadablePath
from rmqtool.formats.dledger import DLEDGER_BODY_OFFSET
from rmqtool.formats.host import host_text, ipv4_host, ipv6_host

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy.typing as npt

    Int64s: TypeAlias = npt.NDArray[np.int64]
    Bools: TypeAlias = npt.NDArray[np.bool_]

MOST_RUNS: Final = 3_000_000  # 120 MB; memory is taken when it is used
MOST_HOSTS: Final = 65_536  # all more are one
LONGEST_BODY: Final = 4 << 20  # the default of maxMessageSize: a longer run lies in no body
_HOST: Final = (HOST_HIGH, HOST_LOW, HOST_PORT)


class Run(NamedTuple):
    """FoundRecords that follow each other in an image as they do in their log."""

    image: int  # number of the image
    position: int  # of the first record in the image, bytes
    length: int  # up to the end of the last record, bytes
    offset: int  # physical offset of the first record
    records: int  # how many
    stride: int  # bytes between two of them
    is_lone: bool  # nothing vouches for them


class CarvedRuns:
    """Takes runs in the order of the images, and puts together what a border of parts cut."""

    def __init__(self) -> None:
        self.size = 0
        self._rows: Int64s = np.empty((5, MOST_RUNS), np.int64)
        self._hosts: dict[tuple[int, int, int], int] = {}
        self._same: list[int] = []  # of each host, one that is of the same store
        self._image = 0
        self._open: Int64s | None = None  # the last run, which may go on
        self._before: Int64s | None = None  # the one before it

    @property
    def positions(self) -> Int64s:
        """Where each begins in its image."""
        return self._rows[0, : self.size]

    @property
    def lengths(self) -> Int64s:
        """Bytes of each."""
        return self._rows[1, : self.size]

    @property
    def offsets(self) -> Int64s:
        """Physical offset of each."""
        return self._rows[2, : self.size]

    @property
    def counts(self) -> Int64s:
        """FoundRecords of each."""
        return self._rows[3, : self.size]

    @property
    def facts(self) -> Int64s:
        """Of each: number of the image, of the host, whether it has strides, whether it is lone."""
        return self._rows[4, : self.size]

    @property
    def is_lone(self) -> Bools:
        """What nothing vouches for."""
        is_lone: Bools = (self.facts & 1).astype(np.bool_)
        return is_lone

    @property
    def images(self) -> Int64s:
        """Number of the image of each."""
        images: Int64s = self.facts >> 32
        return images

    @property
    def hosts(self) -> Int64s:
        """Number of the host of each."""
        hosts: Int64s = (self.facts >> 2) & 0xFFFFF
        return hosts

    def add(self, image: int, matrix: Int64s) -> None:
        """Take runs of an image, in order.

        Args:
            image: its number; images come one after the other.
            matrix: int64, shape (RUN_ROWS, n).

        Raises:
            UnreadablePath: there are too many.
        """
        if image != self._image:
            self.end()
            self._image = image
        if self._open is not None:
            matrix = np.concatenate([self._open, matrix], axis=1)
            if matrix.shape[1] > 1 and _joins(matrix[:, 0], matrix[:, 1]):
                _join(matrix)
                matrix = matrix[:, 1:]
        if matrix.shape[1]:
            self._put(matrix[:, :-1], matrix[:, -1:])
            self._open = matrix[:, -1:].copy()

    def end(self) -> None:
        """Take note that no more runs follow in this image."""
        if self._open is not None:
            self._put(self._open, self._open[:, :0])
        self._open = self._before = None

    def settle(self) -> None:
        """Find the runs out of line, once all are there.

        A body may hold copies of records. Where the record around them is gone, they look like
        any others; but files begin at a sector of a disk, and segments at multiples of one, so
        that all records of logs lie alike, and what lies in bodies does not.
        """
        self.end()
        residues = (self.positions - self.offsets) & (SECTOR - 1)
        for image in np.unique(self.images).tolist():
            is_here = self.images == image
            known = is_here & ~self.is_lone
            if not known.any():
                continue
            weights = np.bincount(residues[known], self.lengths[known], SECTOR)
            is_out = is_here & (residues != int(weights.argmax()))
            self.facts[is_out & (self.lengths <= LONGEST_BODY)] |= 1

    def stores(self) -> Int64s:
        """Give the number of the store of each host."""
        return np.array([self._store(number) for number in range(len(self._same))], np.int64)

    def host_names(self) -> list[str]:
        """Give the hosts as texts, by number."""
        return [_host_name(*host) for host in self._hosts]

    def run(self, number: int) -> Run:
        """Give one run."""
        facts = int(self.facts[number])
        return Run(
            facts >> 32,
            int(self.positions[number]),
            int(self.lengths[number]),
            int(self.offsets[number]),
            int(self.counts[number]),
            DLEDGER_BODY_OFFSET if facts & 2 else 0,
            bool(facts & 1),
        )

    def _put(self, matrix: Int64s, after: Int64s) -> None:
        """Keep runs; what lies before and after them may vouch for a single one."""
        count = matrix.shape[1]
        if not count:
            return
        if self.size + count > MOST_RUNS:
            reason = f"more than {MOST_RUNS:,} fragments of logs: carve parts of it one by one"
            raise UnreadablePath(path=f"image {self._image + 1}", reason=reason)
        before = matrix[:, :0] if self._before is None else self._before
        around = np.concatenate([before, matrix, after], axis=1)
        follows = _follows(around)
        first = before.shape[1]
        chained = np.zeros(around.shape[1] + 1, np.bool_)
        chained[1:-1] = follows
        is_next = chained[first : first + count] | chained[first + 1 : first + 1 + count]
        hosts = self._numbers(around)
        for place in np.flatnonzero(follows).tolist():
            self._unite(int(hosts[place]), int(hosts[place + 1]))
        is_lone = (matrix[COUNT] == 1) & (matrix[CHECKED] == 0) & ~is_next
        is_lone |= matrix[UNSURE] == 1
        facts = (self._image << 32) | (hosts[first : first + count] << 2) | is_lone
        facts |= (matrix[STRIDE] > 0).astype(np.int64) << 1
        kept = (matrix[POSITION], matrix[LENGTH], matrix[OFFSET], matrix[COUNT], facts)
        for number, values in enumerate(kept):
            self._rows[number, self.size : self.size + count] = values
        self.size += count
        self._before = matrix[:, -1:].copy()

    def _numbers(self, matrix: Int64s) -> Int64s:
        hosts = matrix[[HOST_HIGH, HOST_LOW, HOST_PORT]].T.tolist()
        return np.array([self._number(tuple(host)) for host in hosts], np.int64)

    def _number(self, host: tuple[int, int, int]) -> int:
        number = self._hosts.get(host)
        if number is None:
            number = min(len(self._hosts), MOST_HOSTS - 1)
            if len(self._hosts) < MOST_HOSTS:
                self._hosts[host] = number
                self._same.append(number)
        return number

    def _store(self, number: int) -> int:
        while self._same[number] != number:
            number = self._same[number] = self._same[self._same[number]]
        return number

    def _unite(self, either: int, other: int) -> None:
        either, other = self._store(either), self._store(other)
        self._same[max(either, other)] = min(either, other)


def _follows(matrix: Int64s) -> Bools:
    """Tell of each run but the last whether the next one goes on where it ends, in its log, too."""
    frames = matrix[POSITION] - matrix[OFFSET]
    gaps = matrix[POSITION, 1:] - matrix[POSITION, :-1] - matrix[LENGTH, :-1]
    follows: Bools = (frames[1:] == frames[:-1]) & ((gaps == 0) | (gaps == DLEDGER_BODY_OFFSET))
    return follows


def _joins(first: Int64s, second: Int64s) -> bool:
    """Tell whether two runs are one that a border of parts cut."""
    pair = np.stack([first, second], axis=1)
    if (
        not _follows(pair)[0]
        or pair[UNSURE].any()
        or any(pair[side, 0] != pair[side, 1] for side in _HOST)
    ):
        return False
    gap = second[POSITION] - first[POSITION] - first[LENGTH]
    return all(run[COUNT] == 1 or run[STRIDE] == gap for run in (first, second))


def _join(matrix: Int64s) -> None:
    """Put the first run into the second."""
    first, second = matrix[:, 0], matrix[:, 1]
    second[STRIDE] = second[POSITION] - first[POSITION] - first[LENGTH]
    second[LENGTH] += second[POSITION] - first[POSITION]
    second[POSITION], second[OFFSET] = first[POSITION], first[OFFSET]
    second[COUNT] += first[COUNT]
    second[CHECKED] += first[CHECKED]


def _host_name(high: int, low: int, port: int) -> str:
    return host_text(*(ipv6_host(high, low, port ^ V6) if port & V6 else ipv4_host(low)))
