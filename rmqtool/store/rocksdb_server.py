"""What reads one RocksDB database, in a process that can do nothing else: see `confinement`.

`writing.rocksdb_keeper` starts it for `rocksdb_database`, in a directory of links to open files. It
reads questions from one pipe, and writes rows and answers to another: see `rocksdb_frames`. It
ends when nobody asks any more.
"""

from __future__ import annotations

import gc
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from rmqtool.store import rocksdb_frames
from rmqtool.store.rocksdb_frames import BYTES, LARGEST_KEY, ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from rocksdict import Rdict, RdictIter

    from rmqtool.store.rocksdb_frames import Read

HERE: Final = "."  # the directory of this process
SKIP_CORRUPTED: Final = "skip"


def serve(order: dict[str, Any], read: Read, out: BinaryIO) -> None:
    """Open the database of this directory, and answer questions until there are no more.

    Args:
        order: `mode`, which is how its logs are read: `SKIP_CORRUPTED` passes over damaged records,
            any other ends there; `open_files`, which is how many it may have open.
        read: gives bytes of the questions; raises EOFError at their end.
        out: takes the answers.
    """
    gc.disable()  # no circles here, and rows by the million to look for them in
    try:
        database, answer = _open(order)
    except Exception as error:  # noqa: BLE001 - the library has one class for all
        rocksdb_frames.send(out, {"error": str(error)})
        return
    rocksdb_frames.send(out, answer | {"lacking": order["lacking"]})
    while True:
        question = rocksdb_frames.read_frame(read)
        if isinstance(question, dict):
            _scan(database, question, out)


def _open(order: dict[str, Any]) -> tuple[Rdict, dict[str, Any]]:
    """Open the database read-only: its write-ahead logs go to memory, nothing is written.

    `error_if_log_file_exist` is off, or live write-ahead logs would be refused.
    """
    from rocksdict import AccessType, DBRecoveryMode, Options, Rdict

    options = Options(raw_mode=True)
    options.create_if_missing(create_if_missing=False)
    options.set_paranoid_checks(True)
    options.set_max_open_files(order["open_files"])
    options.set_max_file_opening_threads(1)
    if order["mode"] == SKIP_CORRUPTED:
        options.set_wal_recovery_mode(DBRecoveryMode.skip_any_corrupted_record())
    else:
        options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    names = Rdict.list_cf(HERE, options)
    families = {name: Options(raw_mode=True) for name in names}
    database = Rdict(HERE, options, families, AccessType.read_only(False))
    live = {file["name"].lstrip("/"): file["size"] for file in database.live_files()}
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
    frame = _Frame(out, asked["longest"])
    try:
        family = database.get_column_family(asked["family"])
        if not asked["is_last"]:
            frame.add(islice(family.items(from_key=begin or None, read_opt=options), limit))
        if frame.taken < limit:
            rows = family.iter(options)
            _seek(rows, frame.last, asked)
            while rows.valid() and frame.taken < limit:
                frame.add([(rows.key(), rows.value())])
                rows.next()
            rows.status()
    except Exception as error:  # noqa: BLE001 - the library has one class for all
        frame.send()
        rocksdb_frames.send(out, {"error": str(error)})
        return
    frame.send()
    rocksdb_frames.send(out, {})


class _Frame:
    """Rows that wait until they are worth a frame.

    Args:
        out: takes the frames.
        longest: bytes of a value that is given; of a longer one, its length is.
    """

    def __init__(self, out: BinaryIO, longest: int) -> None:
        self.last: bytes | None = None  # the key of the last row; None before
        self._sent = 0  # rows
        self._out, self._longest = out, longest
        self._begin()

    def _begin(self) -> None:
        self._size = 0  # bytes of keys and values
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._long_values: dict[int, int] = {}

    @property
    def taken(self) -> int:
        """How many rows were added."""
        return self._sent + len(self._keys)

    def add(self, rows: Iterable[tuple[Any, Any]]) -> None:
        """Take more rows: bytes, as the database is opened raw.

        Raises:
            ValueError: a key is longer than any; what follows it is not taken.
        """
        for key, value in rows:
            if len(key) > LARGEST_KEY:
                reason = f"a key is too long: {len(key):,} bytes; at most {LARGEST_KEY:,} are read"
                raise ValueError(reason)
            if len(value) > self._longest:
                self._long_values[len(self._values)] = len(value)
                value = b""  # noqa: PLW2901 - as if it had none
            self._keys.append(key)
            self._values.append(value)
            self._size += len(key) + len(value)
            if len(self._keys) == ROWS or self._size > BYTES:
                self.last = key
                self.send()
        self.last = self._keys[-1] if self._keys else self.last

    def send(self) -> None:
        """Write what waits."""
        if self._keys:
            self._out.writelines(rocksdb_frames.rows(self._keys, self._values, self._long_values))
            self._sent += len(self._keys)
            self._begin()


def _seek(rows: RdictIter, last: bytes | None, asked: dict[str, Any]) -> None:
    """Go to the next row of a range, after one that was taken, or to its last one."""
    if not asked["is_last"]:
        rows.seek(bytes.fromhex(asked["begin"]) if last is None else last)
        if last is not None:
            rows.next()
        return
    if asked["end"]:
        rows.seek_for_prev(bytes.fromhex(asked["end"]))
        if rows.valid() and rows.key() == bytes.fromhex(asked["end"]):
            rows.prev()
    else:
        rows.seek_to_last()
    if rows.valid() and rows.key() < bytes.fromhex(asked["begin"]):
        rows.next()
