"""Whatever was asked before, of one DataFrame or view: each question counts its own rows.

Spark keeps the reader of a DataFrame for all its queries. Where a reader takes filters of queries,
Spark tells it of those of one query and not of the next, which has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stores import fixture_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
TAKES_FILTERS: Final = "spark.sql.python.filterPushdown.enabled"
COLUMNS: Final = "physical_offset,topic,queue_id,queue_offset,size"
VIEW: Final = "asked_again"
Row: TypeAlias = dict[str, Any]
# What a question leaves of the rows: as Spark reads it, and as Python does.
CONDITIONS: Final[dict[str, Callable[[Row], bool]]] = {
    "queue_id = 1": lambda row: row["queue_id"] == 1,
    "topic = 'traffic-batch'": lambda row: row["topic"] == "traffic-batch",
    "topic IN ('T', 'traffic-orders')": lambda row: row["topic"] in {"T", "traffic-orders"},
    "physical_offset >= 100000 AND physical_offset < 300000": lambda row: (
        100_000 <= row["physical_offset"] < 300_000
    ),
    "queue_offset < 5": lambda row: row["queue_offset"] < 5,
    "topic = 'T' OR size > 1000": lambda row: row["topic"] == "T" or row["size"] > 1000,
}
condition = st.sampled_from([None, *CONDITIONS])
questions = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["again", "view", "sql", "cached", "new"]), condition),
        st.tuples(st.sampled_from(["union", "join", "sql"]), condition, condition),
    ),
    min_size=2,
    max_size=4,
)


class Asked:
    """Asks one DataFrame, and knows the answers from the rows themselves."""

    def __init__(self, spark: SparkSession, store: Path) -> None:
        self._spark, self._store = spark, store
        self._rows = [row.asDict() for row in self._read().collect()]
        self._names = (f"{VIEW}_{number}" for number in count())
        self.begin()

    def begin(self) -> None:
        """Take a new DataFrame, and a view of it."""
        self._frame = self._read()
        self._frame.createOrReplaceTempView(VIEW)

    def answer(self, kind: str, *conditions: str | None) -> int:
        """Count rows, with Spark."""
        first, *others = [self._where(self._frame, condition) for condition in conditions]
        match kind:
            case "view":
                first = self._where(self._spark.table(VIEW), conditions[0])
            case "new":
                first = self._where(self._read(), conditions[0])
            case "union":
                first = first.union(others[0])
            case "join":
                first = first.alias("a").join(others[0].alias("b"), "physical_offset")
            case "sql":
                return sum(map(self._counted, conditions))
            case "cached":
                return self._cached(first)
            case _:
                pass
        return first.count()

    def expected(self, kind: str, *conditions: str | None) -> int:
        """Count rows, with Python."""
        found = [
            {
                row["physical_offset"]
                for row in self._rows
                if condition is None or CONDITIONS[condition](row)
            }
            for condition in conditions
        ]
        return len(found[0] & found[1]) if kind == "join" else sum(map(len, found))

    def _read(self) -> DataFrame:
        source = self._spark.read.format("rocketmq").option("columns", COLUMNS)
        return source.load(str(self._store))

    def _cached(self, frame: DataFrame) -> int:
        """Count the rows of a cached view."""
        name = next(self._names)
        frame.createOrReplaceTempView(name)
        self._spark.catalog.cacheTable(name)
        try:
            return self._spark.table(name).count()
        finally:
            self._spark.catalog.uncacheTable(name)

    def _counted(self, one: str | None) -> int:
        where = "" if one is None else f" WHERE {one}"
        (row,) = self._spark.sql(f"SELECT count(*) AS n FROM {VIEW}{where}").collect()  # noqa: S608
        return int(row["n"])

    @staticmethod
    def _where(frame: DataFrame, one: str | None) -> DataFrame:
        return frame if one is None else frame.where(one)


@pytest.fixture(scope="module")
def asked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """Give a store of several segments as a DataFrame; Spark offers filters to who takes them."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path_factory.mktemp("asked"))
    spark.conf.set(TAKES_FILTERS, "true")
    yield Asked(spark, store)
    spark.conf.unset(TAKES_FILTERS)


def test_repeated_question(asked: Asked) -> None:
    """A count is the same before and after a question about some of the rows."""
    whole, some = (asked.expected("again", one) for one in (None, "queue_id = 1"))
    assert 0 < some < whole
    steps = (("again", None), ("again", "queue_id = 1"), ("again", None), ("view", None))
    assert [whole, some, whole, whole] == [asked.answer(*step) for step in steps]


@settings(max_examples=12)
@given(steps=questions)
def test_sequences(asked: Asked, steps: list[tuple[Any, ...]]) -> None:
    """Repeated questions, unions, self-joins and cached views give the counts of their rows."""
    asked.begin()
    for step in steps:
        assert asked.expected(*step) == asked.answer(*step), (step, steps)
