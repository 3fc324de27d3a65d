"""Say what a path is: by its place in a store, else by its content.

A place that is spelt as RocketMQ spells it wins over content: a segment whose first half is
overwritten is still a segment.
Source: StorePathConfigHelper, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import NotAStore, Trouble, UnreadablePath, UnsupportedStore
from rmqtool.store.artefact import TIMER_CHECK, Artefact, ArtefactKind, FamilyDepth, Why
from rmqtool.store.config_files import BACKUP, CLIENT_OFFSETS, is_json
from rmqtool.store.entry import EntryKind, printable
from rmqtool.store.queues import queue_id_of
from rmqtool.store.rocksdb import is_rocksdb, unsupported
from rmqtool.store.root import (
    COMPACTION_CHILDREN,
    COMPACTION_FAMILIES,
    DLEDGER,
    DLEDGER_CHILDREN,
    FILES,
    FLAT_FAMILIES,
    QUEUE_FAMILIES,
    TIMER_WHEEL_SNAPSHOT,
    branches_of_root,
    telling_names,
)
from rmqtool.store.segment import Oddity, start_of

if TYPE_CHECKING:
    from rmqtool.broker.conf import BrokerConf
    from rmqtool.store.place import Place

TOPIC_FAMILIES = QUEUE_FAMILIES | COMPACTION_FAMILIES
ENOUGH = 2  # weight of names that tells a store root
PER_QUEUE = {*TOPIC_FAMILIES.values()}


class Recognised(NamedTuple):
    """What a path turned out to be."""

    root: Place  # the store's directory, or the directory that paths are relative to
    asked: Artefact  # the path itself
    branches: tuple[Artefact, ...]  # all that lies there
    oddities: tuple[Oddity, ...] = ()  # what is in the way of something that ought to lie there


def recognise(place: Place, conf: BrokerConf | None = None) -> Recognised:
    """Say what a path is and what lies there.

    Raises:
        UnreadablePath: it does not exist or may not be read.
        NotAStore: nothing of a RocketMQ store was recognised.
        UnsupportedStore: it is a RocksDB database.
    """
    entry = place.stat()
    if entry is None:
        raise UnreadablePath(
            path=str(place), reason="no such file or directory", trouble=Trouble.MISSING
        )
    if entry.kind is EntryKind.DIRECTORY:
        return _directory(place, conf)
    if entry.kind is EntryKind.FILE:
        return _file(place)
    raise UnreadablePath(path=str(place), reason="neither a directory nor a regular file")


def _directory(place: Place, conf: BrokerConf | None) -> Recognised:
    by_place = directory_by_place(place)
    names = place.names()
    if DLEDGER.fullmatch(place.name) and "data" in {name for name, _ in names}:
        return _below(place, (place.name,), conf)
    # A topic may be called `commitlog`, so a queue family needs more to be taken for a root.
    enough = ENOUGH if by_place is None else 2 * ENOUGH
    if telling_names(names) >= enough:
        branches, oddities = branches_of_root(place, conf)
        return Recognised(place, Artefact(ArtefactKind.STORE, place, ""), branches, oddities)
    if is_rocksdb(place) and not any(kind is EntryKind.DIRECTORY for _, kind in names):
        path = _database_path(place)
        root = place.parent.parent if "/" in path else place.parent
        return _part(root, Artefact(ArtefactKind.ROCKSDB, place, path, why=Why.CONTENT))
    if by_place is not None and _is_plausible(by_place[1], names):
        return _part(*by_place)
    if place.name == "compaction" and {name for name, _ in names} & {*COMPACTION_FAMILIES}:
        return _below(place, (place.name,), conf)
    if not names:
        raise NotAStore(path=str(place), reason="the directory is empty")
    from rmqtool.store.content import kind_of_directory  # rarely needed, and it knows all formats

    kind = kind_of_directory(place)
    if kind is None:
        reason = "nothing of a RocketMQ store was recognised: no commitlog, queues or index"
        raise NotAStore(path=str(place), reason=reason)
    level = FamilyDepth.QUEUE if kind in PER_QUEUE else FamilyDepth.FAMILY
    artefact = Artefact(kind, place, printable(place.name), level, Why.CONTENT)
    return _part(place.parent, artefact)


def _is_plausible(artefact: Artefact, names: list[tuple[str, EntryKind]]) -> bool:
    """Doubt words that may be anybody's: an `index` without a number, a `config` without JSON."""
    if artefact.level is not FamilyDepth.FAMILY or not names:
        return True
    if artefact.kind is ArtefactKind.INDEX:
        return any(name.isdecimal() for name, _ in names)
    return artefact.kind is not ArtefactKind.CONFIG or any(is_json(name) for name, _ in names)


def _file(place: Place) -> Recognised:
    by_place = file_by_place(place)
    if by_place is not None:
        return _part(*by_place)
    from rmqtool.store.content import kind_of_file  # rarely needed, and it knows all formats

    kind = kind_of_file(place)
    if kind is None:
        from rmqtool.formats.message import SMALLEST_RECORD

        reason = "no file of a RocketMQ store was recognised, neither by place nor by content; "
        reason += "rmqtool carve finds messages in a disk image or in a fragment of a file"
        entry = place.stat()
        may_hold_messages = entry is None or entry.size >= SMALLEST_RECORD
        trouble = Trouble.UNKNOWN_FILE if may_hold_messages else Trouble.OTHER
        raise NotAStore(path=str(place), reason=reason, trouble=trouble)
    if kind is ArtefactKind.ROCKSDB:
        raise UnsupportedStore(path=str(place), reason=f"a file of {unsupported('')}")
    artefact = Artefact(kind, place, printable(place.name), FamilyDepth.FILE, Why.CONTENT)
    return _part(place.parent, artefact)


def directory_by_place(place: Place) -> tuple[Place, Artefact] | None:
    """Say what a directory is by its name and those above it; None when they do not tell."""
    own, above, family = _last_names(place, 3)
    if (kind := TOPIC_FAMILIES.get(family)) and (queue_id := queue_id_of(own)) is not None:
        return _branch(place, kind, 3, FamilyDepth.QUEUE, (printable(above), queue_id))
    if kind := TOPIC_FAMILIES.get(above):
        return _branch(place, kind, 2, FamilyDepth.TOPIC)
    if DLEDGER.fullmatch(above) and own in {"data", "index"}:
        return _branch(place, DLEDGER_CHILDREN[own], 2, FamilyDepth.FAMILY)
    if kind := TOPIC_FAMILIES.get(own) or FLAT_FAMILIES.get(own):
        return _branch(place, kind, 1, FamilyDepth.FAMILY)
    return None


def file_by_place(place: Place) -> tuple[Place, Artefact] | None:
    """Say what a file is by its name and those above it; None when they do not tell."""
    own, above, topic, family = _last_names(place, 4)
    is_mapped = start_of(own) is not None
    kind = TOPIC_FAMILIES.get(family)
    if kind and is_mapped and (queue_id := queue_id_of(above)) is not None:
        return _branch(place, kind, 4, FamilyDepth.FILE, (printable(topic), queue_id))
    if DLEDGER.fullmatch(topic) and above in {"data", "index"} and is_mapped:
        return _branch(place, DLEDGER_CHILDREN[above], 3, FamilyDepth.FILE)
    kind = DLEDGER_CHILDREN.get(own) if DLEDGER.fullmatch(above) else None
    kind = kind or (COMPACTION_CHILDREN.get(own) if above == "compaction" else None)
    if kind:
        return _branch(place, kind, 2, FamilyDepth.FILE)
    if above == "config" and (own == TIMER_CHECK or is_json(own)):
        kind = ArtefactKind.TIMER_CHECK if own == TIMER_CHECK else ArtefactKind.CONFIG
        return _branch(place, kind, 2, FamilyDepth.FILE)
    if is_mapped and (kind := FLAT_FAMILIES.get(above)):
        return _branch(place, kind, 2, FamilyDepth.FILE)
    kind = FILES.get(own)
    if TIMER_WHEEL_SNAPSHOT.fullmatch(own):
        kind = ArtefactKind.TIMER_WHEEL
    if own.removesuffix(BACKUP) == CLIENT_OFFSETS:
        kind = ArtefactKind.CONFIG
    return _branch(place, kind, 1, FamilyDepth.FILE) if kind else None


def _last_names(place: Place, count: int) -> list[str]:
    """Give the last names of a path, its own first; empty ones where there are not so many."""
    names = place.location.split("/")[::-1]
    return (names + [""] * count)[:count]


def _branch(
    place: Place,
    kind: ArtefactKind,
    depth: int,
    level: FamilyDepth,
    queue: tuple[str, int] | None = None,
) -> tuple[Place, Artefact]:
    """Give the store root and the branch of a place that lies `depth` names below it."""
    if kind in COMPACTION_FAMILIES.values():
        depth += 1  # these families lie one deeper, in `compaction`
    root = place
    for _ in range(depth):
        root = root.parent
    path = printable("/".join(place.location.split("/")[-depth:]))
    return root, Artefact(kind, place, path, level, Why.PLACE, queue)


def _part(root: Place, artefact: Artefact) -> Recognised:
    return Recognised(root, artefact, (artefact,))


def _below(place: Place, names: tuple[str, ...], conf: BrokerConf | None) -> Recognised:
    """Give what lies in one directory of a store root, as the root would give it."""
    root = place.parent
    branches, oddities = branches_of_root(root, conf)
    wanted = tuple(f"{printable(name)}/" for name in names)
    return Recognised(
        root,
        Artefact(ArtefactKind.STORE, place, printable(place.name)),
        tuple(artefact for artefact in branches if artefact.path.startswith(wanted)),
        tuple(oddity for oddity in oddities if oddity.path.startswith(wanted)),
    )


def _database_path(place: Place) -> str:
    own, above = _last_names(place, 2)
    return f"config/{own}" if above == "config" else own
