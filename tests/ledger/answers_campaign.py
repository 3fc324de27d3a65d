"""Ask each command about damaged stores, and hold its answers against those of the others.

    python -m tests.ledger.answers_campaign [--seed 1] [--cases 100] [--first 0] [--rocksdb]

No broker is asked: what is wrong here is that two commands differ. How many messages are lost,
which findings there are, whether a table is damaged, and whether what a command has written is
sound, is one question each, whoever is asked. A case that breaks one of them is printed with its
seed, and `--only N` makes it again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmqtool.check.options import AREAS
from rmqtool.query.lost import DOUBTFUL, LOST, UNLISTED
from rmqtool.reads.options import TableName
from tests.cli.run import rmqtool
from tests.repair.broker.damaged_case import Case, damaged
from tests.stores import broker_conf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# ruff: noqa: T201 - a campaign prints
Row = dict[str, Any]
DONE, DAMAGED, NOT_DONE, IN_PART = range(4)
DAMAGE: Final = "damage"
# Findings of a log in which several files claim the same places, or that is not there: places and
# queue offsets are different questions then.
NO_PLACES: Final = frozenset({"FS-NAME", "FS-NOLOG", "FS-DUP"})
BROKEN: Final = frozenset({"CL-MAGIC", "CL-SIZE", "CL-CRC", "CL-PHYOFF", "CL-CHAIN"})
READ: Final = (
    TableName.MESSAGES,
    TableName.QUEUE_UNITS,
    TableName.INDEX_ENTRIES,
    TableName.TOPICS,
    TableName.QUEUES,
    TableName.CONSUMER_OFFSETS,
)


class Answer(NamedTuple):
    """What a command said."""

    code: int
    rows: list[Row]
    err: str


def ask(*words: object) -> Answer:
    """Run a command."""
    run = rmqtool(*words)
    return Answer(
        run.code, [json.loads(line) for line in run.lines if line.startswith("{")], run.err
    )


@dataclass
class Asked:
    """One store, and what commands say of it.

    Attributes:
        store: its root.
        conf: its broker.conf.
        beside: a directory for what is written.
    """

    store: Path
    conf: str
    beside: Path

    def say(self, command: str, *words: object) -> Answer:
        """Run a command on the store."""
        form = () if command == "report" else ("--format", "jsonl")
        return ask(command, self.store, *words, *form, "--broker-conf", self.conf)

    @cached_property
    def validated(self) -> Answer:
        """What `validate` says."""
        return self.say("validate")

    @cached_property
    def examined(self) -> Answer:
        """What `doctor` says."""
        return self.say("doctor")

    @cached_property
    def found(self) -> Counter[tuple[str, str]]:
        """Findings of `validate`: code and severity."""
        return Counter((row["code"], row["severity"]) for row in self.validated.rows)

    @cached_property
    def missing(self) -> int | None:
        """Messages that `doctor` calls lost; None where they are not counted."""
        (diagnosis,) = (row for row in self.examined.rows if row["kind"] == "diagnosis")
        number: int | None = diagnosis["messages_missing"]
        return number

    def damage(self, begin: str = "") -> set[str]:
        """Give the codes of damage that begin so."""
        return {
            code for code, severity in self.found if severity == DAMAGE and code.startswith(begin)
        }

    def problems(self) -> Iterator[str]:
        """Yield where two answers differ."""
        yield from self._findings()
        yield from self._numbers()
        yield from self._tables()
        yield from self._itself()
        yield from self._log()
        yield from self._areas()
        yield from self._compared()
        yield from self._written()

    def _findings(self) -> Iterator[str]:
        rows = (row for row in self.examined.rows if row["kind"] == "findings")
        told = Counter((row["code"], row["severity"]) for row in rows)
        if told != self.found:
            yield f"doctor and validate find {told - self.found} and {self.found - told}"
        page = self.say("report", "--output", self.beside / "page.html")
        if page.code != self.validated.code:
            yield f"report ends with {page.code}, validate with {self.validated.code}"
        if self.validated.code == DAMAGED and self.examined.code == DONE:
            yield "validate finds damage, and for doctor all is well"

    def _numbers(self) -> Iterator[str]:
        (verdict,) = self.say("startup", "--section", "verdict").rows or [{}]
        foretold = verdict.get("messages_missing")
        if verdict and foretold != self.missing:
            yield f"startup counts {foretold} lost messages, doctor {self.missing}"
        lost = [line for line in self.validated.err.splitlines() if " lost: rmqtool doctor" in line]
        said = int(lost[0].split()[1].replace(",", "")) if lost else 0
        if self.missing is not None and said != self.missing:
            yield f"validate says that {said} messages are lost, doctor {self.missing}"
        if self.missing is None or {code for code, _ in self.found} & NO_PLACES:
            return
        rows = [row for row in self.examined.rows if row["kind"] == "lost_messages"]
        least = messages_at(row for row in rows if row["fate"] in {LOST, UNLISTED})
        most = messages_at(row for row in rows if row["fate"] in {LOST, UNLISTED, DOUBTFUL})
        if not least <= self.missing <= most:
            yield f"{self.missing} messages are lost, and {least} to {most} are listed"

    def _tables(self) -> Iterator[str]:
        begins = {TableName.QUEUE_UNITS: "CQ-", TableName.INDEX_ENTRIES: "IX-"}
        for table in READ:
            output = self.beside / str(table)
            read = self.say_export(table, output)
            of_table = self.damage(begins[table]) if table in begins else set()
            if table is TableName.MESSAGES:
                of_table = self.damage() & BROKEN
            codes = {row["code"] for row in rows_in(output) if row.get("code")}
            if read.code not in {DONE, DAMAGED, IN_PART}:
                yield f"export {table} ends with {read.code}: {read.err[:200]}"
            elif read.code == DAMAGED and self.validated.code == DONE:
                yield f"export {table} has rows of {codes}, for validate all is well"
            elif read.code == DONE and of_table and not self._is_of_batches(table):
                yield f"export {table} is fine, validate finds {sorted(of_table)}"

    def say_export(self, table: TableName, output: Path) -> Answer:
        """Export a table."""
        words = ("--table", table, "--output", output, "--broker-conf", self.conf)
        return ask("export", self.store, *words, "--format", "jsonl")

    def _is_of_batches(self, table: TableName) -> bool:
        """Tell whether a table is that of consume queues, where batch queues have some damage."""
        places = [row["path"] for row in self.validated.rows if row["code"].startswith("CQ-")]
        return table is TableName.QUEUE_UNITS and any("batch" in path for path in places)

    def _itself(self) -> Iterator[str]:
        same = ask("diff", self.store, self.store)
        if same.code != DONE and "could not be read" not in str(same):
            yield f"the store differs from itself: {same}"

    def _log(self) -> Iterator[str]:
        """Who reads the log, and nothing else, ends as a validation of the log does."""
        judged = self.say("validate", "--only", "commitlog", "--only", "dledger").code
        read = {
            "hash": ask("hash", self.store).code,
            "extract": self.say("extract", "--output", self.beside / "sent").code,
        }
        for command, code in read.items():
            if code == DONE != judged and self.damage() & BROKEN:
                yield f"{command} is fine, validate --only commitlog ends with {judged}"
            if code == DAMAGED and judged == DONE and self.validated.code == DONE:
                yield f"{command} finds damage, validate --only commitlog none"

    def _areas(self) -> Iterator[str]:
        """What a whole validation finds, that of one of its areas finds."""
        of_areas: set[str] = set()
        for area in AREAS:
            deep = ("--level", "deep") if area == "commitlog" else ()  # else less is read
            rows = self.say("validate", "--only", area, *deep).rows
            of_areas |= {row["code"] for row in rows}
            if rows and rows[0]["severity"] == DAMAGE and self.validated.code == DONE:
                yield f"validate --only {area} finds {rows[0]['code']}, validate finds no damage"
        if hidden := {code for code, _ in self.found} - of_areas:
            yield f"no area of validate --only has {sorted(hidden)}"

    def _compared(self) -> Iterator[str]:
        """Queues that are as a rebuild writes them are sound, and so is the index."""
        for command, begin in (("rebuild-cq", "CQ-"), ("rebuild-index", "IX-")):
            code = self.say(command, "--check").code
            if code == DONE and (damage := self.damage(begin)):
                yield f"{command} --check is fine, validate finds {sorted(damage)}"

    def _written(self) -> Iterator[str]:
        log = self.beside / "log"
        words = ("--output", log, "--broker-conf", self.conf)
        if ask("rebuild-log", self.store, *words).code == DONE:
            code = ask("validate", log).code
            if code != DONE:
                yield f"rebuild-log is done, and validate ends with {code}"
        repaired = self.beside / "repaired"
        if self.say("repair", "--output", repaired).code != DONE:
            return
        after = Asked(repaired, self.conf, self.beside / "after")
        if after.validated.code != DONE:
            yield f"repair is done, and validate finds {after.damage()}"
        if (after.missing or 0) > (self.missing or 0) and self.missing is not None:
            yield f"{self.missing} messages were lost, and {after.missing} are after a repair"
        for table in READ:
            output = self.beside / f"repaired-{table}"
            read = after.say_export(table, output)
            codes = {row["code"] for row in rows_in(output) if row.get("code")}
            if read.code != DONE:
                yield f"export {table} of a repaired store ends with {read.code}: {codes}"


def messages_at(rows: Iterable[Row]) -> int:
    """Count messages, each place once: several queues may lead to one."""
    places: set[int] = set()
    count = 0
    for row in rows:
        place = row["physical_offset"]
        if place is None or place not in places:
            count += row["messages"] or 0
        if place is not None:
            places.add(place)
    return count


def rows_in(directory: Path) -> Iterator[Row]:
    """Yield the rows of an export."""
    for path in sorted(directory.glob("*.jsonl")):
        yield from map(json.loads, path.read_bytes().splitlines())


def problems_of(one: Case, beside: Path) -> list[str]:
    """Ask about one damaged store."""
    return [*Asked(one.root, str(broker_conf(one.fixture)), beside).problems()]


def main() -> int:
    """Run the campaign; 1 when two answers differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--rocksdb", action="store_true")
    asked = parser.parse_args()
    numbers = [asked.only] if asked.only is not None else range(asked.first, asked.cases)
    count = wrong = 0
    for number in numbers:
        place = Path(tempfile.mkdtemp())
        (place / "store").mkdir()
        one = damaged(asked.seed, number, place / "store", in_rocksdb=asked.rocksdb)
        problems = problems_of(one, place)
        count, wrong = count + 1, wrong + bool(problems)
        for problem in problems:
            print(f"--seed {asked.seed} --only {number}: {one.fixture}: {'; '.join(one.harms)}")
            print(f"    {problem}", flush=True)
        shutil.rmtree(place, ignore_errors=True)
    print(f"{count} stores, {wrong} of them with two answers to one question")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
