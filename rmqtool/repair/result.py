"""A plan as rows, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.errors import RmqtoolError
from rmqtool.findings.catalogue import Severity
from rmqtool.rows import Row, Rows
from rmqtool.store.tree import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.findings.finding import Finding
    from rmqtool.repair.options import RepairOptions
    from rmqtool.repair.plans import Plan

EDITS: Final = (
    "action", "path", "position", "length", "size", "old_sha256", "new_sha256", "code", "reason",
    "lost",
)  # fmt: skip
SHOWN_EDITS: Final = ("action", "path", "position", "size", "code", "reason", "lost", "sha256")
SENTENCES: Final = ("reason", "lost", "sha256")
DIGITS: Final = 12  # of a digest that a person compares
LEFT: Final = ("code", "path", "message", "why")


def rows_of(plan: Plan) -> list[Rows]:
    """Give a plan as rows: its edits, and what it leaves."""
    sections = [
        Rows(EDITS, [list(_edits(plan))], SHOWN_EDITS, "edits", below=SENTENCES, whole=("path",)),
        Rows(LEFT, [list(_left(plan))], LEFT, "left", below=("message", "why")),
    ]
    return [rows for rows in sections if any(rows.chunks)]


def _edits(plan: Plan) -> Iterator[Row]:
    for edit in plan.edits:
        yield {
            "action": str(edit.action),
            "path": edit.path,
            "position": edit.position,
            "length": edit.length,
            "size": edit.size,
            "old_sha256": edit.old or None,
            "new_sha256": edit.new or None,
            "code": edit.code,
            "reason": edit.reason,
            "lost": edit.lost or None,
            "sha256": f"{_digits(edit.old)} -> {_digits(edit.new)}",  # in tables only
        }


def _digits(sha256: str) -> str:
    return f"{sha256[:DIGITS]}..." if sha256 else "nothing"


def _left(plan: Plan) -> Iterator[Row]:
    for one in plan.left:
        yield {name: getattr(one, name) for name in LEFT}


@dataclass(slots=True)
class Proof:
    """What a repaired store is like.

    Attributes:
        findings: of a validation, above a note.
        verdict: what a broker would do with it; empty where that cannot be foretold.
        loses: whether a broker would still lose messages, or not start.
    """

    findings: list[Finding] = field(default_factory=list)
    verdict: str = ""
    loses: bool = False


def prove(store: str, options: RepairOptions, version: str) -> Proof:
    """Validate what was written, and foretell the next start.

    Args:
        store: the repaired store.
        options: of the repair.
        version: of the broker.
    """
    from rmqtool.startup.start import predict  # a plan alone needs neither of them
    from rmqtool.startup.verdict import verdict

    asked = ValidateOptions(
        store,
        broker_version=options.broker_version,
        broker_conf=options.broker_conf,
        jobs=options.jobs,
    )
    proof = Proof([one for one in validate(asked) if one.severity is not Severity.NOTE])
    try:
        prediction = predict(open_store(store, options.broker_conf), version)
    except RmqtoolError as error:
        proof.verdict = f"the next start cannot be foretold: {error}"
    else:
        proof.verdict = verdict(prediction)
        proof.loses = not prediction.is_whole
    return proof
