"""Stores of real brokers with a named damage, and what of them a command or a table is read from.

Which files a table is read from is said here once more, by paths: what `validate` calls damage in
them, whoever reads them all must say.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.findings.catalogue import Severity
from tests.damage import DAMAGES as OF_FILES
from tests.damage import NotApplicable
from tests.damage_rocksdb import DAMAGES as OF_DATABASES
from tests.stores import broker_conf, fixture_names, fixture_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.damage_rocksdb import RocksDamage
    from tests.inflict import Damage

ORDINARY: Final = "traffic"
_ALL: Final[tuple[Damage | RocksDamage, ...]] = (*OF_FILES.values(), *OF_DATABASES.values())
NAMES: Final = (*OF_FILES, *OF_DATABASES)
# One damage for each set of codes that a damage has; it is the last one of the table.
SAMPLE: Final = sorted({(*one.codes,): one.name for one in _ALL}.values(), key=NAMES.index)
LOG: Final = ("commitlog", "dledger-n0/data")
QUEUES: Final = ("consumequeue", "consumequeue_rocksdb")
TIMERS: Final = ("timerwheel", "timerlog", "config/timercheck")
# What a table is read from, by the word of `dump --as`.
READ_FROM: Final[Mapping[str, tuple[str, ...]]] = {
    "log": LOG,
    "inner-batch": LOG,
    "undecided-transactions": LOG,
    "traces": LOG,
    "dledger-entry": ("dledger-n0/data",),
    "dledger-index": ("dledger-n0/index",),
    "consume-queue": QUEUES,
    "batch-queue": ("batchconsumequeue",),
    "consume-queue-ext": ("consumequeue_ext",),
    "compaction-log": ("compaction/compactionLog",),
    "index": ("index",),
    "index-slot": ("index",),
    "index-header": ("index",),
    "checkpoint": ("checkpoint",),
    "config": ("config",),
    "epoch": ("epochFileCheckpoint",),
    "timer-wheel": TIMERS[:1],
    "timer-log": TIMERS[1:2],
    "timer-check": TIMERS[2:],
    "pending-timers": (*TIMERS, "rocksdbstore"),
    "pop-in-flight": ("kvStore",),
    "rocksdb": (*QUEUES, "config/topics", "config/rdb", "rocksdbstore", "kvStore"),
}
OF_RECORDS: Final = ("CL-CRC", "CL-PROPCRC", "CL-PHYOFF", "CL-TOPIC", "CL-LMQ", "DL-ENTRY")
# What a reader of these files does not see, and why that is so.
_OF_THE_QUEUE: Final = {"CL-QOFF-DUP": "each of both records is right by itself"}
_OF_OTHERS: Final = dict.fromkeys((*OF_RECORDS, "CL-QOFF-DUP"), "of records that are no rows of it")
NOT_SEEN: Final[Mapping[str, Mapping[str, str]]] = {
    "log": _OF_THE_QUEUE,
    "dledger-entry": _OF_THE_QUEUE,
    "inner-batch": _OF_OTHERS,
    "undecided-transactions": _OF_OTHERS,
    "traces": _OF_OTHERS,
    "index-header": dict.fromkeys(
        ("IX-KEY", "IX-CHAIN", "IX-SLOT"), "of entries and slots, which it does not read"
    ),
    "pending-timers": {
        "TL-REF": "of a timer that is not pending any more",
        "RI-ENTRY": "of the key index, another family of the database",
    },
    "config": {
        "TC-AHEAD": "of timercheck, a table of its own",
        "TC-GONE": "of timercheck, a table of its own",
        "MV-TOPIC": "of a topic that the log has: the metadata by itself is right",
    },
}
HARMLESS: Final = frozenset({Severity.NOTE})


class Seen(NamedTuple):
    """What `validate` finds.

    Attributes:
        code: of the finding.
        path: where.
        severity: of the finding.
    """

    code: str
    path: str
    severity: Severity


def damaged_store(name: str, into: Path) -> tuple[Path, Path]:
    """Damage a copy of the first fixture that has what it takes; give store and broker.conf."""
    conf = into / "broker.conf"
    if name in OF_DATABASES:
        of_database = OF_DATABASES[name]
        store = fixture_store(of_database.fixture, into)
        of_database.inflict(store)
        shutil.copy(broker_conf(of_database.fixture), conf)
        return store, conf
    damage = OF_FILES[name]
    for fixture in _fixtures(damage):
        store = fixture_store(fixture, into)
        try:
            if damage.applies_to(store):
                damage.inflict(store)
                conf.write_text(f"{broker_conf(fixture).read_text()}\n{damage.conf}\n")
                return store, conf
        except NotApplicable:
            pass
        shutil.rmtree(store)
    raise NotApplicable(name)


def _fixtures(damage: Damage) -> list[str]:
    names = [fixture for fixture in fixture_names() if (damage.fixture or ORDINARY) in fixture]
    first = sum(map(ord, damage.name)) % len(names)
    return names[first:] + names[:first]


def validated(store: Path, conf: Path | None) -> list[Seen]:
    """Give what `validate` finds, notes aside."""
    findings = validate(ValidateOptions(store, broker_conf=None if conf is None else str(conf)))
    seen = (Seen(str(finding.code), finding.path, finding.severity) for finding in findings)
    return [finding for finding in seen if finding.severity not in HARMLESS]


def in_files(word: str, found: list[Seen]) -> Iterator[Seen]:
    """Give what was found in the files that a table is read from."""
    for one in found:
        is_here = any(f"{one.path}/".startswith(f"{path}/") for path in READ_FROM[word])
        if is_here and one.code not in NOT_SEEN.get(word, ()):
            yield one


def damage_in(word: str, found: list[Seen]) -> set[str]:
    """Give the codes of damage there."""
    here = in_files(word, found)
    return {one.code for one in here if one.severity is Severity.DAMAGE or one.code == "FS-READ"}
