"""`rmqtool info` without its options' declarations: what it does with their values.

Apart from `cmd_info`, so that a plain command line needs no Typer: see `direct`.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmqtool.cli.delivery import Delivery
from rmqtool.cli.exits import DONE, IN_PART
from rmqtool.errors import UsageError
from rmqtool.info.overview import ROWS, SECTIONS
from rmqtool.info.survey import Survey
from rmqtool.render.emit import Format
from rmqtool.rows import Rows, turned
from rmqtool.store.tree import open_store
from rmqtool.times import iso_time
from rmqtool.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence


CHECKPOINT: Final = "checkpoint"
SINGLE: Final = frozenset({"store", "end", "dispatch"})  # a row each: a person reads it as a list
MILLISECONDS: Final = "ms"
TIMESTAMP, TIME = "_timestamp", "_time"
# What a table shows first, where a narrow terminal has no room for all.
SHOWN: Final = {
    "segments": (
        "start", "state", "first_store_time", "last_store_time", "size", "path", "end", "allocated",
    ),
    "topics": (
        "topic", "queues", "messages", "message_bytes", "first_store_time", "last_store_time",
        "expired", "is_estimate", "files", "size", "allocated", "queue_kind",
    ),
    "queues": (
        "topic", "queue_id", "min_queue_offset", "max_queue_offset", "messages", "message_bytes",
        "first_store_time", "last_store_time", "expired", "is_estimate", "files", "size",
        "allocated", "queue_kind",
    ),
    "index": (
        "path", "keys", "fill_percent", "first_store_time", "last_store_time", "capacity",
        "used_slots", "slots", "first_physical_offset", "last_physical_offset", "size", "allocated",
    ),
    "checkpoint": ("field", "stored", "actual", "difference", "unit", "stored_time", "actual_time"),
}  # fmt: skip

# What says nothing when it is cut.
WHOLE: Final = {"oddities": ("path", "expected", "actual")}


class Asked(NamedTuple):
    """The values of the command line; names and defaults are those of `cmd_info.info`."""

    store: str
    section: list[str] | None = None
    broker_conf: str | None = None
    format_: Format | None = None
    output: str | None = None
    columns: str | None = None
    color: str = "auto"
    time_zone: str | None = None
    quiet: bool = False


def run(asked: Asked) -> int:
    """Show the sections; give the exit code.

    Raises:
        UsageError: an option has a value that does not exist.
        UnreadablePath: the store cannot be opened at all.
        NotAStore: nothing of a store was recognised.
    """
    delivery = Delivery(
        asked.format_, asked.output, asked.columns, asked.color, asked.quiet, asked.time_zone
    )
    delivery.keep_out_of(asked.store)
    names = list(dict.fromkeys(asked.section or SECTIONS))
    for name in names:
        if name not in SECTIONS:
            reason = f"no section {name!r}; there are: {' '.join(SECTIONS)}"
            raise UsageError(option="--section", reason=reason)
    is_seen = delivery.wanted_format is Format.TABLE and asked.columns is None
    with Survey(open_store(asked.store, asked.broker_conf)) as survey:
        sections = (_rows(name, SECTIONS[name](survey)) for name in names)
        if is_seen:
            sections = (turned(one) if one.name in SINGLE else one for one in sections)
        if len(names) == 1:
            if not delivery.emit(next(sections)):
                delivery.note(f"{names[0]}: none")
        else:
            delivery.emit_all(sections, empty="none")
        count = len(survey.problems)
    if count:
        command = f"rmqtool info {shlex.quote(asked.store)} --section problems"
        delivery.note(f"{counted(count, 'thing')} could not be read: {command}")
    return IN_PART if count else DONE


def _rows(name: str, found: Sequence[NamedTuple]) -> Rows:
    """Give a section as rows: times as text, and the columns even where there is no row."""
    fields = ROWS[name]._fields
    times = [number for number, field in enumerate(fields) if field.endswith(TIMESTAMP)]
    columns = [
        field.removesuffix(TIMESTAMP) + TIME if field.endswith(TIMESTAMP) else field
        for field in fields
    ]
    rows = [dict(zip(columns, _with_times(row, times), strict=True)) for row in found]
    if name == CHECKPOINT:
        for row in rows:
            for field in ("stored", "actual") if row["unit"] == MILLISECONDS else ():
                row[f"{field}_time"] = _time(row[field])
        columns += ["stored_time", "actual_time"]
    return Rows(
        columns, [rows], SHOWN.get(name, ()), name, label="section", whole=WHOLE.get(name, ())
    )


def _with_times(row: NamedTuple, times: Sequence[int]) -> list[Any]:
    """Give the values of a row, those at some places as times."""
    values = list(row)
    for number in times:
        values[number] = _time(values[number])
    return values


def _time(value: int | None) -> str | None:
    return None if value is None else iso_time(value)
