"""From a command's output options to rows on standard output or in a new file."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, TypeAlias

from rmqtool.cli.completion.values import zones
from rmqtool.cli.declaration import Only, Option
from rmqtool.cli.exits import DONE, say
from rmqtool.errors import UsageError
from rmqtool.render.look import Color, Format, Look

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import tzinfo

    from rmqtool.clock import Clock
    from rmqtool.render.sink import Sink
    from rmqtool.rows import Rows
    from rmqtool.table import Table


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where rows go, and how they are to look, as asked for on the command line."""

    format: Annotated[
        Format | None,
        Option(
            "--format",
            "How to write rows; 'table' on a terminal and 'jsonl' elsewhere by default. "
            "'json-schema' says what they are, and reads nothing.",
            env="RMQTOOL_FORMAT",
        ),
    ] = None
    output: Annotated[
        str | None,
        Option("--output", "Write rows to a new file instead of standard output.", "FILE"),
    ] = None
    columns: Annotated[
        str | None, Option("--columns", "Only these columns, in this order.", "A,B,...")
    ] = None
    color: Annotated[Color, Option("--color", "Colour in tables; NO_COLOR counts.")] = Color.AUTO
    time_zone: Annotated[
        str | None,
        Option(
            "--time-zone",
            "Show the times of tables as clocks there do, and read times without an offset so: "
            "Europe/Berlin, local, ... Other formats stay in UTC.",
            "ZONE",
            completes=zones,
            env="RMQTOOL_TIME_ZONE",
        ),
    ] = None
    quiet: Annotated[bool, Option("-q, --quiet", "Nothing on stderr but errors.")] = False

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, before any file is opened."""
        try:
            self._zone()
        except ValueError as error:
            raise UsageError(option="--time-zone", reason=str(error)) from error

    def _zone(self) -> tzinfo | None:
        if self.time_zone is None:
            return None
        from rmqtool.times import zone_of

        return zone_of(self.time_zone)

    @property
    def clock(self) -> Clock:
        """A new reader of the times that a person types."""
        from rmqtool.clock import Clock

        return Clock(self.time_zone or "")

    @property
    def wanted_columns(self) -> tuple[str, ...] | None:
        """The columns that were asked for."""
        return None if self.columns is None else tuple(filter(None, self.columns.split(",")))

    @property
    def wanted_format(self) -> Format:
        """The format that rows will have."""
        return self._format(is_terminal=not self.is_unseen)

    @property
    def is_unseen(self) -> bool:
        """Whether rows go to a file or a pipe, not to the terminal."""
        return self.output is not None or sys.stdout is None or not sys.stdout.isatty()

    def hides_bar(self, *, streams: bool) -> bool:
        """Whether no bar may be shown: it is unwanted, or would stand between rows that are seen.

        Args:
            streams: rows appear while the work goes on.
        """
        return self.quiet or (streams and not self.is_unseen)

    @property
    def is_json(self) -> bool:
        """Whether rows will be JSON objects."""
        if self.format is None and self.output is None:
            return self.is_unseen
        return self._format(is_terminal=False) in {Format.JSON, Format.JSONL}

    def chosen(self, rows: Rows) -> Rows:
        """Give rows with the columns that were asked for alone, where others follow.

        Raises:
            UsageError: there is no such column.
        """
        if self.wanted_columns is None:
            return rows
        from rmqtool.render.emit import chosen_columns
        from rmqtool.render.sink import standard_output

        columns = chosen_columns(rows, self._look(standard_output()))
        return replace(rows, columns=columns, shown=columns, optional=())

    def keep_out_of(self, *stores: str) -> None:
        """Refuse an output that cannot be written, or would lie in what is read.

        Raises:
            OutputExists: the target is there.
            WriteFailed: there is no directory for it, or it lies in a store.
        """
        if self.output is not None:
            from rmqtool.writing.output import refuse_targets

            refuse_targets(stores, self.output)

    def emit(self, rows: Rows) -> int:
        """Write rows of one kind; return how many there were."""
        from rmqtool.render.emit import emit

        with self._sink() as sink:
            return emit(rows, self._look(sink), sink)

    def emit_all(self, kinds: Iterable[Rows], empty: str = "") -> int:
        """Write rows of several kinds; return how many there were; see `emit.emit_all`."""
        from rmqtool.render.emit import emit_all

        with self._sink() as sink:
            return emit_all(kinds, self._look(sink), sink, empty)

    def describe(self, tables: Iterable[Table | Rows], *stores: str) -> int:
        """Write what rows are, in their place; give the exit code.

        Args:
            tables: whose rows a command would write, several where it writes several kinds.
            stores: that the command would read; no output lies in them.

        Raises:
            UsageError: there is no such column.
            OutputExists, WriteFailed: see `keep_out_of`.
        """
        from rmqtool.render.row_schema import row_schema
        from rmqtool.render.values import dump_json
        from rmqtool.rows import Rows

        self.keep_out_of(*stores)
        kinds = [table if isinstance(table, Rows) else table.rows(()) for table in tables]
        schema = row_schema(kinds, self.wanted_columns)
        with self._sink() as sink:
            sink.write(dump_json(schema) + b"\n")
            sink.flush()
        return DONE

    def note(self, sentence: str) -> None:
        """Tell the person something that is no error; nothing where there is nothing to tell."""
        if sentence and not self.quiet:
            say(sentence)

    @contextmanager
    def _sink(self) -> Iterator[Sink]:
        from rmqtool.render.sink import Sink, standard_output

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
        if self.color is not Color.AUTO:
            return self.color is Color.ALWAYS
        is_dumb = os.environ.get("TERM") == "dumb" or bool(os.environ.get("NO_COLOR"))
        return sink.is_terminal and not is_dumb


# What commands take of it.
Untimed: TypeAlias = Annotated[Delivery, Only("format", "output", "columns", "color", "quiet")]
Shown: TypeAlias = Annotated[Delivery, Only("format", "columns", "color", "quiet")]
Quiet: TypeAlias = Annotated[Delivery, Only("quiet")]
