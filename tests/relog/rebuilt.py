"""A log rebuilt beside its source, and what a validation says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rmqtool.findings.catalogue import Severity
from rmqtool.relog.options import LogOptions
from rmqtool.relog.report import LogResult
from rmqtool.relog.work import LogRun
from tests.check.validation import run
from tests.plain_store import Record

MOVED = ("physical_offset", "prepared_transaction_offset")


def rebuilt(
    store: Path,
    name: str = "rebuilt",
    **options: Any,  # noqa: ANN401 - as the options are
) -> tuple[LogResult, Path]:
    """Rebuild a log beside its source; give what was done, and the new store."""
    output = store.parent / name
    wanted = LogOptions((str(store),), str(output), jobs=1, **options)
    return LogRun(wanted).run(), output


def damages(store: Path, conf: Path | None = None) -> list[tuple[str, str]]:
    """Give what a validation says, notes aside."""
    findings, _, _ = run(store, conf=conf)
    return [
        (str(finding.code), finding.message)
        for finding in findings
        if finding.severity is not Severity.NOTE
    ]


def unplaced(record: Record) -> bytes:
    """Give a record without the fields that its place decides, and without its property CRC."""
    raw = bytearray(record.raw)
    for name in MOVED:
        position, size = record.places()[name]
        raw[position : position + size] = bytes(size)
    if "__CRC32#" in record.properties:
        raw[-11:-1] = bytes(10)
    return bytes(raw)
