"""The way to an answer, as data: which file was asked where, and what it said.

`--explain` shows these steps as rows; a summary of them ends up in "not found".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rmqtool.plural import counted
from rmqtool.table import Column, Table, Type

STEPS: Final = Table(
    "steps",
    "a thing that was looked at on the way to an answer",
    (
        Column("asked", Type.TEXT, "the request"),
        Column("step", Type.INT64, "number of the step, from 1 on"),
        Column("action", Type.TEXT, "the step, such as `index chain`"),
        Column("path", Type.TEXT, "file, relative to the store root"),
        Column("position", Type.INT64, "byte of that file", "bytes"),
        Column("physical_offset", Type.INT64, "place in the commitlog that was looked at", "bytes"),
        Column("result", Type.TEXT, "the outcome"),
    ),
    shown=("step", "action", "result", "path", "position", "physical_offset"),
)
MOST_STEPS: Final = 10_000  # of one request; a hostile chain may have millions


class TrailStep(NamedTuple):
    """One thing that was looked at."""

    action: str  # the step, such as `index chain` or `record`
    result: str  # what came of it, one phrase
    path: str = ""  # file, relative to the store root; empty when it is about none
    position: int | None = None  # byte of that file
    physical_offset: int | None = None  # commitlog offset that was found or looked at


@dataclass(slots=True)
class Trail:
    """The steps of one request, in the order in which they were taken."""

    steps: list[TrailStep] = field(default_factory=list)  # what was done
    # phrases for "not found": where the answer would have been
    searched: list[str] = field(default_factory=list)
    left_out: int = 0  # steps beyond the limit

    def add(
        self,
        action: str,
        result: str,
        path: str = "",
        position: int | None = None,
        physical_offset: int | None = None,
    ) -> None:
        """Take down one step."""
        if len(self.steps) >= MOST_STEPS:
            self.left_out += 1
            return
        self.steps.append(TrailStep(action, result, path, position, physical_offset))

    def search(self, phrase: str) -> None:
        """Take down where the answer was looked for, once."""
        if phrase not in self.searched:
            self.searched.append(phrase)


def step_rows(asked: str, trail: Trail) -> list[dict[str, object]]:
    """Give the steps of a request as rows of `STEPS`."""
    rows: list[dict[str, object]] = [
        {"asked": asked, "step": number, **step._asdict(), "path": step.path or None}
        for number, step in enumerate(trail.steps, 1)
    ]
    if trail.left_out:
        more = f"{counted(trail.left_out, 'more step was', 'more steps were')} taken"
        rows.append({"asked": asked, "step": len(rows) + 1, "action": "…", "result": more})
    return rows
