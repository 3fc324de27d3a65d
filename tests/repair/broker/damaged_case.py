"""One damaged store of a campaign, and what the tool says and does about it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from rmqtool import repair
from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import Finding
from rmqtool.formats.message import MESSAGE_MAGIC_BYTES
from rmqtool.repair.plans import Plan
from rmqtool.startup import Prediction
from tests.broker.jars import VERSIONS
from tests.repair import faults
from tests.repair.broker.survivors import QueueKey, Truth
from tests.startup.test_against_stores import ALWAYS, predicted
from tests.stores import broker_conf, fixture_names, fixture_store, manifest

SCENARIOS: Final = ("traffic", "crash", "expired", "lmq", "batch-queue", "timer", "ext", "ipv6")
ROCKSDB: Final = ("", "-combined", "-crash", "-expired", "-pop", "-single", "-store", "-v2")
HEAP_BYTES: Final = 1 << 30  # of the process: many stores are opened in one
CROSS: Final = 8  # one case in so many is opened by another release
Queues = dict[QueueKey, list[int]]


@dataclass(frozen=True, slots=True)
class Case:
    """One damaged store.

    Attributes:
        seed: of the campaign.
        number: of the case.
        fixture: whose copy it is.
        release: of the message store that judges.
        root: of the store.
        truth: what the sound store holds.
        harms: what was done, a text each.
        replica: root of another copy, sound or damaged otherwise; None without one.
        in_rocksdb: whether something of the store is in RocksDB.
    """

    seed: int
    number: int
    fixture: str
    release: str
    root: Path
    truth: Truth
    harms: tuple[str, ...]
    replica: Path | None = None
    in_rocksdb: bool = False

    def expected(self) -> Queues:
        """Give what each queue has to deliver: all that the store has undamaged, or its replica."""
        undamaged = self.truth.undamaged(self.root)
        if self.replica is not None:
            undamaged |= self.truth.undamaged(self.replica)
        return self.truth.of_queues(undamaged)

    def __str__(self) -> str:
        again = f"--seed {self.seed} --only {self.number}{' --replica' if self.replica else ''}"
        return f"{again}: {self.fixture} for {self.release}: {'; '.join(self.harms)}"


def damaged(
    seed: int,
    number: int,
    into: Path,
    releases: tuple[str, ...] = VERSIONS,
    *,
    has_replica: bool = False,
    in_rocksdb: bool = False,
) -> Case:
    """Copy a fixture and damage it; the same numbers give the same damage.

    Args:
        seed: of the campaign.
        number: of the case.
        into: an empty directory.
        releases: whose stores are wanted.
        has_replica: copy it twice; the second copy stays sound, or is damaged otherwise.
        in_rocksdb: of stores with something in RocksDB, each for its own release.
    """
    dice = np.random.default_rng((seed, number))
    ends = tuple(f"rocksdb{name}" for name in ROCKSDB) if in_rocksdb else SCENARIOS
    names = [name for name in fixture_names() if name.endswith(ends)]
    if in_rocksdb:
        names = [name for name in names if name.split("-")[1] in VERSIONS]
    fixture = faults.chosen(names, dice)
    own = fixture.split("-")[1]
    release = own if in_rocksdb or dice.integers(CROSS) else faults.chosen(VERSIONS, dice)
    if release not in releases:
        release = own
    root = fixture_store(fixture, into)
    truth = Truth.of(root)
    if dice.integers(2):
        (root / "abort").touch()
    harms = faults.harm(root, dice, int(faults.chosen((1, 1, 2, 3, 4), dice)))
    if not has_replica:
        return Case(seed, number, fixture, release, root, truth, harms, in_rocksdb=in_rocksdb)
    (into / "replica").mkdir()
    replica = fixture_store(fixture, into / "replica")
    others = faults.harm(replica, dice, int(faults.chosen((0, 0, 1, 2, 3), dice)))
    harms += tuple(f"replica: {other}" for other in others)
    return Case(seed, number, fixture, release, root, truth, harms, replica)


def has_unreadable(one: Case) -> bool:
    """Tell whether a release is older than some of the records: it takes V2 for the log's end."""
    queues = one.truth.queues.values()
    raws = (one.truth.records[place].raw for queue in queues for place in queue)
    known = 1 + Rules(Version.parse(one.release)).has_v2
    return any(raw[4:8] not in MESSAGE_MAGIC_BYTES[:known] for raw in raws)


def foretold(one: Case) -> Prediction:
    """Predict a start by the case's release."""
    settings = {**manifest(one.fixture)["settings"], **ALWAYS}
    return predicted(one.root, one.release, settings, HEAP_BYTES)


def findings(one: Case, root: Path) -> list[Finding]:
    """Validate; give what is worse than a note."""
    options = ValidateOptions(
        root, broker_conf=_conf(one.fixture), broker_version=one.release, level=CheckLevel.FULL
    )
    return [finding for finding in validate(options) if finding.severity is not Severity.NOTE]


def plan(one: Case) -> Plan:
    """Plan a repair as a user would who has read what is offered."""
    return repair.plan(
        one.root,
        broker_version=one.release,
        broker_conf=_conf(one.fixture),
        bridge_missing=True,
        clamp_offsets=True,
        replica=None if one.replica is None else str(one.replica),
    )


@cache
def _conf(fixture: str) -> str:
    return str(broker_conf(fixture))
