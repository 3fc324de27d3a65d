"""A plan as rows, and what became of it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rmqtool.errors import RmqtoolError
from rmqtool.plural import counted
from rmqtool.store.tree import open_store
from rmqtool.table import Column, Table, Type
from rmqtool.tables.lost_messages import LOST_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.findings.finding import Finding
    from rmqtool.repair.options import RepairOptions
    from rmqtool.repair.plans import Plan
    from rmqtool.rows import Row, Rows

DIGESTS: Final = "sha256"  # in tables only: the first digits of both
DIGITS: Final = 12  # of a digest that a person compares
EDITS: Final = Table(
    "edits",
    "a change that repair would make, or made",
    (
        Column("action", Type.TEXT, "the action, such as patch or remove"),
        Column("path", Type.TEXT, "file or directory, relative to the store root"),
        Column("position", Type.INT64, "first byte that changes", "bytes"),
        Column("length", Type.INT64, "how many bytes change", "bytes"),
        Column("size", Type.INT64, "length of the file afterwards", "bytes"),
        Column("old_sha256", Type.TEXT, "SHA-256 of the present bytes; null where there are none"),
        Column("new_sha256", Type.TEXT, "SHA-256 of the new bytes; null where bytes are removed"),
        Column("code", Type.TEXT, "finding code that the edit removes"),
        Column("reason", Type.TEXT, "why, in a sentence"),
        Column("lost", Type.TEXT, "its loss; null without one"),
    ),
    shown=("action", "path", "position", "size", "code", "reason", "lost", DIGESTS),
    below=("reason", "lost", DIGESTS),
    whole=("path",),
)
LEFT: Final = Table(
    "left",
    "a finding that repair leaves as it is",
    (
        Column("code", Type.TEXT, "finding code"),
        Column("path", Type.TEXT, "file or directory, relative to the store root"),
        Column("message", Type.TEXT, "the problem, in a sentence"),
        Column("why", Type.TEXT, "why repair leaves it"),
    ),
    below=("message", "why"),
)


def rows_of(plan: Plan, most_lost: int | None = None) -> list[Rows]:
    """Give a plan as rows: its edits, what it leaves, and which messages are lost.

    Args:
        plan: whose.
        most_lost: how many lost messages are shown; None is all.
    """
    sections = [
        EDITS.rows([list(_edits(plan))]),
        LEFT.rows([list(map(LEFT.row, plan.left))]),
        LOST_MESSAGES.rows([plan.lost_messages[:most_lost]]),
    ]
    return [rows for rows in sections if any(rows.chunks)]


def sentences(plan: Plan) -> Iterator[str]:
    """Sum a plan up."""
    yield from plan.notes
    codes = ", ".join(f"{count:,} {code}" for code, count in sorted(plan.counts.items()))
    if codes:
        yield f"{counted(len(plan.edits), 'edit')}: {codes}"
    else:
        yield "no edit is planned" if plan.left else "nothing to repair"
    if plan.left:
        stay = "stays as it is" if len(plan.left) == 1 else "stay as they are"
        yield f"{counted(len(plan.left), 'finding')} {stay}: see the section `left`"


def _edits(plan: Plan) -> Iterator[Row]:
    for edit in plan.edits:
        empty = {"old_sha256": edit.old or None, "new_sha256": edit.new or None}
        row = EDITS.row(edit, action=str(edit.action), lost=edit.lost or None, **empty)
        yield {**row, DIGESTS: f"{_digits(edit.old)} -> {_digits(edit.new)}"}


def _digits(sha256: str) -> str:
    return f"{sha256[:DIGITS]}..." if sha256 else "nothing"


@dataclass(slots=True)
class Proof:
    """What a repaired store is like."""

    findings: list[Finding] = field(default_factory=list)  # of a validation, above a note
    verdict: str = ""  # what a broker would do with it; empty where that cannot be foretold
    loses: bool = False  # whether a broker would still lose messages, or not start

    def sentences(self, store: str, options: RepairOptions) -> Iterator[str]:
        """Say what was found, and what to do next.

        Args:
            store: the repaired store, as it was typed.
            options: of the repair.
        """
        from rmqtool.check.written import checked_again  # a plan alone does not need it

        yield from checked_again(store, self.findings)
        yield self.verdict
        if options.broker_version is None:
            command = f"rmqtool startup {shlex.quote(store)} --broker-version V"
            yield f"before starting another release: {command}"


def prove(store: str, options: RepairOptions, version: str) -> Proof:
    """Validate what was written, and predict the next start.

    Args:
        store: the repaired store.
        options: of the repair.
        version: of the broker.
    """
    from rmqtool.check.written import defects_of
    from rmqtool.startup.report import verdict
    from rmqtool.startup.start import predict  # a plan alone needs neither of them

    proof = Proof(
        defects_of(
            store,
            broker_version=options.broker_version,
            broker_conf=options.broker_conf,
            jobs=options.jobs,
        )
    )
    try:
        prediction = predict(open_store(store, options.broker_conf), version)
    except RmqtoolError as error:
        proof.verdict = f"the next start cannot be predicted: {error}"
    else:
        proof.verdict = verdict(prediction, is_validated=not proof.findings)
        proof.loses = not prediction.is_whole
    return proof
