"""Compares what a stream wrote with all that was ever in the log.

A sink is read by its own list of files, in the order of its batches. A row FS-CHANGED announces
that the log was cut: what was given of its bytes before is void, and given again where it is still
there. A row FS-GAP announces bytes that expired before they were read. Each record has to be there
once after that, and nothing else may be.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

from tests.spark.stream_log import Given

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

LIST: Final = "_spark_metadata"
EXPIRED, CUT = "FS-GAP", "FS-CHANGED"
COLUMNS: Final = (*Given._fields, "extent", "code")
EXAMPLES: Final = 3
Rows = list[dict[str, Any]]


@dataclass
class Judgement:
    """What came of a stream.

    Attributes:
        figures: what was counted, by name.
        wrong: what is wrong, in words.
    """

    figures: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def check(self, found: Iterable[object], what: str) -> None:
        """Take note of what should not be."""
        some = sorted(found, key=str)
        if some:
            told = "; ".join(map(str, some[:EXAMPLES]))
            self.wrong.append(f"{len(some)} {what}: {told}")


def batches(sink: Path) -> Iterator[Rows]:
    """Yield the rows of each batch that Spark committed to a directory of Parquet files."""
    seen: set[str] = set()
    logs = [path for path in (sink / LIST).glob("[0-9]*") if path.suffix in {"", ".compact"}]
    for log in sorted(logs, key=lambda path: int(path.stem)):
        rows: Rows = []
        for line in log.read_text(encoding="utf-8").splitlines()[1:]:
            name = unquote(urlparse(json.loads(line)["path"]).path)
            if name not in seen:
                seen.add(name)
                rows += pq.ParquetFile(name).read(list(COLUMNS)).to_pylist()
        yield rows


@dataclass
class View:
    """What a reader of the sink has, who heeds what it announces.

    Attributes:
        now: records, by physical offset.
        twice: records that were there when they came again.
        expired: physical offsets that were announced as missing: first, and past the last.
        damage: other rows that are no record, by physical offset.
    """

    now: dict[int, Given] = field(default_factory=dict)
    twice: list[Given] = field(default_factory=list)
    expired: list[tuple[int, int]] = field(default_factory=list)
    damage: dict[int, dict[str, Any]] = field(default_factory=dict)

    def tell(self, row: dict[str, Any], found: Judgement) -> None:
        """Take a row that is no record."""
        begin, end = row["physical_offset"], (row["physical_offset"] or 0) + (row["size"] or 0)
        if row["code"] == CUT:
            found.figures["cuts announced"] += 1
            void = [at for at in self.now if begin <= at < end]
            found.figures["records void by a cut"] += len(void)
            for at in void:
                del self.now[at]
            self.damage = {at: one for at, one in self.damage.items() if not begin <= at < end}
            self.expired = list(_without(self.expired, begin, end))
        elif row["code"] == EXPIRED:
            found.figures["expiries announced"] += 1
            self.expired.append((begin, end))
        else:
            self.damage[-1 if begin is None else begin] = row

    def give(self, rows: Rows) -> Iterator[Given]:
        """Take the records of a batch; yield them."""
        for row in rows:
            if not row["extent"]:
                one = Given(*(row[name] for name in Given._fields))
                if one.physical_offset in self.now:
                    self.twice.append(one)
                self.now[one.physical_offset] = one
                yield one


def judge(given: Iterable[Rows], final: set[Given], ever: set[Given]) -> Judgement:
    """Compare batches with the log.

    Args:
        given: rows of each batch, in the order of batches.
        final: records that were left in the log, those of expired files among them.
        ever: records that were in the log at any time.
    """
    judgement, view = Judgement(), View()
    for rows in given:
        judgement.figures["batches"] += 1
        for row in rows:  # what a batch tells of is older than its records
            if row["extent"]:
                view.tell(row, judgement)
        for one in view.give(rows):
            judgement.figures["records given"] += 1
            if one not in ever:
                judgement.check([one], "record that was never in the log")
    told = {one for one in final if _is_in(one.physical_offset, view.expired)}
    left = set(view.now.values())
    judgement.figures["records of the log"] = len(final)
    judgement.figures["records of announced expiries"] = len(told - left)
    judgement.check(view.twice, "records twice")
    judgement.check(final - left - told, "records missing, unannounced")
    judgement.check(left - final, "records that the log no longer has, unannounced")
    judgement.check(left & told, "records given and announced as missing")
    judgement.check(view.damage.values(), "rows of damage")
    return judgement


def _without(stretches: list[tuple[int, int]], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield what of some stretches lies outside of another one."""
    for low, high in stretches:
        for rest in ((low, min(high, begin)), (max(low, end), high)):
            if rest[0] < rest[1]:
                yield rest


def _is_in(at: int, stretches: list[tuple[int, int]]) -> bool:
    return any(begin <= at < end for begin, end in stretches)
