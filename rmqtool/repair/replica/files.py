"""Configuration that a replica lends: JSON files that a store cannot read, or has not at all.

A store's own `.bak` goes first, as brokers take it; a slave's file is a copy of its master's.
Source: ConfigManager#load, SlaveSynchronize#syncAll, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rmqtool.errors import UnreadablePath
from rmqtool.findings.registry_state import CF_JSON
from rmqtool.repair.log.content import Content
from rmqtool.repair.state.config import has_topics, is_json
from rmqtool.store.branch import BranchKind, FamilyDepth
from rmqtool.store.config_files import BACKUP, LARGEST_CONFIG

if TYPE_CHECKING:
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.place import Place
    from rmqtool.store.tree import Store

DIRECTORY: Final = "config"
TOPICS: Final = "topics.json"
# What a slave fetches from its master, or a broker cannot make anew.
NAMES: Final = (
    TOPICS, "consumerOffset.json", "delayOffset.json", "subscriptionGroup.json",
    "consumerFilter.json", "consumerOrderInfo.json", "topicQueueMapping.json",
    "timermetrics", "messageRequestMode.json",
)  # fmt: skip


def lend_files(writer: EditWriter, store: Store, other: Store) -> None:
    """Bring the JSON files that the store has not, neither as file nor as backup.

    Args:
        writer: takes the edits.
        store: that is repaired.
        other: that lends.
    """
    own, theirs = _directory(store), _directory(other)
    if theirs is None:
        return
    target = own or store.root.child(DIRECTORY)
    for name in NAMES:
        if own is not None and _sound(own, name) is not None:
            continue
        there = target.child(name).stat()
        is_missing = there is None and target.child(name + BACKUP).stat() is None
        if is_missing and store.config_in_rocksdb:
            continue
        found = _sound(theirs, name)
        if found is None:
            continue
        path, raw = found
        reason = f"from {other.root}: {DIRECTORY}/{path}, bytes 0 to {len(raw)}"
        place = target.child(name)
        if there is None:
            writer.create(place.location, Content.of(raw), CF_JSON, reason)
        else:
            writer.replace(place.location, Content.of(raw), CF_JSON, reason)


def _directory(store: Store) -> Place | None:
    for branch in store.branches_of(BranchKind.CONFIG):
        if branch.level is not FamilyDepth.FILE:
            return branch.place
    return None


def _sound(directory: Place, name: str) -> tuple[str, bytes] | None:
    """Give what a broker would load: the file, or its backup; None where neither can be parsed."""
    for path in (name, name + BACKUP):
        with suppress(UnreadablePath):
            raw = directory.child(path).read_whole(LARGEST_CONFIG)
            if is_json(raw) and (name != TOPICS or has_topics(raw)):
                return path, raw
    return None
