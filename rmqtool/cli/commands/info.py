"""`rmqtool info`: a store at a glance, section by section."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from rmqtool.cli.completion.values import info_sections
from rmqtool.cli.declaration import Command
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.exits import DONE, IN_PART
from rmqtool.cli.options import SECTION, BrokerConf, StorePath, UnpackLimit, sections
from rmqtool.render.look import Format

PROBLEMS: Final = "problems"
NOTHING: Final = {  # "none" alone would read as if all had been looked at
    PROBLEMS: "problems: none; everything needed could be read, and nothing was checked",
    "oddities": "oddities: none among names and lengths of files; nothing else was checked",
}
COUNT_MESSAGES: Final = frozenset({"topics", "queues"})  # lost ones among them: nothing is scanned
SINGLE: Final = frozenset({"store", "end", "dispatch"})  # a row each: a person reads it as a list


@dataclass(frozen=True)
class Info(Command):
    """Nothing is scanned, so it takes the same time for a small and for a large commitlog.
    Sections: store, release, geometry, segments, oddities, end, dispatch, topics, queues, index,
    checkpoint, groups, databases, disk, problems.
    Lost messages are not counted, and queues count them as messages: 'rmqtool doctor' counts
    what a store has lost.
    """

    store: StorePath
    section: Annotated[tuple[str, ...], SECTION._replace(completes=info_sections)] = ()
    broker_conf: BrokerConf = None
    unpack_limit: UnpackLimit = None
    delivery: Delivery = Delivery()

    def describe(self) -> int:
        """Write what the rows of the sections are."""
        from rmqtool.info.overview_rows import NAMES, section_rows

        wanted = [section_rows(name, ()) for name in sections(self.section, NAMES)]
        return self.delivery.describe(wanted, self.store)

    def run(self) -> int:
        """Show the sections; 3 when something could not be read."""
        import shlex

        from rmqtool.info.overview import SECTIONS, section
        from rmqtool.info.overview_rows import section_rows
        from rmqtool.info.survey import Survey
        from rmqtool.plural import counted
        from rmqtool.rows import turned
        from rmqtool.store.artefact import ArtefactKind
        from rmqtool.store.tree import open_store

        self.delivery.keep_out_of(self.store)
        names = sections(self.section, SECTIONS)
        is_table = self.delivery.wanted_format is Format.TABLE
        is_seen = is_table and self.delivery.columns is None
        with Survey(open_store(self.store, self.broker_conf)) as survey:
            tables = (section_rows(name, section(survey, name)) for name in names)
            if is_table and not self.section:  # "problems: none" would read as if it were sound
                tables = (rows for rows in tables if rows.name != PROBLEMS or survey.problems)
            if is_seen:
                tables = (turned(rows) if rows.name in SINGLE else rows for rows in tables)
            if len(names) == 1:
                if not self.delivery.emit(next(tables)):
                    self.delivery.note(NOTHING.get(names[0], f"{names[0]}: none"))
            else:
                self.delivery.emit_all(tables, empty="none")
            count = len(survey.problems)
            is_whole = survey.store.asked.kind is ArtefactKind.STORE
        if COUNT_MESSAGES & {*names}:
            command = f": rmqtool doctor {shlex.quote(self.store)} counts them" if is_whole else ""
            self.delivery.note(f"lost messages are not counted{command}")
        if count:
            command = f"rmqtool info {shlex.quote(self.store)} --section problems"
            self.delivery.note(f"{counted(count, 'thing')} could not be read: {command}")
        elif is_table and not self.section:
            command = f"rmqtool validate {shlex.quote(self.store)}"
            self.delivery.note(f"nothing was checked; to check every record: {command}")
        return IN_PART if count else DONE
