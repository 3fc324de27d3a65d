"""Judge the broker's JSON files, and the queues that topics are configured to have: CF-*.

Source: ConfigManager#load, #persist, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmqtool.broker.names import is_made_by_brokers
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding, in_passing
from rmqtool.findings.registry_state import CF_JSON, CF_QUEUES, CF_VERSION
from rmqtool.formats import config_shapes
from rmqtool.formats.config_names import TOPICS_JSON
from rmqtool.formats.config_shapes import parse_file
from rmqtool.store.artefact import TIMER_CHECK, ArtefactKind, FamilyDepth
from rmqtool.store.config_files import (
    BACKUP,
    NEEDED,
    NEEDED_BY_5,
    TEMPORARY,
    is_json,
    plain_name,
    read_paid,
)
from rmqtool.store.config_sources import CONFIG
from rmqtool.store.entry import EntryKind, printable
from rmqtool.store.unread import no_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.budget import ParseBudget
    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding
    from rmqtool.store.place import Place

NEW_MS: Final = 60_000
BEING_WRITTEN: Final = "a running broker may be writing it"


class ConfigFile(NamedTuple):
    """One file of `config/`."""

    path: str  # relative to the store root
    name: str  # last part of it
    is_empty: bool
    place: Place  # where it lies
    document: dict[str, Any] | None  # None where it cannot be parsed
    error: DecodeError | None  # why not


def check(inspection: Inspection) -> Iterator[Finding]:
    """Parse every configuration file, and compare each with its `.bak`."""
    files: list[ConfigFile] = []
    yield from _read(inspection, files)
    documents = {file.name: file.document for file in files if file.document is not None}
    for file in files:
        if file.error is not None:
            has_other = _other(file.name) in documents
            yield _of_broken(inspection, file, file.error, has_other=has_other)
    for file in files:
        backup = documents.get(file.name + BACKUP)
        if backup is not None and file.name in documents:
            yield from _compare(file, documents[file.name], backup)
    yield from _lone_backups(inspection, files)
    if (topics := inspection.document(TOPICS_JSON)) is not None:
        yield from _unread(topics)


def _unread(document: config_shapes.Document) -> Iterator[Finding]:
    """Name topics of which producers use more queues than consumers may read.

    Source: PullMessageProcessor#processRequest, SendMessageProcessor, 4.9.3 to 5.5.1.
    """
    for topic in config_shapes.topics(document):
        read, write = topic.read_queue_nums, topic.write_queue_nums
        if read is None or write is None or read >= write or is_made_by_brokers(topic.topic):
            continue
        queues = f"queue {read}" if write - read == 1 else f"queues {read} to {write - 1}"
        yield finding(
            CF_QUEUES,
            At(f"{CONFIG}/topics.json", topic=topic.topic),
            f"producers write to {queues} of topic {topic.topic}, and no consumer may read there",
            expected=f"readQueueNums {write} or more",
            actual=f"readQueueNums {read}, writeQueueNums {write}",
        )


def _read(inspection: Inspection, files: list[ConfigFile]) -> Iterator[Finding]:
    """Read and parse all files that a broker could load."""
    try:
        branches = inspection.store.config_files()
    except UnreadablePath as error:
        yield inspection.unread("config", error)
        return
    yield from _not_files(inspection)
    for artefact in branches:
        name = artefact.path.rpartition("/")[2]
        if not is_json(name) or name.endswith(TEMPORARY):
            continue
        try:
            raw = _whole(artefact.place, inspection.store.waits, inspection.store.config_budget)
        except UnreadablePath as error:
            if inspection.store.moment.is_replaced(artefact.path, error):
                inspection.leave_out(artefact.path, BEING_WRITTEN)  # another file gets its name
            else:
                yield inspection.unread(artefact.path, error)
            continue
        inspection.account.files += 1
        inspection.account.bytes += len(raw)
        document, problem = None, None
        try:
            budget, path = inspection.store.config_budget, artefact.path
            document = parse_file(raw, name=plain_name(path), path=path, budget=budget)
        except DecodeError as error:
            problem = error.with_traceback(None)  # whose frames would keep the bytes
            problem.__cause__ = problem.__context__ = None
        files.append(ConfigFile(artefact.path, name, not raw, artefact.place, document, problem))


def _whole(place: Place, pauses: list[float], budget: ParseBudget) -> bytes:
    """Read a file; what a running broker is just writing anew is empty, in part, or not there.

    Source: MixAll#string2File, 4.9.3 to 5.5.0: the `.bak` is written in place, then the file
    is removed and another one gets its name.

    Args:
        place: of the file.
        pauses: seconds to wait before it is read again, as long as it cannot be parsed; those
            that are taken are gone for the files after it.
        budget: of all configuration files.

    Raises:
        UnreadablePath: it cannot be read, or is too large.
    """
    while pauses:
        with suppress(UnreadablePath, DecodeError):
            raw = read_paid(place, budget)
            parse_file(raw, name=plain_name(place.name), path=place.name)
            return raw
        time.sleep(pauses.pop())
    return read_paid(place, budget)


def _not_files(inspection: Inspection) -> Iterator[Finding]:
    """Name what has the name of a configuration file, but is not one."""
    for artefact in inspection.store.branches_of(ArtefactKind.CONFIG):
        if artefact.level is FamilyDepth.FILE:
            continue
        try:
            entries = artefact.place.entries()
        except UnreadablePath:
            return  # the listing of the files has said so
        for entry in entries:
            is_config = is_json(entry.name) or entry.name == TIMER_CHECK
            if is_config and entry.kind is not EntryKind.FILE:
                path = f"{artefact.path}/{printable(entry.name)}"
                yield inspection.unread(path, no_file(path, entry.kind))


def _other(name: str) -> str:
    return name.removesuffix(BACKUP) if name.endswith(BACKUP) else name + BACKUP


def _of_broken(
    inspection: Inspection, file: ConfigFile, error: DecodeError, *, has_other: bool
) -> Finding:
    """Say that a file cannot be parsed; a broken `.bak` only matters when it is needed."""
    name = file.name.removesuffix(BACKUP)
    is_needed = name in NEEDED + NEEDED_BY_5
    if has_other and file.name.endswith(BACKUP):
        message = "the backup cannot be parsed"
    elif has_other:
        message = "it cannot be parsed; the broker takes the .bak"
    elif is_needed and inspection.store.config(name).stops_broker():
        message = "neither the file nor its .bak can be parsed: a broker refuses to start"
    else:
        message = "it cannot be parsed, and there is no .bak that can: defaults will be used"
    severity = Severity.WARNING if file.name.endswith(BACKUP) and has_other else None
    passes = has_other and inspection.store.moment.is_live and _is_new(file.place)
    if passes:
        inspection.leave_out(file.path, BEING_WRITTEN)
        message, severity = BEING_WRITTEN, Severity.NOTE
    actual = "an empty file" if file.is_empty else error.reason
    broken = finding(
        CF_JSON,
        At(file.path, error.position),
        message,
        expected="one JSON object",
        actual=actual,
        severity=severity,
    )
    return in_passing(broken) if passes else broken


def _is_new(place: Place) -> bool:
    """Tell whether a file has changed just now: a broker may wait long while it writes one."""
    entry = place.stat()
    return entry is not None and time.time() * 1000 - entry.mtime_ms < NEW_MS


def _lone_backups(inspection: Inspection, files: list[ConfigFile]) -> Iterator[Finding]:
    """Name each `.bak` whose file is gone: brokers load it, and say nothing.

    Source: ConfigManager#loadBak, MixAll#string2File, 4.9.3 to 5.5.0: what was there before the
    last change becomes the `.bak`, and only then the file is replaced.
    """
    names = {file.name for file in files}
    for file in files:
        name = file.name.removesuffix(BACKUP)
        is_lone = name not in names and file.document is not None
        if (
            is_lone
            and not inspection.store.moment.is_live
            and not inspection.is_above_unread(CONFIG)
        ):
            message = f"there is no {name}: brokers load this copy, which lacks the last change"
            yield finding(CF_VERSION, At(file.path), message)


def _compare(
    file: ConfigFile, document: dict[str, Any], backup: dict[str, Any]
) -> Iterator[Finding]:
    """Find out whether the `.bak` is the newer one."""
    ours, theirs = config_shapes.data_version(document), config_shapes.data_version(backup)
    own = (ours.state_version or 0, ours.timestamp or 0, ours.counter or 0)
    other = (theirs.state_version or 0, theirs.timestamp or 0, theirs.counter or 0)
    if own < other:
        yield finding(
            CF_VERSION,
            At(file.path),
            expected=f"counter {theirs.counter} of {theirs.timestamp}",
            actual=f"counter {ours.counter} of {ours.timestamp}",
        )
