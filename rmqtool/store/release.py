"""Who wrote a store: the traces of its files, read one by one; what they mean is in broker/.

What is not there tells nothing: it may have been lost.
Source: StoreCheckpoint, DataVersion, ConsumerOffsetManager, MixAll#string2File, BrokerController,
4.9.3 to 5.5.1; observed, fixtures/rocketmq-*-traffic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.broker import traces
from rmqtool.broker.release import Trace, Version, WrittenBy
from rmqtool.errors import DecodeError, RmqtoolError, UnreadablePath
from rmqtool.formats.config_names import OFFSETS_JSON, ORDERS_JSON
from rmqtool.formats.message import decode
from rmqtool.formats.properties import PROPERTY_SEPARATOR
from rmqtool.formats.rocksdb_databases import MANAGERS, ONE, VERSION_2
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.record_heads import LogReader
from rmqtool.store.tail import find_tail

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

    from rmqtool.store.place import Place
    from rmqtool.store.rocksdb import RocksDb
    from rmqtool.store.tree import Store

LARGEST_SAMPLE: Final = 4 << 20
LARGEST_RECORD: Final = 8 << 20


def written_by(
    store: Store, unread: Callable[[UnreadablePath], None] = lambda _: None
) -> WrittenBy:
    """Say which releases may have written a store, or a part of one, last.

    Args:
        store: the store.
        unread: is told why the log could not be read; then it tells nothing.

    Raises:
        UnreadablePath: a directory may not be listed.
    """
    databases = store.rocksdb() if store.asked.kind is ArtefactKind.STORE else []
    old = _left_behind(databases)
    traces = [*_files(store), *map(_database, databases), *_checkpoint(store)]
    traces += _config_files(store, old)
    return WrittenBy.of([*traces, *_record(_newest(store, unread), _is_5(traces))])


def _newest(store: Store, unread: Callable[[UnreadablePath], None]) -> bytes:
    """Read the last record; empty when there is not one."""
    try:
        with LogReader(store.old_commitlog, store.commitlog) as reader:
            last = find_tail(store.commitlog, reader).last
            if last is None or last.size > LARGEST_RECORD:
                return b""
            return reader.read_at(last.physical_offset, last.size)
    except UnreadablePath as error:
        unread(error)
        return b""


def _is_5(all_traces: Iterable[Trace]) -> bool | None:
    """Tell whether some files are of the 5 line; None when they do not say."""
    for trace in all_traces:
        if trace.at_least and trace.at_least >= traces.FIRST_OF_5:
            return True
        if trace.below and trace.below <= traces.FIRST_OF_5:
            return False
    return None


def _record(raw: bytes, is_5: bool | None) -> Iterator[Trace]:
    """Look at the last record: its properties end with a separator, or not, by release."""
    try:
        message = decode(raw, path="commitlog")
    except DecodeError:
        return
    where = f"commitlog offset {message.physical_offset}"
    if message.version > 1:
        says = "the topic's length has two bytes"
        yield Trace(where, says, traces.FIRST_WITH_LONG_TOPICS)
    if not message.properties_bytes:
        return
    first, again = traces.FIRST_WITHOUT_SEPARATOR, traces.FIRST_WITH_SEPARATOR
    if not message.properties_bytes.endswith(PROPERTY_SEPARATOR):
        yield Trace(where, "no separator ends the properties", first, below=again)
    elif is_5 is not None:
        says = "a separator ends the properties"
        yield Trace(where, says, again) if is_5 else Trace(where, says, below=first)


def _files(store: Store) -> Iterator[Trace]:
    if store.asked.kind is not ArtefactKind.STORE:
        return
    for path, release in traces.FILES.items():
        if _exists(store.root.child(path)):
            yield Trace(path, "it exists", release)
    entry = store.abort.place.stat() if store.abort is not None else None
    if entry is not None and entry.size:
        yield Trace("abort", "it holds a process id", traces.FIRST_OF_5)
    elif entry is not None:
        yield Trace("abort", "it is empty", below=traces.FIRST_OF_5)


def _database(database: RocksDb) -> Trace:
    return Trace(database.path, "a RocksDB database", Version.known(database.since))


def _checkpoint(store: Store) -> Iterator[Trace]:
    try:
        fields = store.checkpoint() or {}
    except RmqtoolError:
        return
    for name, release in traces.CHECKPOINT_FIELDS.items():
        if fields.get(name):
            yield Trace("checkpoint", f"{name} is not 0", release, is_doubtful=True)


def _config_files(store: Store, old: Container[str]) -> Iterator[Trace]:
    """Look for keys in the text, and for how a map is laid out in it.

    What a file lacks tells of its writer alone: where a database stands for it that was long ago.

    Args:
        store: the store.
        old: names of such files.
    """
    has_state_version = False
    sampled = ""
    samples = [*_samples(store, traces.CONFIG_FILES)]
    yield from _without_pull_offsets({name: raw for name, raw in samples if name not in old})
    for name, raw in samples:
        for key, release in traces.CONFIG_KEYS.items():
            if f'"{key}"'.encode() in raw:
                until = None if name in old else traces.CONFIG_KEYS_UNTIL.get(key)
                yield Trace(f"config/{name}", f"it has the key {key}", release, until)
                has_state_version |= key == traces.STATE_VERSION
        if b'"dataVersion"' in raw and name not in old:
            sampled = name
    if sampled and not has_state_version:
        says = "dataVersion has no stateVersion"
        yield Trace(f"config/{sampled}", says, below=traces.FIRST_OF_5)
    fastjson_2 = traces.FIRST_WITH_FASTJSON_2
    for name, raw in _samples(store, traces.OFFSET_FILES):
        if traces.FASTJSON_2.search(raw):
            yield Trace(f"config/{name}", "written by fastjson2", fastjson_2)
        elif name not in old and traces.FASTJSON_1.search(raw):
            yield Trace(f"config/{name}", "written by fastjson 1", below=fastjson_2)


def _left_behind(databases: Iterable[RocksDb]) -> frozenset[str]:
    """Give the files for which there is a database: nobody has written them since that was made."""
    paths = {database.path for database in databases}
    whose = MANAGERS.items()
    return frozenset(name for name, its in whose if paths & {its.path, ONE, VERSION_2})


def _without_pull_offsets(samples: Mapping[str, bytes]) -> Iterator[Trace]:
    """Tell 5.5.1 from 5.5.0, which writes one key more; both files are written every few seconds.

    A file that is longer than its sample may have the key further on.
    """
    offsets, order = (samples.get(name, b"") for name in (OFFSETS_JSON, ORDERS_JSON))
    is_whole = b'"offsetTable"' in offsets and len(offsets) < LARGEST_SAMPLE
    if is_whole and b"pullOffsetTable" not in offsets and b'"orderInfoCount"' in order:
        says = f"it has no pullOffsetTable, beside a {ORDERS_JSON} of 5.5.0 or newer"
        yield Trace(f"config/{OFFSETS_JSON}", says, traces.CONFIG_KEYS_UNTIL["pullOffsetTable"])


def _samples(store: Store, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Give the first bytes of some configuration files that are there."""
    for artefact in store.branches_of(ArtefactKind.CONFIG):
        for name in names:
            place = artefact.place.child(name)
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
