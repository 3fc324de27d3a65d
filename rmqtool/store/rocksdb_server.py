"""What reads one RocksDB database, in a process of its own: damage never takes rmqtool with it.

`writing.rocksdb_links` starts it for `rocksdb_database`, on a directory of links. It reads
requests, a line of JSON each, from stdin, and writes rows to stdout: frames of lengths, keys and
values, and an answer, a line of JSON, in a frame of its own. It ends when stdin does.
"""

from __future__ import annotations

import gc
import json
import sys
from array import array
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Any, BinaryIO, Final

if TYPE_CHECKING:
    from rocksdict import Rdict, RdictIter

FRAME: Final = Struct("<IQQ")  # rows, bytes of keys, bytes of values; no rows: an answer
PREFIX: Final = "rmqtool-rocksdb-"  # of the directory of links, which nobody is told of
ROWS_A_FRAME: Final = 8192
ROWS_A_PART: Final = 512
BYTES_A_FRAME: Final = 4 << 20
SKIP_CORRUPTED: Final = "skip"
ITEM: Final = "I"  # lengths in a frame: unsigned, 4 bytes, little-endian on all platforms we read


def serve(directory: str, mode: str, memory: int) -> None:
    """Open a database, and answer the lines of stdin.

    Args:
        directory: its files, or links to them.
        mode: `SKIP_CORRUPTED` passes over damaged records of its logs; any other ends there.
        memory: bytes of address space that this process may take.
    """
    gc.disable()  # no circles here, and rows by the million to look for them in
    _limit_memory(memory)
    lines, out = sys.stdin.buffer, sys.stdout.buffer
    try:
        database, answer = _open(directory, mode)
    except Exception as error:  # noqa: BLE001 - the library has one class for all
        _answer(out, {"error": str(error)})
        return
    _answer(out, answer)
    for line in lines:
        _scan(database, json.loads(line), out)


def _limit_memory(most: int) -> None:
    """Let a length from damaged bytes end this process, not the machine."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard == resource.RLIM_INFINITY or hard > most:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _open(directory: str, mode: str) -> tuple[Rdict, dict[str, Any]]:
    """Open the database read-only: its write-ahead logs go to memory, nothing is written.

    `error_if_log_file_exist` is off, or live write-ahead logs would be refused.
    """
    from rocksdict import AccessType, DBRecoveryMode, Options, Rdict

    options = Options(raw_mode=True)
    options.create_if_missing(create_if_missing=False)
    options.set_paranoid_checks(True)
    if mode == SKIP_CORRUPTED:
        options.set_wal_recovery_mode(DBRecoveryMode.skip_any_corrupted_record())
    else:
        options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    names = Rdict.list_cf(directory, options)
    families = {name: Options(raw_mode=True) for name in names}
    database = Rdict(directory, options, families, AccessType.read_only(False))
    live = {one["name"].lstrip("/"): one["size"] for one in database.live_files()}
    return database, {"families": names, "live": live}


def _scan(database: Rdict, asked: dict[str, Any], out: BinaryIO) -> None:
    """Write the rows of a range of a family, then whether it was all of them.

    `items()` of the library gives a row in a third of the time that an iterator takes, which is
    asked for its key, its value and the next. But it ends at damage without a word. So an iterator
    goes on where it ended, and tells whether that is the end.
    """
    from rocksdict import ReadOptions

    options = ReadOptions()
    options.set_verify_checksums(True)
    if asked["end"]:
        options.set_iterate_upper_bound(bytes.fromhex(asked["end"]))
    begin, limit = bytes.fromhex(asked["begin"]), asked["limit"]
    frame = _Frame(out)
    try:
        family = database.get_column_family(asked["family"])
        if not asked["is_last"]:
            items = family.items(from_key=begin or None, read_opt=options)
            while part := list(islice(items, min(ROWS_A_PART, limit - frame.sent))):
                frame.add(part)
        rows = family.iter(options)
        if asked["is_last"]:
            _seek_last(rows, asked)
        elif frame.last is None:
            rows.seek(begin)
        else:
            rows.seek(frame.last)
            rows.next()
        while rows.valid() and frame.sent < limit:
            frame.add([(rows.key(), rows.value())])
            rows.next()
        rows.status()
    except Exception as error:  # noqa: BLE001 - the library has one class for all
        frame.send()
        _answer(out, {"error": str(error)})
        return
    frame.send()
    _answer(out, {})


class _Frame:
    """Rows that wait until they are worth a frame.

    Attributes:
        sent: rows that were taken, of all frames.
        last: the key of the last one; None before.
    """

    def __init__(self, out: BinaryIO) -> None:
        self.sent = 0
        self.last: bytes | None = None
        self._out = out
        self._begin()

    def _begin(self) -> None:
        self._lengths = array(ITEM), array(ITEM)
        self._parts: tuple[list[bytes], list[bytes]] = [], []
        self._sizes = [0, 0]

    def add(self, rows: list[tuple[Any, Any]]) -> None:
        """Take more rows: bytes, as the database is opened raw."""
        columns = tuple(zip(*rows, strict=True))
        for item, column in enumerate(columns):
            joined = b"".join(column)
            self._lengths[item].extend(map(len, column))
            self._parts[item].append(joined)
            self._sizes[item] += len(joined)
        self.sent, self.last = self.sent + len(rows), columns[0][-1]
        if len(self._lengths[0]) >= ROWS_A_FRAME or sum(self._sizes) > BYTES_A_FRAME:
            self.send()

    def send(self) -> None:
        """Write what waits."""
        if self._lengths[0]:
            self._out.write(FRAME.pack(len(self._lengths[0]), *self._sizes))
            self._out.writelines((*self._lengths, *self._parts[0], *self._parts[1]))
            self._begin()


def _seek_last(rows: RdictIter, asked: dict[str, Any]) -> None:
    """Go to the last row of a range, if there is one in it."""
    if asked["end"]:
        rows.seek_for_prev(bytes.fromhex(asked["end"]))
        if rows.valid() and rows.key() == bytes.fromhex(asked["end"]):
            rows.prev()
    else:
        rows.seek_to_last()
    if rows.valid() and rows.key() < bytes.fromhex(asked["begin"]):
        rows.next()


def _answer(out: BinaryIO, answer: dict[str, Any]) -> None:
    raw = json.dumps(answer).encode()
    out.write(FRAME.pack(0, len(raw), 0))
    out.write(raw)
    out.flush()
