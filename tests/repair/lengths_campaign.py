"""Flip one bit of a length that a record states, and count the sound records that anything loses.

    python -m tests.repair.lengths_campaign [--pairs N] [--seed N] [--fixture NAME ...] [--stores]

A pair is a record of a fixture and a bit of its totalSize, its body length, its topic length or its
properties length. Every wrong size that ends where a later record begins is taken, and a sample of
all others. Asked of each: does a scan, `dump`, `carve` and `rebuild-log` give every other record;
does `repair` leave the bytes of every other record and the unit of its queue as they are, and is
nothing more than that record lost. With `--stores` nothing else is asked than real message stores:
after a repair each delivers no less than before, and all but the one record. A line for each
failure; the exit code is 1 when there was one.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final

import numpy as np

from rmqtool import repair
from rmqtool.cli.main import main as rmqtool
from rmqtool.library import open_store
from rmqtool.repair.plans import Action, Plan
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent
from rmqtool.scan.message import scan
from rmqtool.store.place import Place
from rmqtool.store.segment import Segment, SegmentPart
from tests import plain_store
from tests.broker.jvm import Jvm
from tests.inflict import flip_bits
from tests.plain_store import Record
from tests.startup.oracle import Oracle
from tests.startup.test_against_stores import ALWAYS
from tests.stores import FIXTURES, broker_conf, fixture_store, manifest

LENGTHS: Final = ("total_size", "body_length", "topic_length", "properties_length")
LARGEST: Final = (1 << 31) - 1
SLOW: Final = ("default-geometry",)  # a segment of 1 GiB for each look at it
STORES_OF_A_PROCESS: Final = 30
FRAMED: Final = "dledger"  # `plain_store` does not read entry headers


@dataclass(frozen=True, slots=True)
class Pair:
    """A record, and the bit of one of its lengths that is flipped."""

    record: Record
    field: str
    bit: int  # 0 is the lowest

    def __str__(self) -> str:
        return f"{self.record.path.name}:{self.record.position} {self.field} bit {self.bit}"

    @property
    def place(self) -> tuple[int, int]:
        """Position of the byte in its file, and the mask to flip."""
        position, size = self.record.places()[self.field]
        return self.record.position + position + size - 1 - self.bit // 8, 1 << self.bit % 8


class Subject:
    """One fixture, unpacked; a pair is flipped, looked at and flipped back."""

    def __init__(self, name: str, into: Path) -> None:
        self.name, self.into = name, into
        self.root = fixture_store(name, into)
        self.records = plain_store.records(self.root)

    @cached_property
    def units(self) -> dict[tuple[str, int], bytes]:
        """Bytes of each queue unit that points to a record, by its file and position."""
        starts = {self.offset(record) for record in self.records}
        found = {}
        for directory in plain_store.queue_directories(self.root):
            for unit in plain_store.units(directory):
                if unit.physical_offset in starts:
                    path = str(unit.path.relative_to(self.root))
                    fields = unit.physical_offset, unit.size, unit.tags_code
                    found[path, unit.position] = plain_store.UNIT.pack(*fields)
        return found

    @staticmethod
    def offset(record: Record) -> int:
        """Physical offset of a record, by its place."""
        return int(record.path.name) + record.position

    def misleading(self) -> Iterator[Pair]:
        """Yield the pairs whose wrong size ends where a later record begins."""
        starts = {(record.path, record.position) for record in self.records}
        for record in self.records:
            for bit in range(31):
                size = record.size ^ 1 << bit
                if size > record.size and (record.path, record.position + size) in starts:
                    yield Pair(record, "total_size", bit)

    def any_pair(self, draw: np.random.Generator) -> Pair:
        """Draw one of all pairs."""
        record = self.records[draw.integers(len(self.records))]
        field = LENGTHS[draw.integers(len(LENGTHS))]
        return Pair(record, field, int(draw.integers(8 * record.places()[field][1])))

    def problems(self, pair: Pair, commands: tuple[str, ...]) -> Iterator[str]:
        """Yield a text for each sound record that is not given, or is written over."""
        position, mask = pair.place
        flip_bits(pair.record.path, position, mask)
        try:
            for command in commands:
                yield from (f"{command}: {text}" for text in CHECKS[command](self, pair))
        finally:
            flip_bits(pair.record.path, position, mask)

    def intact(self, pair: Pair) -> set[int]:
        """Physical offsets of the records that the flip leaves alone."""
        return {self.offset(record) for record in self.records} - {self.offset(pair.record)}

    @property
    def conf(self) -> str | None:
        """The fixture's configuration."""
        conf = broker_conf(self.name)
        return str(conf) if conf.is_file() else None


def _missing(wanted: set[int], given: set[int]) -> Iterator[str]:
    if missing := wanted - given:
        yield f"{len(missing)} sound records are not given, the first at {min(missing)}"


def _scanned(subject: Subject, pair: Pair) -> Iterator[str]:
    path, given = pair.record.path, set()
    size = path.stat().st_size
    segment = Segment(Place.of(path), f"commitlog/{path.name}", int(path.name), size)
    for batch in scan(SegmentPart(segment, 0, size)):
        if batch.kind is Extent.RECORD:
            given |= set(batch.columns[row.PHYSICAL_OFFSET].tolist())
    here = range(segment.start, segment.end)
    yield from _missing({one for one in subject.intact(pair) if one in here}, given)


def _run(*words: str) -> None:
    with (
        tempfile.TemporaryFile("w") as out,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
    ):
        rmqtool([*words, "-q"])


def _offsets(store: Path, conf: str | None) -> set[int]:
    """Physical offsets of the records that `dump` shows."""
    given: set[int] = set()
    for batch in open_store(str(store), conf).batches():
        rows = batch.select(["physical_offset", "extent"]).to_pylist()
        given |= {row["physical_offset"] for row in rows if row["extent"] is None}
    return given


def _dumped(subject: Subject, pair: Pair) -> Iterator[str]:
    yield from _missing(subject.intact(pair), _offsets(subject.root, subject.conf))


def _carved(subject: Subject, pair: Pair) -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir=subject.into) as out:
        target = Path(out, "carved.rmq")
        _run("carve", str(pair.record.path), "--output", str(target))
        raw = target.read_bytes() if target.exists() else b""
    others = (record for record in subject.records if record.path == pair.record.path)
    lost = [
        record
        for record in others
        if record.position != pair.record.position and record.raw not in raw
    ]
    if lost:
        yield f"{len(lost)} sound records are not given, the first at {subject.offset(lost[0])}"


def _rebuilt(subject: Subject, pair: Pair) -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir=subject.into) as out:
        target = Path(out, "new")
        how = ["--positions", "keep"]
        how += ["--broker-conf", subject.conf] if subject.conf else []
        _run("rebuild-log", str(subject.root), "--output", str(target), *how)
        if not target.is_dir():
            yield "nothing was written"
            return
        for record in subject.records:
            if record.position == pair.record.position and record.path == pair.record.path:
                continue
            file = target / "commitlog" / record.path.name
            if not file.exists() or record.raw not in file.read_bytes():
                yield f"a sound record is not written, at {subject.offset(record)}"
                return


def _repaired(subject: Subject, pair: Pair) -> Iterator[str]:
    plan = repair.plan(subject.root, broker_conf=subject.conf)
    yield from _written_over(subject, pair, plan)
    with tempfile.TemporaryDirectory(dir=subject.into) as out:
        target = Path(out, "repaired")
        repair.apply(plan, target)
        for (path, position), unit in subject.units.items():
            if plain_store.UNIT.unpack(unit)[0] == subject.offset(pair.record):
                continue
            with (target / path).open("rb") as file:
                file.seek(position)
                if file.read(len(unit)) != unit:
                    yield f"the unit of a sound record is changed: {path} at {position}"
                    return
        yield from _missing(subject.intact(pair), _offsets(target, subject.conf))


def _written_over(subject: Subject, pair: Pair, plan: Plan) -> Iterator[str]:
    changed = [
        (edit.path, edit.position, edit.position + edit.length)
        for edit in plan.edits
        if edit.path.startswith("commitlog/") and edit.action is Action.WRITE
    ]
    removed = {edit.path for edit in plan.edits if edit.action is Action.REMOVE}
    for record in subject.records:
        path = f"commitlog/{record.path.name}"
        end = record.position + record.size
        is_other = record.path != pair.record.path or record.position != pair.record.position
        hits = any(
            path == name and low < end and record.position < high for name, low, high in changed
        )
        if is_other and (hits or path in removed):
            yield f"a sound record is written over, at {subject.offset(record)}"
            return


class Stores:
    """Real message stores, a Java process for each release."""

    def __init__(self, into: Path) -> None:
        self.into = into
        self._jvms: dict[str, Jvm] = {}
        self._opened = 0

    def problems(self, subject: Subject, pair: Pair) -> Iterator[str]:
        """Yield a text where a repair costs a message that was delivered before."""
        position, mask = pair.place
        flip_bits(pair.record.path, position, mask)
        try:
            before = self._delivered(subject, subject.root)
            with tempfile.TemporaryDirectory(dir=subject.into) as out:
                target = Path(out, "repaired")
                repair.apply(repair.plan(subject.root, broker_conf=subject.conf), target)
                after = self._delivered(subject, target)
        finally:
            flip_bits(pair.record.path, position, mask)
        if after < before:
            yield f"delivered: {before} before the repair, {after} after it"
        whole = self.delivered_when_sound(subject)
        if after < whole - 1:
            yield f"delivered: {whole} of the sound store, {after} after the repair"

    @cache  # noqa: B019 - as many as there are fixtures
    def delivered_when_sound(self, subject: Subject) -> int:
        """Count what the fixture delivers as it is."""
        return self._delivered(subject, subject.root)

    def _delivered(self, subject: Subject, root: Path) -> int:
        version = subject.name.split("-")[1]
        self._opened += 1
        if self._opened % STORES_OF_A_PROCESS == 0:  # a store that is stopped leaves memory behind
            self.close()
        if version not in self._jvms:
            home = Path(tempfile.mkdtemp(dir=self.into))
            self._jvms[version] = Jvm(version, home)
            self._jvms[version].__enter__()
        settings = {**manifest(subject.name)["settings"], **ALWAYS}
        with tempfile.TemporaryDirectory(dir=subject.into) as place:
            opened = Path(place, "store")
            shutil.copytree(root, opened)
            seen = Oracle(self._jvms[version]).observe(opened, settings, {})
        return sum(seen.delivered.values())

    def close(self) -> None:
        """End the processes."""
        for jvm in self._jvms.values():
            jvm.__exit__(None, None, None)
        self._jvms.clear()


CHECKS: Final = {
    "scan": _scanned,
    "dump": _dumped,
    "carve": _carved,
    "repair": _repaired,
    "rebuild-log": _rebuilt,
}


def names() -> list[str]:
    """Name the fixtures that take part."""
    found = (path.name for path in sorted(FIXTURES.glob("rocketmq-*")))
    return [name for name in found if FRAMED not in name and not name.endswith(SLOW)]


def pairs_of(subject: Subject, count: int, seed: int) -> list[Pair]:
    """Give all misleading pairs of a fixture, at most `count`, filled up with others."""
    draw = np.random.default_rng(seed)
    pairs = list(subject.misleading())
    pairs = [pairs[row] for row in draw.permutation(len(pairs))[:count]]
    return pairs + [subject.any_pair(draw) for _ in range(count - len(pairs))]


def main() -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.repair.lengths_campaign")
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fixture", nargs="*", default=names())
    parser.add_argument("--command", nargs="*", default=[*CHECKS], choices=[*CHECKS])
    parser.add_argument("--stores", action="store_true")
    asked = parser.parse_args()
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # connections of processes that end
    each = -(-asked.pairs // len(asked.fixture))
    done = failed = 0
    place = tempfile.TemporaryDirectory()
    stores = Stores(Path(place.name))
    for name in asked.fixture:
        with tempfile.TemporaryDirectory() as into:
            subject = Subject(name, Path(into))
            for pair in pairs_of(subject, each, asked.seed):
                done += 1
                found = subject.problems(pair, tuple(asked.command))
                problems = list(stores.problems(subject, pair) if asked.stores else found)
                failed += bool(problems)
                for text in problems:
                    sys.stdout.write(f"{name} {pair}: {text}\n")
                sys.stdout.flush()
        sys.stderr.write(f"{name}: {done} pairs so far, {failed} failed\n")
    stores.close()
    place.cleanup()
    sys.stdout.write(f"{done} pairs, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
