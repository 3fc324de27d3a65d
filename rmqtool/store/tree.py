"""A store as a tree of artefacts: what there is and where, listed when it is asked for.

`open_store` takes a store root, a directory of it or one file; what is not part of what was
asked for is empty. Meaning is in `formats`, judgement in `check`.
Source: StorePathConfigHelper, DefaultMessageStore, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker.conf import BrokerConf
from rmqtool.errors import UnreadablePath
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT_SIZE
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.formats.config import budget_of_store
from rmqtool.formats.config_names import TOPICS_JSON
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE
from rmqtool.store.address import place_of
from rmqtool.store.artefact import TIMER_CHECK, Artefact, ArtefactKind, FamilyDepth
from rmqtool.store.broker_conf import read_broker_conf
from rmqtool.store.config_files import PAUSES, ConfigDocument, read_config
from rmqtool.store.entry import EntryKind, printable
from rmqtool.store.geometry import (
    configured_lengths,
    distance_of,
    geometry_of,
    refutes,
    usual_length,
)
from rmqtool.store.index_files import (
    IndexFile,
    index_file,
    list_index_files,
    usual_geometry,
    with_usual_geometry,
    without_next,
)
from rmqtool.store.moment import Moment
from rmqtool.store.place import Place
from rmqtool.store.queues import QueueFamily, QueueFiles
from rmqtool.store.recognise import recognise
from rmqtool.store.rocksdb import RocksDb, is_queue_database, rocksdb, rocksdb_stores
from rmqtool.store.segment import MappedFiles, Oddity, OddityKind, assemble, load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.budget import ParseBudget
    from rmqtool.store.geometry import Geometry


SAMPLED_QUEUES = 32  # enough to outvote a few files that were cut off
QUEUE_LENGTHS = {
    "consume_queue": ArtefactKind.CONSUME_QUEUE,
    "consume_queue_ext": ArtefactKind.CONSUME_QUEUE_EXT,
    "batch_queue": ArtefactKind.BATCH_QUEUE,
    "compaction_log": ArtefactKind.COMPACTION_LOG,
    "compaction_queue": ArtefactKind.COMPACTION_QUEUE,
}
UNITS = {ArtefactKind.CONSUME_QUEUE: CQ_UNIT_SIZE, ArtefactKind.BATCH_QUEUE: BATCH_CQ_UNIT_SIZE}

MAPPED = {
    ArtefactKind.COMMITLOG,
    ArtefactKind.DLEDGER,
    ArtefactKind.DLEDGER_INDEX,
    ArtefactKind.TIMER_LOG,
}
PLAIN = {ArtefactKind.CONFIG, ArtefactKind.TIERED_INDEX}


@dataclass(frozen=True, eq=False)
class Store:
    """A broker's store, or the part of one that was asked for."""

    root: Place  # the store's directory; of a lone file, the directory that paths are relative to
    asked: Artefact  # what was asked for
    branches: tuple[Artefact, ...]  # what lies there
    # what the broker was told; None when nobody gave it to us
    broker_conf: BrokerConf | None = field(default=None, repr=False)
    oddities: tuple[Oddity, ...] = ()  # what is in the way of an artefact in the root
    follows_conf: bool = False  # configured lengths count even where files that agree have others
    hidden: frozenset[str] = frozenset()  # paths of databases that nobody looks at

    def branches_of(self, *kinds: ArtefactKind) -> list[Artefact]:
        """Give the branches of some kinds, in order of their paths."""
        return [artefact for artefact in self.branches if artefact.kind in kinds]

    @cached_property
    def is_dledger(self) -> bool:
        """Whether the commitlog is a DLedger log: each record in an entry of 48 bytes more.

        A directory without a file is not one while there is a plain log: it was made, never used.
        """
        nodes = self.branches_of(ArtefactKind.DLEDGER)
        if not nodes or not self.branches_of(ArtefactKind.COMMITLOG):
            return bool(nodes)
        return any(
            artefact.level is FamilyDepth.FILE or artefact.place.names() for artefact in nodes
        )

    @cached_property
    def commitlog(self) -> MappedFiles:
        """The log that is written today: DLedger's where there is one, else the plain one.

        Raises:
            UnreadablePath: a directory may not be listed.
        """
        kind = ArtefactKind.DLEDGER if self.is_dledger else ArtefactKind.COMMITLOG
        length, is_live = self._configured.get("commitlog"), self.moment.is_live
        files = self._mapped(kind, length).beside(is_live=is_live)
        return files.in_entries() if self.is_dledger else files

    @cached_property
    def old_commitlog(self) -> MappedFiles:
        """The plain log from before a conversion to DLedger; else empty.

        Raises:
            UnreadablePath: a directory may not be listed.
        """
        if not self.is_dledger:
            return MappedFiles("commitlog")
        return self._mapped(ArtefactKind.COMMITLOG, self._configured.get("commitlog"))

    @cached_property
    def dledger_index(self) -> MappedFiles:
        """DLedger's own index of its entries."""
        return self._mapped(ArtefactKind.DLEDGER_INDEX, None)

    @cached_property
    def timer_log(self) -> MappedFiles:
        """The log of the timer wheel."""
        return self._mapped(ArtefactKind.TIMER_LOG, self._configured.get("timer_log"))

    @cached_property
    def geometry(self) -> Geometry:
        """How long each kind of file is, and who says so."""
        lengths = {name: usual_length(lengths) for name, lengths in self.file_lengths().items()}
        with suppress(UnreadablePath):  # who reads it is told
            lengths["commitlog"] = self.commitlog.file_length
            index = usual_geometry(self._index_files)  # both of one file, as brokers make them
            lengths["index_slots"], lengths["index_entries"] = index or (0, 0)
        return geometry_of(self._configured, lengths)

    def family(self, kind: ArtefactKind, file_length: int = 0) -> QueueFamily | None:
        """Give a family of queues; None without one."""
        for artefact in self.branches_of(kind):
            return _family(artefact, file_length)
        return None

    def ext_queues(self) -> Iterator[QueueFiles]:
        """Give the consume queue extensions by topic and number."""
        length = self.geometry.consume_queue_ext.value
        yield from self._queues(ArtefactKind.CONSUME_QUEUE_EXT, length)

    def ext_queue(self, topic: str, queue_id: int) -> QueueFiles | None:
        """Give one consume queue extension; None without one."""
        family = self.family(ArtefactKind.CONSUME_QUEUE_EXT, self.geometry.consume_queue_ext.value)
        return family.queue(topic, queue_id) if family else None

    def index_files(self) -> list[IndexFile]:
        """Give the key index files in the order the broker loads them.

        Raises:
            UnreadablePath: the directory may not be listed.
        """
        return with_usual_geometry(self._index_files)

    @cached_property
    def _index_files(self) -> tuple[IndexFile, ...]:
        slots, entries = (self._configured.get(f"index_{name}") for name in ("slots", "entries"))
        files: list[IndexFile] = []
        for artefact in self.branches_of(ArtefactKind.INDEX):
            if artefact.level is FamilyDepth.FILE:
                files.append(index_file(artefact.place, artefact.path, slots, entries))
            else:
                files += list_index_files(artefact.place, artefact.path, slots, entries)
        return tuple(without_next(files, self.moment))

    @cached_property
    def _configured(self) -> dict[str, int]:
        """What is configured, but for lengths that the files refute: see `refutes`."""
        configured = configured_lengths(self.broker_conf)
        if self.follows_conf or not configured:
            return configured
        bare = replace(self, broker_conf=None)
        lengths = bare.file_lengths()
        return {
            name: length
            for name, length in configured.items()
            if not refutes(lengths.get(name, []), length, bare.name_distance(name))
        }

    def name_distance(self, name: str) -> int:
        """Give the bytes between the names of neighbours; 0 where they differ, or are not known.

        Args:
            name: of the length, as `Geometry` has it; known is that of the commitlog.
        """
        with suppress(UnreadablePath):  # who reads it says so
            if name == "commitlog":
                return distance_of(segment.start for segment in self.commitlog)
        return 0

    def file_lengths(self) -> dict[str, list[int]]:
        """Give the length that each file has of those looked at, by the names of `Geometry`."""
        lengths = {name: self._sampled(kind) for name, kind in QUEUE_LENGTHS.items()}
        with suppress(UnreadablePath):  # who reads them is told
            for name, log in (("commitlog", self.commitlog), ("timer_log", self.timer_log)):
                lengths[name] = [segment.size for segment in log.segments]
            lengths["index_slots"] = [file.slots for file in self._index_files]
            lengths["index_entries"] = [file.entries for file in self._index_files]
        return lengths

    def mapped(self, artefact: Artefact) -> MappedFiles:
        """Give the byte space of one directory; several commitlog paths one at a time."""
        return load([(artefact.place, artefact.path)])

    def checkpoint(self) -> dict[str, int] | None:
        """Read the fields of `checkpoint`; None without one.

        Raises:
            UnreadablePath: it may not be read.
            Truncated: it is too short; a broker would extend it with zeros.
        """
        for artefact in self.branches_of(ArtefactKind.CHECKPOINT):
            return CHECKPOINT.parse(artefact.place.read(CHECKPOINT.size), path=artefact.path)
        return None

    def timer_check(self) -> dict[str, int] | None:
        """Read the fields of `config/timercheck`; None without one.

        Raises:
            UnreadablePath: it may not be read.
            Truncated: it is too short.
        """
        from rmqtool.formats.timer import TIMER_CHECK

        for file in self._files(ArtefactKind.CONFIG):
            if file.kind is ArtefactKind.TIMER_CHECK:
                return TIMER_CHECK.parse(file.place.read(TIMER_CHECK.size), path=file.path)
        return None

    @property
    def abort(self) -> Artefact | None:
        """The marker that a broker did not stop cleanly, or runs; only its existence counts."""
        return next(iter(self.branches_of(ArtefactKind.ABORT)), None)

    def lock_held(self) -> bool | None:
        """Tell whether a process holds the lock; None: unknown. A starting broker has none yet."""
        return self.lock_state().is_held

    @cached_property
    def moment(self) -> Moment:
        """What a broker that runs on the store does to it meanwhile."""
        return Moment(self.root, self.branches, self.lock_held)

    def lock_state(self) -> LockState:
        """Ask who holds the store's lock."""
        locks = self.branches_of(ArtefactKind.LOCK)
        return lock_state(locks[0].place) if locks else LockState(is_held=False)

    def timer_wheels(self) -> list[Artefact]:
        """Give `timerwheel` and its snapshots `timerwheel.<position>`."""
        return self.branches_of(ArtefactKind.TIMER_WHEEL)

    def config_files(self) -> list[Artefact]:
        """Give the files in `config` that hold JSON or ought to, `.bak` and `.tmp` included.

        Raises:
            UnreadablePath: the directory may not be listed.
        """
        return [
            file for file in self._files(ArtefactKind.CONFIG) if file.kind is ArtefactKind.CONFIG
        ]

    @cached_property
    def batch_topics(self) -> frozenset[str] | None:
        """The topics that are configured to have batch queues; None where nothing tells."""
        topics_json = self.config(TOPICS_JSON)
        if not topics_json:
            return None
        from rmqtool.formats.config_shapes import topics

        return frozenset(
            topic.topic for topic in topics(topics_json.document) if topic.is_batch_queue
        )

    def config(self, name: str) -> ConfigDocument:
        """Read one JSON file of `config` as a broker would: the `.bak` where the file is no use.

        What lies in RocksDB has the same shape, and the path of its database.

        Args:
            name: such as `topics.json`.
        """
        document = ConfigDocument(name, "", {}, is_backup=False, problems=())
        for artefact in self.branches_of(ArtefactKind.CONFIG):
            if artefact.level is not FamilyDepth.FILE:
                place, path = artefact.place.child(name), f"{artefact.path}/{name}"
                document = read_config(place, path, self.waits, self.config_budget)
                break
        if (in_rocksdb := self.config_in_rocksdb.get(name)) is None:
            return document
        from rmqtool.store.rocksdb_config import merged

        return merged(in_rocksdb, document, name)

    @cached_property
    def config_budget(self) -> ParseBudget:
        """What all configuration files, and rows of configuration in RocksDB, may cost."""
        return budget_of_store()

    @cached_property
    def waits(self) -> list[float]:
        """Seconds to wait for JSON that a running broker may be writing; who waits takes them."""
        return [*PAUSES] if self.moment.is_live else []

    @cached_property
    def config_in_rocksdb(self) -> dict[str, ConfigDocument]:
        """What lies in RocksDB, before any merge, by the name of the JSON file."""
        with suppress(UnreadablePath):  # who lists them says so
            if databases := self.rocksdb():
                from rmqtool.store.rocksdb_config import config_documents

                return config_documents(databases, self.config_budget)
        return {}

    def rocksdb(self) -> list[RocksDb]:
        """Give the RocksDB databases below the root, or the one that was asked for.

        Raises:
            UnreadablePath: a directory may not be listed.
        """
        if self.asked.kind is ArtefactKind.ROCKSDB:
            return [rocksdb(self.asked.place, self.asked.path)]
        if self.asked.kind is not ArtefactKind.STORE:
            return []
        return [
            database for database in rocksdb_stores(self.root) if database.path not in self.hidden
        ]

    def queue_database(self) -> RocksDb | None:
        """Give the database that the store's queues lie in; None without one.

        An empty one counts where no queue lies in files: brokers write no write-ahead log for
        queues, and all units are in memory until RocksDB flushes them for the first time.
        Source: AbstractRocksDBStorage#initWriteOptions (WAL disabled), 5.3.3; observed, 5.3.3.

        Raises:
            UnreadablePath: a directory may not be listed.
        """
        for database in self.rocksdb():
            if is_queue_database(database.path):
                families = map(self.family, (ArtefactKind.CONSUME_QUEUE, ArtefactKind.BATCH_QUEUE))
                is_empty = database.is_empty and any(
                    family and family.topics() for family in families
                )
                return None if is_empty else database
        return None

    def compaction_logs(self) -> Iterator[QueueFiles]:
        """Give the logs of the compaction store by topic and number."""
        yield from self._queues(ArtefactKind.COMPACTION_LOG, self.geometry.compaction_log.value)

    def compaction_queues(self) -> Iterator[QueueFiles]:
        """Give the queues of the compaction store; a file is named like its log file."""
        length = self.geometry.compaction_queue.value
        yield from self._queues(ArtefactKind.COMPACTION_QUEUE, length)

    def artefacts(self) -> Iterator[Artefact]:
        """Give each file of what was asked for, by path, with what it is.

        Raises:
            UnreadablePath: a directory may not be listed.
        """
        for artefact in self.branches:
            if artefact.level is FamilyDepth.FILE or not _is_directory(artefact):
                kind = _kind(artefact, artefact.place.name)
                yield Artefact(
                    kind,
                    artefact.place,
                    artefact.path,
                    FamilyDepth.FILE,
                    artefact.why,
                    artefact.queue,
                )
            elif artefact.kind in MAPPED:
                yield from _mapped(artefact, self.mapped(artefact))
            elif artefact.kind is ArtefactKind.INDEX:
                for file in self.index_files():
                    yield Artefact(
                        artefact.kind, file.place, file.path, FamilyDepth.FILE, artefact.why
                    )
            elif artefact.kind in PLAIN:
                yield from _plain_files(artefact)
            elif (family := self.family(artefact.kind)) is not None:
                for queue in family.queues():
                    yield from _queue_files(artefact, queue)

    def _files(self, kind: ArtefactKind) -> Iterator[Artefact]:
        for artefact in self.branches_of(kind):
            yield from replace(self, branches=(artefact,)).artefacts()

    def _mapped(self, kind: ArtefactKind, file_length: int | None) -> MappedFiles:
        branches = self.branches_of(kind)
        if branches and branches[0].level is FamilyDepth.FILE:
            return _lone(branches[0], file_length)
        if not branches:
            return MappedFiles("", file_length=file_length or 0)
        return load([(artefact.place, artefact.path) for artefact in branches], file_length)

    def _queues(self, kind: ArtefactKind, file_length: int) -> Iterator[QueueFiles]:
        if (family := self.family(kind, file_length)) is not None:
            yield from family.queues()

    def _sampled(self, kind: ArtefactKind) -> list[int]:
        """Look at some queues for the lengths of their files; empty when there is not one.

        A length that brokers round away is that of a damaged file.
        """
        if (family := self.family(kind)) is None:
            return []
        queues = islice(family.queues(), SAMPLED_QUEUES)
        with suppress(UnreadablePath):
            sizes = (segment.size for queue in queues for segment in queue.files)
            return [size for size in sizes if not size % UNITS.get(kind, 1)]
        return []


def open_store(
    path: str | os.PathLike[str] | Place,
    broker_conf: str | os.PathLike[str] | BrokerConf | None = None,
) -> Store:
    """Open a store root, a directory of it, or one file; nothing is read yet but names.

    Args:
        path: what to open; a link is followed.
        broker_conf: the broker's configuration file, for file lengths and several paths.

    Raises:
        UnreadablePath: it does not exist or may not be read.
        NotAStore: nothing of a RocketMQ store was recognised.
    """
    if broker_conf is not None and not isinstance(broker_conf, BrokerConf):
        broker_conf = read_broker_conf(broker_conf)
    place = path if isinstance(path, Place) else place_of(path)
    root, asked, branches, oddities = recognise(place, broker_conf)
    oddities += tuple(
        Oddity(OddityKind.UNREADABLE, shown, "a whole archive", reason)
        for shown, reason in place.troubles
    )
    return Store(root, asked, branches, broker_conf, oddities)


def _family(artefact: Artefact, file_length: int) -> QueueFamily:
    """Give the family of queues that a directory, or a part of it, makes."""
    place, path = artefact.place, artefact.path
    if artefact.level is FamilyDepth.FAMILY:
        return QueueFamily(place, path, file_length)
    if artefact.level is FamilyDepth.TOPIC:
        return QueueFamily(place.parent, path.rpartition("/")[0], file_length, topic=place.name)
    lone = None
    if artefact.level is FamilyDepth.FILE:
        from rmqtool.store.content import lone_segment  # few ask for a single file

        lone = lone_segment(artefact)
        place, path = place.parent, path.rpartition("/")[0]
    single = QueueFiles(*(artefact.queue or ("", 0)), place, path, file_length, lone)
    return QueueFamily(place.parent.parent, path, file_length, single=single)


def _lone(artefact: Artefact, file_length: int | None) -> MappedFiles:
    from rmqtool.store.content import lone_segment

    directory = [(artefact.place.parent, artefact.path.rpartition("/")[0])]
    return assemble([lone_segment(artefact)], [], directory, file_length)


# Whether a process holds a store's lock: asked, never taken.
#
# Any answer but "unlocked" is a holder. It may have no id here: a process of another container (0),
# a lock that belongs to an open file (-1), a process of another host (negative).
# See DefaultMessageStore#start (FileChannel.tryLock(0, 1, false)), 4.9.3 to 5.5.0; fcntl_getlk,
# locks_translate_pid of Linux.


# struct flock of 64-bit Linux: type, whence, start, length, process.
FLOCK = struct.Struct("hhqqi4x")
# Device and inode of each `lock` that this process holds: what it edits, no broker writes.
OWN_LOCKS: Final[set[tuple[int, int]]] = set()
_WITHOUT_ID: Final = "a process without an id here: another container or host, or an open-file lock"


class LockState(NamedTuple):
    """What the system answers about a lock."""

    is_held: bool | None  # by another process; None where it cannot be asked
    process: int = 0  # id of the holder; 0 where it has none in this process's namespace

    @property
    def holder(self) -> str:
        """Name the process that holds the lock, as well as can be known; empty for none."""
        if not self.is_held:
            return ""
        return f"process {self.process}" if self.process else _WITHOUT_ID


def lock_of(handle: int) -> LockState:
    """Ask who locks the first byte of an open file; locks of this very open file do not count.

    Raises:
        OSError: the file system does not answer.
    """
    if not sys.platform.startswith("linux"):
        return LockState(None)
    question = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    kind, _, _, _, process = FLOCK.unpack(fcntl.fcntl(handle, fcntl.F_GETLK, question))
    return LockState(kind != fcntl.F_UNLCK, max(process, 0))


def lock_state(place: Place) -> LockState:
    """Ask who locks the first byte of `lock`; this process does not count."""
    try:
        with place.open() as file:
            facts = os.fstat(file.fileno())
            if (facts.st_dev, facts.st_ino) in OWN_LOCKS:
                return LockState(is_held=False)
            return lock_of(file.fileno())
    except (UnreadablePath, OSError):
        return LockState(None)


def _is_directory(artefact: Artefact) -> bool:
    entry = artefact.place.stat()
    return entry is not None and entry.kind is EntryKind.DIRECTORY


def _mapped(artefact: Artefact, files: MappedFiles) -> Iterator[Artefact]:
    for segment in files:
        yield Artefact(artefact.kind, segment.place, segment.path, FamilyDepth.FILE, artefact.why)


def _queue_files(artefact: Artefact, queue: QueueFiles) -> Iterator[Artefact]:
    number = (queue.topic, queue.queue_id)
    for segment in queue.files:
        yield Artefact(
            artefact.kind, segment.place, segment.path, FamilyDepth.FILE, artefact.why, number
        )


def _plain_files(artefact: Artefact) -> Iterator[Artefact]:
    """Give the files of a flat directory: `config`, tiered index files."""
    for name, kind in artefact.place.names():
        if kind is EntryKind.FILE:
            path = f"{artefact.path}/{printable(name)}"
            child = artefact.place.child(name)
            yield Artefact(_kind(artefact, name), child, path, FamilyDepth.FILE, artefact.why)


def _kind(artefact: Artefact, name: str) -> ArtefactKind:
    """Say what a file is: `config` holds one that is no JSON."""
    is_timer_check = artefact.kind is ArtefactKind.CONFIG and name == TIMER_CHECK
    return ArtefactKind.TIMER_CHECK if is_timer_check else artefact.kind
