"""What lies in a store root: which of its names stand for which artefact.

Links are followed here and nowhere else: operators move a whole `commitlog` to another disk.
Source: StorePathConfigHelper, MultiPathMappedFileQueue, DLedgerCommitLog, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker.conf import COMMITLOG, DLEDGER_COMMITLOG, DLEDGER_ID, READ_ONLY_COMMITLOG, ROOT
from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.store.address import archive_of
from rmqtool.store.artefact import Artefact, ArtefactKind
from rmqtool.store.entry import EntryKind, printable
from rmqtool.store.segment import Oddity, OddityKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.broker.conf import BrokerConf
    from rmqtool.store.place import Place

    Refused = Callable[[Place, str], None]

CONFIGURED_LOGS = {
    ArtefactKind.COMMITLOG: (COMMITLOG, READ_ONLY_COMMITLOG),
    ArtefactKind.DLEDGER: (DLEDGER_COMMITLOG,),
}
QUEUE_FAMILIES = {
    "consumequeue": ArtefactKind.CONSUME_QUEUE,
    "consumequeue_ext": ArtefactKind.CONSUME_QUEUE_EXT,
    "batchconsumequeue": ArtefactKind.BATCH_QUEUE,
}
COMPACTION_FAMILIES = {
    "compactionLog": ArtefactKind.COMPACTION_LOG,
    "compactionCq": ArtefactKind.COMPACTION_QUEUE,
}
COMPACTION_CHILDREN = COMPACTION_FAMILIES | {
    "position-checkpoint": ArtefactKind.COMPACTION_POSITION,
    "position-checkpoint.bak": ArtefactKind.COMPACTION_POSITION,
}
FLAT_FAMILIES = {
    "commitlog": ArtefactKind.COMMITLOG,
    "index": ArtefactKind.INDEX,
    "timerlog": ArtefactKind.TIMER_LOG,
    "tiered_index_file": ArtefactKind.TIERED_INDEX,
    "config": ArtefactKind.CONFIG,
}
FILES = {
    "checkpoint": ArtefactKind.CHECKPOINT,
    "abort": ArtefactKind.ABORT,
    "lock": ArtefactKind.LOCK,
    "timerwheel": ArtefactKind.TIMER_WHEEL,
    "epochFileCheckpoint": ArtefactKind.EPOCH,
    "epochFileCheckpoint.bak": ArtefactKind.EPOCH,
    "brokerIdentity": ArtefactKind.BROKER_IDENTITY,
    "brokerIdentity-temp": ArtefactKind.BROKER_IDENTITY,
}
TIMER_WHEEL_SNAPSHOT = re.compile(r"timerwheel\.\d+")
DLEDGER = re.compile(r"dledger-(.+)")
DLEDGER_CHILDREN = {
    "data": ArtefactKind.DLEDGER,
    "index": ArtefactKind.DLEDGER_INDEX,
    "checkpoint": ArtefactKind.DLEDGER_STATE,
    "checkpoint.bak": ArtefactKind.DLEDGER_STATE,
    "currterm": ArtefactKind.DLEDGER_STATE,
    "currterm.bak": ArtefactKind.DLEDGER_STATE,
}
# One of these directories tells a store root.
TELLING = {*QUEUE_FAMILIES, "commitlog", "timerlog", "tiered_index_file"}
# These may be anybody's: two of them tell a store root.
HINTING = {*FLAT_FAMILIES, *FILES, "compaction"}

DIRECTORY_KINDS = {
    *QUEUE_FAMILIES.values(),
    *COMPACTION_FAMILIES.values(),
    *FLAT_FAMILIES.values(),
    ArtefactKind.DLEDGER,
    ArtefactKind.DLEDGER_INDEX,
}


def telling_names(names: Iterable[tuple[str, EntryKind]]) -> int:
    """Weigh the names in a directory: 2 and more tells that it is a store root."""
    weight = 0
    for name, kind in names:
        is_directory = kind in {EntryKind.DIRECTORY, EntryKind.LINK}
        if is_directory and (name in TELLING or DLEDGER.fullmatch(name)):
            weight += 2
        elif name in HINTING:
            weight += 1
    return weight


def branches_of_root(
    root: Place, conf: BrokerConf | None
) -> tuple[tuple[Artefact, ...], tuple[Oddity, ...]]:
    """Give all branches of a store root, sorted by path, and what is in the way of one.

    Raises:
        UnreadablePath: the root may not be listed.
    """
    branches: list[Artefact] = []
    oddities: list[Oddity] = []
    for name, _ in root.names():
        for kind, path in _candidates(name):
            _look(root, kind, path, branches, oddities)
    logs = [artefact for artefact in branches if artefact.kind is ArtefactKind.DLEDGER]
    first = _chosen_dledger(logs, conf)
    for artefact in [artefact for artefact in branches if _is_other_dledger(artefact, first)]:
        branches.remove(artefact)
        if artefact.kind is ArtefactKind.DLEDGER:
            reason = f"only {first} is read" if first else ""
            oddities.append(Oddity(OddityKind.DUPLICATE, artefact.path, "one DLedger log", reason))
    if conf is not None:
        _configured_commitlog(root, conf, branches, oddities)
    return tuple(sorted(branches, key=lambda artefact: artefact.path)), tuple(oddities)


def is_known(name: str) -> bool:
    """Say whether brokers look for a name in the root of a store."""
    return bool(_candidates(name))


def _candidates(name: str) -> list[tuple[ArtefactKind, str]]:
    """Say what a name in the root may stand for, with the path of each artefact."""
    if TIMER_WHEEL_SNAPSHOT.fullmatch(name):
        return [(ArtefactKind.TIMER_WHEEL, name)]
    if name == "compaction":
        return [(kind, f"{name}/{child}") for child, kind in COMPACTION_CHILDREN.items()]
    if DLEDGER.fullmatch(name):
        return [(kind, f"{name}/{child}") for child, kind in DLEDGER_CHILDREN.items()]
    kind = QUEUE_FAMILIES.get(name) or FLAT_FAMILIES.get(name) or FILES.get(name)
    return [(kind, name)] if kind else []


def _look(
    root: Place, kind: ArtefactKind, path: str, branches: list[Artefact], oddities: list[Oddity]
) -> None:
    """Look at one artefact; behind a link, at where the link leads."""
    wanted = EntryKind.DIRECTORY if kind in DIRECTORY_KINDS else EntryKind.FILE
    shown = printable(path)
    try:
        place = root.child(path)
        entry = place.stat()
        if entry is None:
            return
        if entry.kind is EntryKind.LINK:
            place = place.resolved()
            entry = place.stat()
    except UnreadablePath as error:
        oddities.append(
            Oddity(OddityKind.UNREADABLE, shown, str(wanted), error.reason, trouble=error.trouble)
        )
        return
    if entry is None:
        oddities.append(
            Oddity(
                OddityKind.MISSING, shown, str(wanted), f"a link to {place}", trouble=Trouble.LINK
            )
        )
    elif entry.kind is not wanted:
        unexpected = {EntryKind.DIRECTORY: OddityKind.DIRECTORY, EntryKind.LINK: OddityKind.LINK}
        oddity = unexpected.get(entry.kind, OddityKind.NOT_A_FILE)
        oddities.append(Oddity(oddity, shown, str(wanted), str(entry.kind)))
    else:
        branches.append(Artefact(kind, place, shown))


def _chosen_dledger(logs: list[Artefact], conf: BrokerConf | None) -> str:
    """Choose one DLedger directory: the configured one, else the first; empty for none."""
    names = [log.path.partition("/")[0] for log in logs]
    configured = f"dledger-{conf.text(DLEDGER_ID.name)}" if conf else ""
    return configured if configured in names else min(names, default="")


def _is_other_dledger(artefact: Artefact, chosen: str) -> bool:
    name = artefact.path.partition("/")[0]
    return bool(DLEDGER.fullmatch(name)) and name != chosen


class ConfiguredLog(NamedTuple):
    """One directory that a configuration names for the commitlog."""

    kind: ArtefactKind  # a plain log, or DLedger's
    key: str  # that names it
    path: str  # as it is shown; below the store root, relative to it
    place: Place | None  # where it is; None where no directory is
    is_ours: bool  # it belongs below this very root: where it is not here it is nowhere


def configured_logs(root: Place, conf: BrokerConf) -> Iterator[ConfiguredLog]:
    """Yield the commitlog's directories of a configuration, each once."""
    seen = set()
    for kind, keys in CONFIGURED_LOGS.items():
        for key in keys:
            for path in conf.paths(key.name):
                if path in seen:
                    continue
                seen.add(path)
                try:
                    place, shown = _rerooted(root, path, conf)
                    entry = place.stat()
                except UnreadablePath:  # a loop of links, as `_look` has noted
                    continue
                is_there = entry is not None and entry.kind is EntryKind.DIRECTORY
                is_ours = not shown.startswith("/") or _is_root(root, conf)
                yield ConfiguredLog(kind, key.name, shown, place if is_there else None, is_ours)


def _is_root(root: Place, conf: BrokerConf) -> bool:
    """Tell whether a configuration speaks of this very store, and not of one it is a copy of."""
    their_root = conf.text(ROOT.name)
    return bool(their_root) and os.path.realpath(str(their_root)) == root.location


def _configured_commitlog(
    root: Place, conf: BrokerConf, artefacts: list[Artefact], oddities: list[Oddity]
) -> None:
    """Take the commitlog's directories from the configuration where at least one is there.

    Where none is, the usual place stands in for one on the broker's own machine, and for nothing
    where the configuration speaks of this root: a broker reads no other directory.
    """
    logs = list(configured_logs(root, conf))
    for kind in CONFIGURED_LOGS:
        named = [log for log in logs if log.kind is kind]
        branches = [Artefact(kind, log.place, log.path) for log in named if log.place is not None]
        missing = [log for log in named if log.place is None]
        is_nowhere = any(log.key == COMMITLOG.name and log.is_ours for log in missing)
        if branches or is_nowhere:
            artefacts[:] = [
                artefact for artefact in artefacts if artefact.kind is not kind
            ] + branches
            expected = "a directory of the commitlog"
            oddities += [Oddity(OddityKind.MISSING, log.path, expected) for log in missing]


def _rerooted(root: Place, path: str, conf: BrokerConf) -> tuple[Place, str]:
    """Give the place of a configured path, and how to show it.

    A store is mostly looked at as a copy: what the broker had below its own root is looked for
    below ours, never in the live store that the configuration names.
    """
    their_root = conf.text(ROOT.name)
    if their_root and path.startswith(their_root.rstrip("/") + "/"):
        below = path[len(their_root.rstrip("/")) + 1 :].strip("/")
        return root.child(below).resolved(), below
    place = root.outside(path)
    prefix = root.location.rstrip("/") + "/"
    if place.location.startswith(prefix):
        return place, printable(place.location[len(prefix) :])
    return place, str(place)


# Stores below a directory: a backup's parent, or one directory for many brokers.


ENOUGH: Final = 2  # weight of names that tells a store root, as in `recognise`
DEPTH: Final = 6  # directories on the way to a store
MOST_LISTED: Final = 20_000  # directories; whoever has more of them named the wrong one
ARCHIVE: Final = "an archive, which is opened only where a PATH of its own names it"
_TOO_MANY: Final = (
    f"not looked at, nor is what follows: {MOST_LISTED:,} directories were listed before it"
)


def is_store(names: list[tuple[str, EntryKind]]) -> bool:
    """Tell by the names in a directory whether it is a store root."""
    return telling_names(names) >= ENOUGH


def stores_below(top: Place, refused: Refused = lambda *_: None) -> Iterator[Place]:
    """Yield the store roots below a directory, or itself, in order of their paths.

    Links are not followed, and nothing below a store is looked at.

    Args:
        top: where to look, and six directories below it.
        refused: takes each directory that cannot be listed, each archive, and the first directory
            that is not looked at after many others, with the reason.
    """
    waiting = [(top, 0)]
    listed = 0
    while waiting:
        place, level = waiting.pop()
        if listed >= MOST_LISTED:
            refused(place, _TOO_MANY)
            return
        listed += 1
        try:
            names = place.names()
        except UnreadablePath as error:
            refused(place, error.reason)
            continue
        if is_store(names):
            yield place
            continue
        for name, kind in names:
            if kind is EntryKind.FILE and archive_of(name) is not None:
                refused(place.child(name), ARCHIVE)
        if level < DEPTH:
            inner = [name for name, kind in names if kind is EntryKind.DIRECTORY]
            waiting += [(place.child(name), level + 1) for name in reversed(inner)]
