"""Flip every single bit of one of each, and see what a validation finds.

    python -m tests.check.flip_campaign [--every N] [--kind WORD] [--missed]
        [--release V]

prints a table with the share of flips that were found. What no check can find is listed in
`rmqtool.findings.undetectable`, and every flip that was not found must lie in one of those fields.
With `--release` the stores are those that this release wrote, as far as there are such.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmqtool.check import findings_list
from rmqtool.findings.undetectable import UNDETECTABLE
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.consume_queue_ext import EXT_UNIT
from rmqtool.formats.dledger import DLEDGER_ENTRY, DLEDGER_INDEX_UNIT
from rmqtool.formats.index import INDEX_ENTRY, INDEX_HEADER
from rmqtool.formats.timer import TIMER_CHECK, TIMER_LOG_RECORD, TIMER_SLOT
from tests import plain_store
from tests.check.validation import run
from tests.plain_store import Record
from tests.stores import broker_conf, fixture_names, fixture_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.findings.finding import Finding
    from rmqtool.formats.layout import Layout

    Found = frozenset[tuple[object, ...]]

HALF: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
WHEEL_SLOTS: Final = 1_209_600
UNUSED: Final = "unused"


@dataclass(frozen=True, slots=True)
class Target:
    """Bytes whose bits are flipped one by one.

    Attributes:
        kind: what they are.
        path: file.
        fields: (name, position in the file, size), one behind the other or not.
    """

    kind: str
    path: Path
    fields: tuple[tuple[str, int, int], ...]

    @property
    def bits(self) -> int:
        """How many flips there are."""
        return sum(size for _, _, size in self.fields) * 8

    def flips(self) -> Iterator[tuple[str, int, int]]:
        """Yield (field, position in the file, mask) of each."""
        for name, position, size in self.fields:
            for byte in range(size):
                for bit in range(8):
                    yield name, position + byte, 1 << bit


@dataclass(slots=True)
class Score:
    """What came of the flips of one kind.

    Attributes:
        kind: of the target.
        flips: how many were made.
        found: by the worst severity of what was found.
        missed: by field.
    """

    kind: str
    flips: int = 0
    found: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Share that was found."""
        return self.found.total() / self.flips if self.flips else 1.0

    @property
    def unexplained(self) -> set[str]:
        """Fields with a flip that was missed, though nothing says that it cannot be found."""
        return self.missed_fields - UNDETECTABLE.keys()

    @property
    def missed_fields(self) -> set[str]:
        """Fields with a flip that was missed, by the names that `UNDETECTABLE` has for them."""
        family = "message" if self.kind.startswith("message") else self.kind
        return {f"{family}.{name}" for name in self.missed}


# ---- what is flipped --------------------------------------------------------------------------


def _record(kind: str, wanted: Callable[[Record], bool]) -> Callable[[Path], Iterator[Target]]:
    def find(store: Path) -> Iterator[Target]:
        records = plain_store.records(store)
        inner = [record for record in records[1:-1] if wanted(record)]  # neighbours on both sides
        record = min(
            inner or [record for record in records if wanted(record)],
            key=lambda record: record.size,
        )
        fields = [
            (name, record.position + at, size) for name, (at, size) in record.places().items()
        ]
        yield Target(f"message, {kind}", record.path, tuple(fields))

    return find


def _laid_out(layout: Layout, start: int, count: int = 1) -> tuple[tuple[str, int, int], ...]:
    """Give the fields of some units of fixed size."""
    return tuple(
        (field.name, start + number * layout.size + field.position, field.size)
        for number in range(count)
        for field in layout.fields
    )


def _units(
    kind: str, pattern: str, layout: Layout, count: int
) -> Callable[[Path], Iterator[Target]]:
    """Take the first units of the first file that has so many."""

    def find(store: Path) -> Iterator[Target]:
        for path in sorted(store.glob(pattern)):
            if path.is_file() and len(path.read_bytes().rstrip(b"\0")) > (count - 1) * layout.size:
                yield Target(kind, path, _laid_out(layout, 0, count))
                return
        raise AssertionError(kind)

    return find


def _ext(store: Path) -> Iterator[Target]:
    """Take the first units of the first file that has bit maps in them."""
    for path in sorted(path for path in (store / "consumequeue_ext").rglob("*") if path.is_file()):
        raw, position = path.read_bytes(), 0
        fields: list[tuple[str, int, int]] = []
        for _ in range(4):
            size = int.from_bytes(raw[position : position + 2], "big")
            fields += _laid_out(EXT_UNIT, position)
            fields.append(("bit_map", position + EXT_UNIT.size, size - EXT_UNIT.size))
            position += size
        if position > 4 * EXT_UNIT.size:
            yield Target("consume queue extension", path, tuple(fields))
            return
    raise AssertionError(EXT_UNIT.name)


def _index(store: Path) -> Iterator[Target]:
    index = plain_store.index_files(store)[0]
    raw = index.path.read_bytes()
    used = [p for p in range(40, 40 + 4 * index.slots, 4) if any(raw[p : p + 4])]
    empty = [p for p in range(40, 40 + 4 * index.slots, 4) if not any(raw[p : p + 4])]
    yield Target("index header", index.path, _laid_out(INDEX_HEADER, 0))
    slots = [("slot", p, 4) for p in (*used[:8], *empty[:4])]
    yield Target("index slot", index.path, tuple(slots))
    unused = (
        (UNUSED, index.entry_position(0), 20),
        (UNUSED, index.entry_position(index.count), 20),
    )
    first, last = index.entry_position(1), index.entry_position(index.count - 1)
    entries = (*_laid_out(INDEX_ENTRY, first, 12), *_laid_out(INDEX_ENTRY, last))
    yield Target("index entry", index.path, (*entries, *unused))


def _checkpoint(store: Path) -> Iterator[Target]:
    fields = (*_laid_out(CHECKPOINT, 0), (UNUSED, CHECKPOINT.size, 8), (UNUSED, 4088, 8))
    yield Target("checkpoint", store / "checkpoint", fields)


def _timer(store: Path) -> Iterator[Target]:
    logs = plain_store.numbered(store / "timerlog")
    yield Target("timer log", logs[0], _laid_out(TIMER_LOG_RECORD, 0, 4))
    due = max(_due_times(logs))  # the furthest away: its slot is still to come
    place = due // 1000 % WHEEL_SLOTS * TIMER_SLOT.size
    yield Target("timer wheel", store / "timerwheel", _laid_out(TIMER_SLOT, place))
    check = store / "config" / "timercheck"
    yield Target("timer check", check, _laid_out(TIMER_CHECK, 0))


def _due_times(logs: list[Path]) -> Iterator[int]:
    """Yield when the records of a timer log are due, ms."""
    for path in logs:
        raw = path.read_bytes()
        for position in range(0, len(raw) - TIMER_LOG_RECORD.size + 1, TIMER_LOG_RECORD.size):
            record = TIMER_LOG_RECORD.parse(raw[position : position + TIMER_LOG_RECORD.size])
            if record["size"] == TIMER_LOG_RECORD.size:
                yield record["curr_write_time"] + record["delayed_time"]


def _dledger(store: Path) -> Iterator[Target]:
    path = min(store.glob("dledger-*/data/*"))
    raw, position = path.read_bytes(), 0
    for _ in range(5):
        position += int.from_bytes(raw[position + 4 : position + 8], "big")
    yield Target("DLedger entry", path, _laid_out(DLEDGER_ENTRY, position))
    size = int.from_bytes(raw[position + 4 : position + 8], "big") - DLEDGER_ENTRY.size
    start = position + DLEDGER_ENTRY.size
    record = Record(path, start, raw[start : start + size])
    places = record.places().items()
    fields = tuple((name, start + at, length) for name, (at, length) in places)
    yield Target("message, in a DLedger entry", path, fields)
    index = min(store.glob("dledger-*/index/*"))
    yield Target("DLedger index", index, _laid_out(DLEDGER_INDEX_UNIT, 3 * 32, 4))


def _blank(store: Path) -> Iterator[Target]:
    path, position, _ = plain_store.blanks(store)[0]
    yield Target("blank", path, (("size", position, 4), ("magic_code", position + 4, 4)))


def _is_plain(one: Record) -> bool:
    return one.is_ordinary and one.integer("magic_code") == plain_store.MAGICS[0]


def _is_v2(one: Record) -> bool:
    return one.integer("magic_code") == plain_store.MAGICS[1]


def _flags(wanted: int) -> Callable[[Record], bool]:
    return lambda record: record.integer("sys_flag") == wanted and "HALF" not in record.topic


TARGETS: Final[tuple[tuple[str, Callable[[Path], Iterator[Target]]], ...]] = (
    ("4.9.3-lmq", _record("plain", _is_plain)),
    ("5.5.0-batch-queue", _record("plain, 5.5.0", _is_plain)),
    ("5.5.0-traffic", _record("long topic (V2)", _is_v2)),
    ("5.5.0-ipv6", _record("IPv6 client", _flags(0x10))),
    ("5.5.0-ipv6", _record("IPv6 broker", _flags(0x20))),
    ("5.5.0-ipv6", _record("IPv6 both", _flags(0x30))),
    ("5.5.0-ipv6", _record("compressed", lambda r: r.integer("sys_flag") & 1 == 1)),
    ("5.5.0-ipv6", _record("transaction half", lambda r: r.topic == HALF)),
    ("5.5.0-ipv6", _record("transaction commit", lambda r: r.transaction == 0x8)),
    ("5.5.0-batch-queue", _record("inner batch", lambda r: r.integer("sys_flag") & 0xC0 == 0xC0)),
    ("5.5.0-property-crc", _record("property CRC", lambda r: r.is_ordinary)),
    ("5.3.3-traffic", _record("delay", lambda r: r.topic.startswith("SCHEDULE"))),
    ("5.5.0-lmq", _record("light queues", lambda r: "INNER_MULTI_DISPATCH" in r.properties)),
    ("5.5.0-timer", _record("timer", lambda r: r.topic == "rmq_sys_wheel_timer")),
    ("5.5.0-traffic", _blank),
    ("4.9.3-lmq", _units("consume queue", "consumequeue/*-o[rt]*/*/*", CQ_UNIT, 20)),
    ("4.9.3-ext", _ext),
    ("5.5.0-batch-queue", _units("batch queue", "batchconsumequeue/*/*/*", BATCH_CQ_UNIT, 10)),
    ("5.5.0-batch-queue", _index),
    ("5.5.0-lmq", _checkpoint),
    ("5.5.0-timer", _timer),
    ("5.3.3-dledger", _dledger),
)  # fmt: skip


# ---- the campaign -----------------------------------------------------------------------------


class Campaign:
    """Flips bits in one copy of a fixture after the other; a flip is undone before the next."""

    def __init__(self, into: Path, release: str | None = None) -> None:
        self._into, self._release = into, release

    def targets(self) -> Iterator[tuple[str, Target]]:
        """Yield fixture and target of each kind; of a release the first fixture that has it."""
        for named, find in TARGETS:
            for name in self._fixtures(named):
                if targets := self._sought(name, find):
                    yield from ((name, target) for target in targets)
                    break

    def _fixtures(self, named: str) -> list[str]:
        if self._release is None:
            return [named]
        scenario = named.partition("-")[2]
        names = [name.removeprefix("rocketmq-") for name in fixture_names(self._release)]
        return sorted(names, key=lambda name: (not name.endswith(f"-{scenario}"), name))

    def _sought(self, name: str, find: Callable[[Path], Iterator[Target]]) -> list[Target]:
        home = self._into / name
        if not home.is_dir():
            home.mkdir()
            fixture_store(f"rocketmq-{name}", home)
        try:
            return [*find(home / "store")]
        except (AssertionError, LookupError, ValueError):
            if self._release is None:
                raise
            return []  # this store has none of the kind

    def score(self, name: str, target: Target, every: int, first: int = 0) -> Score:
        """Flip every n-th bit of a target."""
        store, conf = self._into / name / "store", broker_conf(f"rocketmq-{name}")
        before = _places(run(store, "deep", conf)[0])
        score = Score(target.kind)
        flips = [*target.flips()][first::every]
        with target.path.open("r+b", buffering=0) as file:
            for name_of_field, position, mask in flips:
                old = os.pread(file.fileno(), 1, position)
                os.pwrite(file.fileno(), bytes([old[0] ^ mask]), position)
                findings, _, _ = run(store, "deep", conf)
                os.pwrite(file.fileno(), old, position)
                self._count(score, name_of_field, _places(findings) - before)
        assert _places(run(store, "deep", conf)[0]) == before
        return score

    @staticmethod
    def _count(score: Score, name: str, new: Found) -> None:
        score.flips += 1
        for severity in ("damage", "warning", "note"):
            if any(one[0] == severity for one in new):
                score.found[severity] += 1
                return
        score.missed[name] += 1


def _places(found: list[Finding]) -> Found:
    return frozenset(
        (
            str(finding.severity),
            finding.code,
            finding.path,
            finding.position,
            finding.expected,
            finding.actual,
            finding.message,
        )
        for finding in found
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="only every n-th bit")
    parser.add_argument("--kind", default="", help="only kinds with this in their name")
    parser.add_argument("--missed", action="store_true", help="list the fields of missed flips")
    parser.add_argument("--release", metavar="V", help="stores of this release alone")
    asked = parser.parse_args()
    findings_list.WHOLE = findings_list.NOTES = 1 << 30  # type: ignore[misc]
    total = Score("all")
    row = "{:<30} {:>7} {:>7} {:>8} {:>6} {:>7} {:>7}".format
    print(row("kind", "flips", "damage", "warning", "note", "missed", "found"))  # noqa: T201
    with tempfile.TemporaryDirectory() as into:
        campaign = Campaign(Path(into), asked.release)
        for name, target in campaign.targets():
            if asked.kind not in target.kind:
                continue
            score = campaign.score(name, target, asked.every)
            _print(row, score)
            if asked.missed:
                for one, count in sorted(score.missed.items()):
                    print(f"    {one}: {count}")  # noqa: T201
            if score.unexplained:
                print(f"    not known to be undetectable: {sorted(score.unexplained)}")  # noqa: T201
            total.flips += score.flips
            total.found += score.found
    _print(row, total)


def _print(row: Callable[..., str], score: Score) -> None:
    found = score.found
    cells = (score.flips, found["damage"], found["warning"], found["note"])
    missed = score.flips - found.total()
    print(row(score.kind, *cells, missed, f"{score.rate:.1%}"), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
