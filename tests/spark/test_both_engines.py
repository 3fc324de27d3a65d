"""DuckDB and Spark answer alike, whatever store they are asked about."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from rmqtool.errors import RmqtoolError
from rmqtool.reads.options import SourceOptions
from rmqtool.reads.views import VIEWS
from rmqtool.spark.sql import SparkQuestions
from rmqtool.sql.questions import LocalQuestions
from tests.spark.variants import DAMAGED, name_of, variant_store
from tests.sql.asked import QUESTIONS
from tests.stores import fixture_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rmqtool.reads.questions import Questions

pytestmark = pytest.mark.spark
# A fixture of each kind of store, and damage; `SHARE` of the questions go to each of them.
SAMPLE: Final = (
    ("rocketmq-5.3.3-traffic", "garbage-late"),
    ("rocketmq-4.9.3-dledger", ""),
    ("rocketmq-5.5.1-rocksdb", ""),
    ("rocketmq-5.3.3-batch-queue", "zero-8-sectors-middle"),
    ("rocketmq-5.5.0-timer", "flip-body-early"),
)
SHARE: Final = 5
WHOLE: Final = ("rocketmq-5.3.3-traffic", "")
EVERYWHERE: Final = [(name, one) for name in fixture_names() for one in ("", DAMAGED[1])]


def rows(questions: Questions, text: str) -> list[dict[str, Any]] | str:
    """Give the rows of an answer, or that it is none."""
    try:
        answer = questions.ask(text)
        found = [row for chunk in answer.chunks for row in chunk]
    except RmqtoolError as error:
        return type(error).__name__
    assert all(answer.columns == tuple(row) for row in found)
    return found


def compare(spark: SparkSession, store: Path, texts: list[str]) -> None:
    """Ask both, and compare rows, values and order."""
    source = SourceOptions(str(store))
    on_spark = SparkQuestions(spark, source)
    with LocalQuestions(source) as here:
        for text in texts:
            assert rows(on_spark, text) == rows(here, text), text


def test_all_questions(spark: SparkSession, tmp_path: Path) -> None:
    """Every view and every question has the same rows, values and order on both engines."""
    store = variant_store(WHOLE, tmp_path)
    assert store is not None
    compare(spark, store, [*(f"TABLE {name}" for name in VIEWS), *QUESTIONS])


@pytest.mark.parametrize("number", range(len(SAMPLE)), ids=lambda one: name_of(SAMPLE[one]))
def test_stores(spark: SparkSession, tmp_path: Path, number: int) -> None:
    """So it is with stores of other kinds, and damaged ones; each has its share of questions."""
    store = variant_store(SAMPLE[number], tmp_path)
    if store is not None:
        texts = [*(f"TABLE {name}" for name in VIEWS), *QUESTIONS]
        compare(spark, store, texts[number::SHARE])


@pytest.mark.all_variants
@pytest.mark.parametrize("variant", EVERYWHERE, ids=name_of)
def test_everywhere(spark: SparkSession, tmp_path: Path, variant: tuple[str, str]) -> None:
    """All questions to all fixtures, sound and damaged."""
    store = variant_store(variant, tmp_path)
    if store is not None:
        compare(spark, store, [*(f"TABLE {name}" for name in VIEWS), *QUESTIONS])
