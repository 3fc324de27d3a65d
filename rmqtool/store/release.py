"""Which line of releases wrote a store: what each file gives away about its writer.

No file names the release. But formats grew, and some only came with a release, so each trace is a
bound: at least this release, or one before that. A store that was upgraded has traces of both.
Source: StoreCheckpoint, DataVersion, MixAll#string2File, BrokerController, 4.9.3 to 5.5.0;
observed, fixtures/rocketmq-*-traffic.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.errors import DecodeError, RmqtoolError, UnreadablePath
from rmqtool.formats.message import decode
from rmqtool.store.branch import BranchKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.store.place import Place
    from rmqtool.store.tree import Store

# Files that came with a release; each is written by every broker of that line, or only with a
# feature: either way no older one writes it.
FIRST_RELEASE_OF = {
    "abort.bak": "5.0.0",
    "timerwheel": "5.0.0",
    "timerlog": "5.0.0",
    "config/timercheck": "5.0.0",
    "config/timermetrics": "5.0.0",
    "batchconsumequeue": "5.0.0",
    "epochFileCheckpoint": "5.0.0",
    "compaction/position-checkpoint": "5.1.0",
    "brokerIdentity": "5.1.1",
    "config/lmqConsumerOffset.json": "4.9.3",
    "config/transactionMetrics": "5.2.0",
    "tiered_index_file": "5.2.0",
}
CHECKPOINT_FIELDS = {
    "master_flushed_offset": "5.0.0",
    "confirm_phy_offset": "5.1.1",
    "logics_physical_offset": "5.5.0",
}
CONFIG_KEYS = {
    "pullOffsetTable": "5.5.0",
    "orderInfoCount": "5.5.0",
    "orderedConsumptionLevel": "5.4.0",
    "stateVersion": "5.0.0",
    "attributes": "5.0.0",
}
CONFIG_FILES = ("topics.json", "subscriptionGroup.json", "consumerOffset.json")
OFFSET_FILES = ("consumerOffset.json", "delayOffset.json")
LARGEST_SAMPLE = 4 << 20
FIRST_OF_5 = (5, 0, 0)
# Releases that stand for a line of rules, newest first, each with the first release of its line.
LINES = (("5.5.0", "5.4.0"), ("5.3.3", "5.2.0"), ("5.1.4", "5.0.0"))
OLDEST_LINE = "4.9.8"
DEFAULT_LINE = "5.3.3"  # without any evidence
SEPARATOR = b"\x02"  # MessageDecoder.PROPERTY_SEPARATOR
FASTJSON_1 = re.compile(rb'":\{-?\d+:')  # the first entry on the line of the brace
FASTJSON_2 = re.compile(rb'":\{\s+-?\d+:')


@dataclass(frozen=True, slots=True)
class ReleaseEvidence:
    """One trace of the writer.

    Attributes:
        path: where it is, relative to the store root.
        says: what is there, a phrase.
        at_least: the first release that does so; empty when it bounds from above only.
        below: the first release that no longer does so; empty when it bounds from below only.
    """

    path: str
    says: str
    at_least: str = ""
    below: str = ""


@dataclass(frozen=True, slots=True)
class Release:
    """The releases that may have written a store last.

    Attributes:
        at_least: the newest of all lower bounds; empty when there is none.
        below: the oldest of all upper bounds; empty when there is none, or when it contradicts
            the lower bound: then the store was upgraded, and old traces remained.
        evidence: all traces.
    """

    at_least: str
    below: str
    evidence: tuple[ReleaseEvidence, ...]

    @property
    def line(self) -> str:
        """The release of our choice whose rules fit the evidence: the newest of its line."""
        for release, first in LINES:
            if self.at_least and _version(self.at_least) >= _version(first):
                return release
        is_old = bool(self.below) and _version(self.below) <= FIRST_OF_5
        return OLDEST_LINE if is_old else DEFAULT_LINE

    def __str__(self) -> str:
        parts = [
            self.at_least and f"{self.at_least} or newer",
            self.below and f"before {self.below}",
        ]
        return ", ".join(part for part in parts if part) or "unknown"


def release_of(store: Store, newest: bytes = b"") -> Release:
    """Say which releases may have written a store.

    Args:
        store: the store.
        newest: its last record; empty when there is none.
    """
    files = tuple(_evidence(store))
    evidence = (*files, *_record(newest, _is_5(files)))
    at_least = max((one.at_least for one in evidence), key=_version, default="")
    below = min((one.below for one in evidence if one.below), key=_version, default="")
    if below and _version(below) <= _version(at_least):
        below = ""
    return Release(at_least, below, evidence)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")) if text else ()


def _is_5(evidence: Iterable[ReleaseEvidence]) -> bool | None:
    """Tell whether some files are of the 5 line; None when they do not say."""
    for one in evidence:
        if _version(one.at_least) >= FIRST_OF_5:
            return True
        if one.below and _version(one.below) <= FIRST_OF_5:
            return False
    return None


def _record(raw: bytes, is_5: bool | None) -> Iterator[ReleaseEvidence]:
    """Look at the last record: its properties end with a separator, or not, by release.

    They did before 4.9.1, did not up to 5.1.4, and do again.
    """
    try:
        message = decode(raw, path="commitlog")
    except DecodeError:
        return
    where = f"commitlog offset {message.physical_offset}"
    if message.version > 1:
        yield ReleaseEvidence(where, "the topic's length has two bytes", "5.1.0")
    if not message.properties_bytes:
        return
    if not message.properties_bytes.endswith(SEPARATOR):
        says = "no separator ends the properties"
        yield ReleaseEvidence(where, says, "4.9.1", below="5.2.0")
    elif is_5 is not None:
        says = "a separator ends the properties"
        at_least, below = ("5.2.0", "") if is_5 else ("", "4.9.1")
        yield ReleaseEvidence(where, says, at_least, below)


def _evidence(store: Store) -> Iterator[ReleaseEvidence]:
    if store.asked.kind is BranchKind.STORE:
        yield from _files(store)
        yield from _databases(store)
    yield from _checkpoint(store)
    yield from _config_keys(store)
    yield from _json_dialect(store)


def _files(store: Store) -> Iterator[ReleaseEvidence]:
    for path, release in FIRST_RELEASE_OF.items():
        if _exists(store.root.child(path)):
            yield ReleaseEvidence(path, "it exists", release)
    if store.abort is not None:
        entry = store.abort.place.stat()
        if entry is not None and entry.size:
            yield ReleaseEvidence("abort", "it holds a process id", "5.0.0")
        elif entry is not None:
            yield ReleaseEvidence("abort", "it is empty", below="5.0.0")


def _databases(store: Store) -> Iterator[ReleaseEvidence]:
    databases = store.rocksdb()
    for database in databases:
        if database.since:
            yield ReleaseEvidence(database.path, "a RocksDB database", database.since)
    # Every start of a newer broker creates it, so its absence tells, too - unless the config
    # directory shows that this is only a part of a store.
    has_config = bool(store.branches_of(BranchKind.CONFIG))
    if has_config and "rocksdbstore" not in {database.path for database in databases}:
        yield ReleaseEvidence("rocksdbstore", "it is missing", below="5.4.0")


def _checkpoint(store: Store) -> Iterator[ReleaseEvidence]:
    try:
        fields = store.checkpoint() or {}
    except RmqtoolError:
        return
    for name, release in CHECKPOINT_FIELDS.items():
        if fields.get(name):
            yield ReleaseEvidence("checkpoint", f"{name} is not 0", release)


def _config_keys(store: Store) -> Iterator[ReleaseEvidence]:
    """Look for keys in the text: which of them a bean has depends on the release alone."""
    has_state_version = False
    sampled = ""
    for name, raw in _samples(store, (*CONFIG_FILES, "consumerOrderInfo.json")):
        for key, release in CONFIG_KEYS.items():
            if f'"{key}"'.encode() in raw:
                yield ReleaseEvidence(f"config/{name}", f"it has the key {key}", release)
                has_state_version |= key == "stateVersion"
        if b'"dataVersion"' in raw:
            sampled = name
    if sampled and not has_state_version:
        yield ReleaseEvidence(f"config/{sampled}", "dataVersion has no stateVersion", below="5.0.0")


def _json_dialect(store: Store) -> Iterator[ReleaseEvidence]:
    for name, raw in _samples(store, OFFSET_FILES):
        if FASTJSON_1.search(raw):
            yield ReleaseEvidence(f"config/{name}", "written by fastjson 1", below="5.4.0")
        elif FASTJSON_2.search(raw):
            yield ReleaseEvidence(f"config/{name}", "written by fastjson2", "5.4.0")


def _samples(store: Store, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Give the first bytes of some configuration files that are there."""
    for branch in store.branches_of(BranchKind.CONFIG):
        for name in names:
            place = branch.place.child(name)
            try:
                raw = place.read(LARGEST_SAMPLE) if _exists(place) else b""
            except UnreadablePath:
                continue
            if raw:
                yield name, raw


def _exists(place: Place) -> bool:
    try:
        return place.stat() is not None
    except UnreadablePath:
        return False
