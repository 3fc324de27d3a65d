"""What Spark makes of a question, as far as we need to know it: its plan, looked at from here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rmqtool.spark.jobs import is_connect_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

# What Spark calls a command and only tells something.
TELLING: Final = ("Show", "Describe", "Explain")
CHANGING: Final = ("Insert", "Create", "Drop", "Write", "Append", "Overwrite", "Delete", "Update")
ANALYZED: Final = "== Analyzed Logical Plan =="
NODE: Final = re.compile(r"^[\s:+-]*'?(\w+)", re.MULTILINE)  # a line of a plan
TAKING: Final = frozenset({"SubqueryAlias", "View", "Project", "GlobalLimit", "LocalLimit"})


@dataclass(frozen=True, slots=True)
class SqlPlan:
    """What a question refers to."""

    names: frozenset[str]  # of all columns, whatever table they are of
    limit: int | None = None  # rows that the last step takes at most; None without
    is_first_rows: bool = False  # whether it takes the first rows that there are, of a whole table

    @classmethod
    def of(cls, asked: DataFrame) -> SqlPlan | None:
        """Look at the plan of a question; None when that cannot be done."""
        from py4j.protocol import Py4JError

        try:
            plan = asked._jdf.queryExecution().analyzed()  # noqa: SLF001 - no public way to ask
            return cls._of(plan, frozenset(asked.columns))
        except (Py4JError, AttributeError, TypeError):
            return None

    @classmethod
    def _of(cls, plan: Any, names: frozenset[str]) -> SqlPlan:  # noqa: ANN401 - of the JVM
        found = {*names, *_names(plan.output())}
        leaves = 0
        for node in _nodes(plan):
            found.update(_names(node.references().toSeq()))
            leaves += not node.children().size()
        limit = _limit_of(plan)
        is_first_rows = limit is not None and leaves == 1
        is_first_rows = is_first_rows and not _below(plan, TAKING).children().size()
        return cls(frozenset(found), limit, is_first_rows)


def changes(spark: SparkSession, text: str) -> str:
    """Name what a statement would change, even behind WITH or FROM; empty when it only asks."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if is_connect_session(spark):
        return _changes_there(spark, text)
    try:
        parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - no public one
        nodes = list(_nodes(parser.parsePlan(text)))
    except (Py4JError, PySparkException):
        return ""  # what Spark does not understand is said in better words when it is asked
    for node in nodes:
        name = _name(node)
        if name.startswith(CHANGING) or (_is_command(node) and not name.startswith(TELLING)):
            return name
    return ""


def _changes_there(spark: SparkSession, text: str) -> str:
    """Name what a statement would change on a Spark Connect server, which shows plans as text."""
    from pyspark.errors import PySparkException

    try:
        (row,) = spark.sql(f"EXPLAIN EXTENDED {text}").collect()
    except PySparkException:
        return ""  # not understood; of EXPLAIN, which changes nothing, there is no EXPLAIN
    parsed = str(row[0]).partition(ANALYZED)[0]
    return next((name for name in NODE.findall(parsed) if name.startswith(CHANGING)), "")


def _nodes(plan: Any) -> Iterator[Any]:  # noqa: ANN401 - of the JVM
    """Yield the nodes of a plan, those of subqueries in it, too."""
    yield plan
    for children in (plan.children(), plan.subqueries(), plan.innerChildren()):
        for number in range(children.size()):
            child = children.apply(number)
            if hasattr(child, "children"):
                yield from _nodes(child)


def _name(node: Any) -> str:  # noqa: ANN401 - of the JVM
    return str(node.getClass().getSimpleName())


def _limit_of(plan: Any) -> int | None:  # noqa: ANN401 - of the JVM
    is_limit = _name(plan) == "GlobalLimit" and _name(plan.limitExpr()) == "Literal"
    return int(plan.limitExpr().value()) if is_limit else None


def _below(node: Any, steps: frozenset[str]) -> Any:  # noqa: ANN401 - of the JVM
    """Give what lies below steps of some kinds."""
    while _name(node) in steps:
        node = node.children().apply(0)
    return node


def _names(attributes: Any) -> Iterator[str]:  # noqa: ANN401 - of the JVM
    for number in range(attributes.size()):
        yield str(attributes.apply(number).name())


def _is_command(node: Any) -> bool:  # noqa: ANN401 - of the JVM
    kind = node.getClass()
    while kind is not None:
        if any("Command" in str(nterface.getSimpleName()) for nterface in kind.getInterfaces()):
            return True
        kind = kind.getSuperclass()
    return False
