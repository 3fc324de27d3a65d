"""Run the bulk commands through a Spark Connect server and write what they gave.

    python -m tests.spark.on_connect sc://HOST:PORT DIRECTORY

A process of its own: it has no Java, and the session of another kind cannot be beside it.
"""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

from rmqtool import engine
from rmqtool.check.many import Stores
from rmqtool.check.options import ValidateOptions
from rmqtool.cli.main import main as rmqtool
from rmqtool.errors import UsageError
from rmqtool.reads.options import SourceOptions
from rmqtool.spark import register
from rmqtool.spark.engine import SparkEngine
from rmqtool.spark.session import session
from rmqtool.spark.sql import SparkQuestions
from tests.spark.on_cluster import ASKED, HITS, where
from tests.spark.test_engine import WHOLE, everything

QUESTION = (
    "SELECT topic, count(*) AS n FROM messages WHERE extent IS NULL GROUP BY topic ORDER BY topic"
)
CHANGES = (
    "WITH a AS (SELECT 1) INSERT OVERWRITE DIRECTORY '{}' USING csv SELECT * FROM a",
    "FROM messages INSERT OVERWRITE DIRECTORY '{}' USING csv SELECT topic",
)


def refused(questions: SparkQuestions, text: str, place: Path) -> bool:
    """Whether a statement is refused, and has written nothing."""
    try:
        questions.ask(text.format(place))
    except UsageError:
        return not place.exists()
    return False


def verdicts(stores: list[Path]) -> list[dict[str, object]]:
    """Give the verdict on each of several stores."""
    work = Stores(ValidateOptions(""), [str(store) for store in stores])
    return [verdict.row for verdict in work.verdicts(lambda *_: None)]


def main(master: str, directory: Path) -> None:
    """Run everything on each store."""
    os.environ["JAVA_HOME"] = "/nowhere"  # none is needed here
    stores: dict[str, Path] = pickle.loads((directory / ASKED).read_bytes())  # noqa: S301 - ours
    found: dict[str, Any] = {}
    spark = register(session(master))
    with engine.using(SparkEngine.on(spark)):
        found["where"] = next(iter(engine.run(where, [0])))
        for name, store in stores.items():
            found[name] = everything(store, directory / name, WHOLE)
        found["verdicts"] = verdicts(list(stores.values()))
    first = next(iter(stores.values()))
    questions = SparkQuestions(spark, SourceOptions(str(first)))
    found["sql"] = [row for chunk in questions.ask(QUESTION).chunks for row in chunk]
    found["refused"] = [refused(questions, text, directory / "written") for text in CHANGES]
    arguments = ["export", str(first), "--output", str(directory / "export"), "--quiet"]
    found["export"] = rmqtool([*arguments, "--engine", "spark", "--master", master])
    (directory / HITS).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
