"""What reads one RocksDB database, in a process of its own: damage never takes rmqtool with it.

`writing.rocksdb_links` starts it for `rocksdb_database`, on a directory of links. It reads
requests, a line of JSON each, from stdin, and writes rows to stdout: frames of lengths, keys and
values, and an answer, a line of JSON, in a frame of its own. It ends when stdin does.
"""

from __future__ import annotations

import json
import sys
from array import array
from struct import Struct
from typing import TYPE_CHECKING, Any, BinaryIO, Final

if TYPE_CHECKING:
    from rocksdict import Rdict, RdictIter

FRAME: Final = Struct("<IQQ")  # rows, bytes of keys, bytes of values; no rows: an answer
PREFIX: Final = "rmqtool-rocksdb-"  # of the directory of links, which nobody is told of
ROWS_A_FRAME: Final = 8192
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

    `items()` of the library ends at damage without a word: only `status` tells.
    """
    from rocksdict import ReadOptions

    options = ReadOptions()
    options.set_verify_checksums(True)
    if asked["end"]:
        options.set_iterate_upper_bound(bytes.fromhex(asked["end"]))
    keys: list[bytes] = []
    values: list[bytes] = []
    held, limit = 0, asked["limit"]
    try:
        rows = database.get_column_family(asked["family"]).iter(options)
        if asked["is_last"]:
            _seek_last(rows, asked)
        elif asked["begin"]:
            rows.seek(bytes.fromhex(asked["begin"]))
        else:
            rows.seek_to_first()
        while rows.valid() and limit:
            key, value = rows.key(), rows.value()
            keys.append(key)
            values.append(value)
            held += len(key) + len(value)
            limit -= 1
            if len(keys) == ROWS_A_FRAME or held > BYTES_A_FRAME:
                _send(out, keys, values)
                keys, values, held = [], [], 0
            rows.next()
        rows.status()
    except Exception as error:  # noqa: BLE001 - the library has one class for all
        _send(out, keys, values)
        _answer(out, {"error": str(error)})
        return
    _send(out, keys, values)
    _answer(out, {})


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


def _send(out: BinaryIO, keys: list[bytes], values: list[bytes]) -> None:
    if not keys:
        return
    lengths = array(ITEM, map(len, keys)), array(ITEM, map(len, values))
    joined = b"".join(keys), b"".join(values)
    out.write(FRAME.pack(len(keys), *map(len, joined)))
    out.writelines((*lengths, *joined))


def _answer(out: BinaryIO, answer: dict[str, Any]) -> None:
    raw = json.dumps(answer).encode()
    out.write(FRAME.pack(0, len(raw), 0))
    out.write(raw)
    out.flush()
