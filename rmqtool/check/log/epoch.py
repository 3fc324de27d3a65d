"""Judge the epoch file of a replicated broker: EP-CRC.

Source: EpochFileCache#initCacheFromFile, CheckpointFile#read, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_state import EP_CRC
from rmqtool.formats import epoch
from rmqtool.store.branch import BranchKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding

LARGEST_EPOCH_FILE: Final = 16 << 20


def check(inspection: Inspection) -> Iterator[Finding]:
    """Judge count, checksum and order of each epoch file."""
    for branch in inspection.store.branches_of(BranchKind.EPOCH):
        try:
            raw = branch.place.read(LARGEST_EPOCH_FILE)
        except UnreadablePath as error:
            yield inspection.unread(branch.path, error)
            continue
        inspection.account.files += 1
        inspection.account.bytes += len(raw)
        at = At(branch.path)
        try:
            file = epoch.decode(raw, path=branch.path)
        except DecodeError as error:
            yield finding(EP_CRC, at, "it cannot be read", actual=error.reason)
            continue
        yield from _judge(file, at)


def _judge(file: epoch.EpochFile, at: At) -> Iterator[Finding]:
    if file.count != len(file.entries):
        message = "the number of entries is not the one in the first line"
        yield finding(EP_CRC, at, message, expected=file.count, actual=len(file.entries))
    elif file.crc not in {0, file.crc_found}:
        message = "the entries do not have the checksum of the second line"
        yield finding(EP_CRC, at, message, expected=file.crc, actual=file.crc_found)
    for before, after in pairwise(file.entries):
        if after.epoch <= before.epoch or after.start_offset < before.start_offset:
            message = "epochs or their start offsets go back"
            yield finding(
                EP_CRC,
                at,
                message,
                expected=f"after {before.epoch}-{before.start_offset}",
                actual=f"{after.epoch}-{after.start_offset}",
            )
            return
