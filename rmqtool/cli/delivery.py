"""From a command's output options to rows on standard output or in a new file."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rmqtool.cli.exits import say
from rmqtool.errors import UsageError
from rmqtool.render.emit import Format, Look, chosen_columns, emit, emit_all
from rmqtool.render.sink import Sink, standard_output
from rmqtool.times import zone_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import tzinfo

    from rmqtool.rows import Rows

COLORS: Final = ("auto", "always", "never")


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where rows go, and how they are to look, as asked for on the command line.

    Attributes:
        format: None is a table on a terminal, JSON lines elsewhere, or what the file's name says.
        output: a file to create; None is standard output.
        columns: comma separated.
        color: auto, always or never.
        quiet: no remarks on stderr.
        time_zone: whose clock the times of tables follow; None is UTC.
    """

    format: Format | None = None
    output: str | None = None
    columns: str | None = None
    color: str = "auto"
    quiet: bool = False
    time_zone: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, before any file is opened."""
        if self.color not in COLORS:
            reason = f"{self.color!r} is none of: {' '.join(COLORS)}"
            raise UsageError(option="--color", reason=reason)
        try:
            self._zone()
        except ValueError as error:
            raise UsageError(option="--time-zone", reason=str(error)) from error

    def _zone(self) -> tzinfo | None:
        return None if self.time_zone is None else zone_of(self.time_zone)

    @property
    def wanted_columns(self) -> tuple[str, ...] | None:
        """The columns that were asked for."""
        return None if self.columns is None else tuple(filter(None, self.columns.split(",")))

    @property
    def wanted_format(self) -> Format:
        """The format that rows will have."""
        is_terminal = self.output is None and sys.stdout is not None and sys.stdout.isatty()
        return self._format(is_terminal=is_terminal)

    @property
    def is_unseen(self) -> bool:
        """Whether rows go to a file or a pipe, not to the terminal."""
        return self.output is not None or sys.stdout is None or not sys.stdout.isatty()

    @property
    def is_json(self) -> bool:
        """Whether rows will be JSON objects."""
        if self.format is None and self.output is None:
            is_terminal = sys.stdout is not None and sys.stdout.isatty()
            return not is_terminal
        return self._format(is_terminal=False) in {Format.JSON, Format.JSONL}

    def chosen(self, rows: Rows) -> Rows:
        """Give rows with the columns that were asked for alone, where others follow.

        Raises:
            UsageError: there is no such column.
        """
        wanted = self.wanted_columns
        if wanted is None:
            return rows
        columns = chosen_columns(rows, self._look(standard_output()))
        return replace(rows, columns=columns, shown=columns, optional=())

    def keep_out_of(self, *stores: str) -> None:
        """Refuse an output that cannot be written, or would lie in what is read.

        Raises:
            OutputExists: the target is there.
            WriteFailed: there is no directory for it, or it lies in a store.
        """
        if self.output is not None:
            from rmqtool.cli.targets import refuse_targets

            refuse_targets(stores, self.output)

    def emit(self, rows: Rows) -> int:
        """Write rows of one kind; return how many there were."""
        with self._sink() as sink:
            return emit(rows, self._look(sink), sink)

    def emit_all(self, kinds: Iterable[Rows], empty: str = "") -> int:
        """Write rows of several kinds; return how many there were; see `emit.emit_all`."""
        with self._sink() as sink:
            return emit_all(kinds, self._look(sink), sink, empty)

    def note(self, sentence: str) -> None:
        """Tell the person something that is no error."""
        if not self.quiet:
            say(sentence)

    @contextmanager
    def _sink(self) -> Iterator[Sink]:
        if self.output is None:
            yield standard_output()
            return
        from rmqtool.writing.output import OutputFile

        with OutputFile(self.output) as file:
            yield Sink(file.binary, self.output)

    def _look(self, sink: Sink) -> Look:
        return Look(
            self._format(is_terminal=sink.is_terminal),
            self.wanted_columns,
            color=self._has_color(sink),
            note=self.note,
            zone=self._zone(),
        )

    def _format(self, *, is_terminal: bool) -> Format:
        if self.format is not None:
            return self.format
        # Not pathlib, which takes 3 ms to import.
        suffix = os.path.splitext(self.output or "")[1].lstrip(".")  # noqa: PTH122
        if suffix in (Format.CSV, Format.JSON):
            return Format(suffix)
        return Format.TABLE if is_terminal else Format.JSONL

    def _has_color(self, sink: Sink) -> bool:
        if self.color != "auto":
            return self.color == "always"
        is_dumb = os.environ.get("TERM") == "dumb" or bool(os.environ.get("NO_COLOR"))
        return sink.is_terminal and not is_dumb
