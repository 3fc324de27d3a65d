"""`rmqtool info` without its options' declarations: what it does with their values.

Apart from `cmd_info`, so that a plain command line needs no Typer: see `direct`.
"""

from __future__ import annotations

import shlex
from typing import Final, NamedTuple

from rmqtool.cli.delivery import Delivery
from rmqtool.cli.exits import DONE, IN_PART
from rmqtool.errors import UsageError
from rmqtool.info.overview import SECTIONS
from rmqtool.info.overview_rows import section_rows
from rmqtool.info.survey import Survey
from rmqtool.render.emit import Format
from rmqtool.rows import turned
from rmqtool.store.tree import open_store
from rmqtool.words import counted

SINGLE: Final = frozenset({"store", "end", "dispatch"})  # a row each: a person reads it as a list


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
        sections = (section_rows(name, SECTIONS[name](survey)) for name in names)
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
