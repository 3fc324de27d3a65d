"""`epochFileCheckpoint`: which master epoch began at which commitlog offset, as text.

Also `brokerIdentity`, one line of text beside it.
Source: EpochFileCache, CheckpointFile, BrokerMetadata, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from rmqtool.errors import DecodeError, Truncated
from rmqtool.formats.java import crc31, parse_long
from rmqtool.plural import counted

_HEAD_LINES: Final = 2  # count and CRC
_ENTRY_PARTS: Final = 2
_IDENTITY_PARTS: Final = 3


class EpochEntry(NamedTuple):
    """One epoch."""

    epoch: int  # number of the master's term
    start_offset: int  # commitlog offset at which it began, bytes


@dataclass(frozen=True, slots=True)
class EpochFile:
    """The file as it is; whether it is sound is for a check to say."""

    count: int  # number of entries that the file claims
    crc: int  # CRC of the entry lines that the file claims; 0 is never compared
    crc_found: int  # CRC of the entry lines that are there
    entries: tuple[EpochEntry, ...]  # lines that could be read, in file order


def decode(raw: bytes, *, path: str = "<bytes>") -> EpochFile:
    """Read an epoch file.

    A line without exactly one `-` is left out, as the broker does; the count then differs.

    Raises:
        Truncated: the two head lines are not there.
        DecodeError: a number is not one.
    """
    lines = raw.decode("utf-8", "replace").splitlines()
    if len(lines) < _HEAD_LINES:
        reason = f"{counted(len(lines), 'line')}, {_HEAD_LINES} are needed"
        raise Truncated(path=path, position=0, field="count", reason=reason)
    count, crc = (
        _number(line, path=path, field=field)
        for line, field in zip(lines, ("count", "crc"), strict=False)
    )
    body = "".join(f"{line}\n" for line in lines[_HEAD_LINES:])
    entries = tuple(
        EpochEntry(*(_number(part, path=path, field="entry") for part in parts))
        for line in lines[_HEAD_LINES:]
        if len(parts := line.split("-")) == _ENTRY_PARTS
    )
    return EpochFile(count, crc, crc31(body.encode()), entries)


def encode(entries: tuple[EpochEntry, ...]) -> bytes:
    """Give the bytes of a file with these entries, as a broker on Linux writes it."""
    body = "".join(f"{entry.epoch}-{entry.start_offset}\n" for entry in entries)
    return f"{len(entries)}\n{crc31(body.encode())}\n{body}".encode()


class BrokerIdentity(NamedTuple):
    """Who a broker is to its controller."""

    cluster_name: str  # the cluster
    broker_name: str  # the group of master and slaves
    broker_id: int  # number in that group
    check_code: str = ""  # `brokerIdentity-temp` only: what was proposed to the controller


def decode_identity(raw: bytes, *, path: str = "<bytes>") -> BrokerIdentity:
    """Read `brokerIdentity` or `brokerIdentity-temp`.

    Source: BrokerMetadata#loadFromStr, TempBrokerMetadata#loadFromStr, 5.1.1 to 5.5.0.

    Raises:
        Truncated: fewer than three parts.
        DecodeError: the broker's number is not one.
    """
    parts = raw.decode("utf-8", "replace").strip().split("#")
    if len(parts) < _IDENTITY_PARTS:
        reason = f"{len(parts):,} parts are there, {_IDENTITY_PARTS} are needed"
        raise Truncated(path=path, position=0, field="broker_id", reason=reason)
    number = _number(parts[2], path=path, field="broker_id")
    return BrokerIdentity(parts[0], parts[1], number, "#".join(parts[_IDENTITY_PARTS:]))


def _number(text: str, *, path: str, field: str) -> int:
    if (number := parse_long(text)) is None:
        reason = f"{text[:40]!r} is not a number"
        raise DecodeError(path=path, position=0, field=field, reason=reason)
    return number
