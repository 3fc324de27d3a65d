"""What Spark makes of a question, as far as we need to know it: its plan, looked at from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

# What Spark calls a command and only tells something.
TELLING: Final = ("Show", "Describe", "Explain")
CHANGING: Final = ("Insert", "Create", "Drop", "Write", "Append", "Overwrite", "Delete", "Update")
SHARED: Final = ("WithCTE", "CTERelation")  # read once or more often, as the optimizer likes


@dataclass(frozen=True, slots=True)
class SqlPlan:
    """What a question refers to.

    Attributes:
        names: of all columns, whatever table they are of.
        reads_once: whether each table is read in one place only.
    """

    names: frozenset[str]
    reads_once: bool

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
        leaves: list[tuple[str, ...]] = []
        is_shared = False
        for node in _nodes(plan):
            found.update(_names(node.references().toSeq()))
            is_shared = is_shared or _name(node).startswith(SHARED)
            if not node.children().size():
                leaves.append(tuple(_names(node.output())))
        return cls(frozenset(found), not is_shared and len(leaves) == len(set(leaves)))


def changes(spark: SparkSession, text: str) -> str:
    """Name what a statement would change, even behind WITH or FROM; empty when it only asks."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

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


def _names(attributes: Any) -> Iterator[str]:  # noqa: ANN401 - of the JVM
    for number in range(attributes.size()):
        yield str(attributes.apply(number).name())


def _is_command(node: Any) -> bool:  # noqa: ANN401 - of the JVM
    kind = node.getClass()
    while kind is not None:
        if any("Command" in str(one.getSimpleName()) for one in kind.getInterfaces()):
            return True
        kind = kind.getSuperclass()
    return False
