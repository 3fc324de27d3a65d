"""Damaged copies of fixtures, repaired, and what to ask of them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rmqtool import repair
from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.errors import RmqtoolError
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import Finding
from rmqtool.repair.plans import Plan
from rmqtool.startup import Prediction, predict
from rmqtool.store.names import UNDO_PREFIX
from rmqtool.store.tree import open_store
from tests.evidence import Trace, snapshot
from tests.inflict import Damage, NotApplicable
from tests.stores import broker_conf, fixture_store

# What stays as it is: the finding says what is so, and no edit could make it untrue without
# inventing content, or deciding what only a person can decide.
STAYS: Final = frozenset(
    {
        "CL-TIME", "CL-SYSFLAG", "CL-BATCH", "CL-TRANREF", "CL-NOPROPCRC", "CL-QOFF-DUP",
        "CL-QOFF-GAP", "CL-QOFF-BACK", "CL-LMQ", "CL-PROPS", "CQ-EXTRA", "CQ-LMQ", "CC-PAIR",
        "CO-TOPIC", "FS-ORPHAN", "FS-READ", "BF-PARAM", "BF-POS", "CX-SIZE", "TL-REF",
        "DL-ENTRY", "CP-REACH",
        "FS-NOLOG",
        "EP-RANGE",
        "EP-CRC",  # without a .bak
    }
)  # fmt: skip


Lost = tuple[str, int, int]  # topic, queue and queue offset


@dataclass(frozen=True, slots=True)
class Broken:
    """A damaged copy of a fixture.

    Attributes:
        root: of the store.
        conf: the broker's configuration.
        version: of the broker; None is whoever wrote the store.
    """

    root: Path
    conf: str
    version: str | None = None

    def plan(self) -> Plan:
        """Plan with all that may be asked for."""
        return repair.plan(
            self.root,
            broker_conf=self.conf,
            broker_version=self.version,
            bridge_missing=True,
            clamp_offsets=True,
        )

    def findings(self, level: CheckLevel = CheckLevel.FULL) -> list[Finding]:
        """Validate; give what is worse than a note."""
        options = ValidateOptions(
            self.root, broker_conf=self.conf, broker_version=self.version, level=level
        )
        return [finding for finding in validate(options) if finding.severity is not Severity.NOTE]


def cost_of(root: Path, conf: str | None, version: str | None = None) -> tuple[bool, int] | None:
    """Give what a start would cost: whether it is refused, and messages that consumers would lose.

    None where no start can be predicted.
    """
    return cost_in(predicted(root, conf, version))


def cost_in(seen: Prediction | None) -> tuple[bool, int] | None:
    """Give what a predicted start costs; None where there is none."""
    if seen is None:
        return None
    messages = seen.lost.messages + seen.unreachable + seen.light.messages + seen.timers_lost
    return not seen.starts, messages


def predicted(root: Path, conf: str | None, version: str | None = None) -> Prediction | None:
    """Predict a start; None where none can be."""
    try:
        return predict(open_store(root, conf), version)
    except RmqtoolError:
        return None


def lost_of(root: Path, conf: str | None, version: str | None = None) -> set[Lost]:
    """Give the queue offsets that have lost their messages."""
    return lost_in(predicted(root, conf, version))


def lost_in(seen: Prediction | None) -> set[Lost]:
    """Give the queue offsets that have lost their messages, as a predicted start counts them."""
    return {
        (one.topic, one.queue_id, number)
        for one in (seen.lost_numbers if seen else ())
        for number in range(one.queue_offset, one.queue_offset + one.messages)
    }


def broken(fixture: str, damage: Damage | None, into: Path) -> Broken | None:
    """Copy a fixture and damage it; None where the damage does not apply."""
    root = fixture_store(fixture, into)
    conf = into / "broker.conf"
    extra = damage.conf if damage is not None else ""
    conf.write_text(f"{broker_conf(fixture).read_text()}\n{extra}", encoding="utf-8")
    if damage is not None:
        if not damage.applies_to(root) or damage.fixture not in fixture:
            return None
        try:
            damage.inflict(root)
        except (NotApplicable, IndexError, StopIteration):  # nothing of the kind in this fixture
            return None
    return Broken(root, str(conf))


def traces(root: Path) -> dict[str, Trace]:
    """Give bytes and times of all files of a store; the undo directory is none of them."""
    found = snapshot(root)
    for name in ("lock", "."):
        with contextlib.suppress(KeyError):
            del found[name]
    return {path: trace for path, trace in found.items() if not path.startswith(UNDO_PREFIX)}
