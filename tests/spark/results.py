"""What the bulk commands give for a store, whatever engine does the work: to be compared whole."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from rmqtool import rebuild
from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.findings.finding import Finding
from rmqtool.query.lookup import Lookup
from rmqtool.query.requests import ByKey
from rmqtool.rebuild.options import RebuildResult
from rmqtool.rows import JsonLines
from rmqtool.store.tree import open_store
from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump
from tests.evidence import snapshot

PER_PART = ("rmqtool.tables.messages", "rmqtool.rebuild.work", "rmqtool.rebuild.shuffled")


class Validated(NamedTuple):
    """All that a validation says."""

    findings: list[Finding]
    exit_code: int
    records: int
    units: int
    entries: int
    unread: list[tuple[str, str]]


def validated(store: Path, part_bytes: int) -> Validated:
    """Give all findings, the exit code and what was read."""
    findings = validate(ValidateOptions(store, level=CheckLevel.DEEP, part_bytes=part_bytes))
    rows = list(findings)
    account = findings.summary.account
    read = (account.records, account.units, account.entries)
    return Validated(rows, findings.exit_code, *read, account.reasons)


def dumped(store: Path) -> tuple[bytes, list[str]]:
    """Give the messages as JSON lines, gaps and fillers, too, and what could not be read."""
    outcome = DumpOutcome()
    (rows,) = dump(DumpOptions((str(store),), as_json=True, fillers=True), outcome)
    text = b"".join(
        bytes(chunk.text) if isinstance(chunk, JsonLines) else repr(chunk).encode()
        for chunk in rows
    )
    return text, [str(error) for error in outcome.unread]


def rebuilt_queues(store: Path, output: Path) -> tuple[object, object]:
    """Give what a rebuild of the queues says, and all bytes, modes and times of its files."""
    result = rebuild.consume_queues(store, output)
    return said(result), files(output)


def rebuilt_index(store: Path, output: Path) -> tuple[object, object]:
    """Give the same of the index."""
    result = rebuild.index(store, output)
    return said(result), files(output)


def said(result: RebuildResult) -> dict[str, object]:
    """Give all that a rebuild says, but for the time that it took."""
    facts = asdict(result)
    del facts["seconds"], facts["fsync_seconds"]
    return facts


def files(root: Path) -> dict[str, object]:
    """Give modes, lengths, bytes of all files and directories, and the times of files."""
    return {
        path: (trace.mode, trace.size, trace.digest, trace.mtime_ns if trace.digest else None)
        for path, trace in snapshot(root).items()
        if path != "."
    }


def searched(store: Path, key: str) -> list[int]:
    """Give the physical offsets at which a search of the log finds a key."""
    with Lookup(open_store(str(store)), scan=True) as lookup:
        answer = lookup.find(ByKey(key))
        return [hit.record.physical_offset for hit in answer.hits]
