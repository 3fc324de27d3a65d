"""`rmqtool carve`: records out of images of disks, cut segments, swap, core files."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from rmqtool.carve.options import CarveFormat, CarveOptions
from rmqtool.cli.declaration import Argument, Command, Only, Option, options_of
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.exits import DONE, IN_PART, NO
from rmqtool.cli.options import Jobs, UnpackLimit
from rmqtool.plural import counted
from rmqtool.render.look import Format

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.carve.carving import Carved, Carving


@dataclass(frozen=True)
class Carve(Command):
    """Each byte of the images is looked at. Files may be deleted, a disk formatted, a segment cut.
    The records of each store come in the order of its log: each record states its physical offset.
    What is found twice is written once. Stores are told apart by their store hosts.

    A record is written if all its lengths agree and its body has the right checksum (grade 'crc').
    One without a body is written if its neighbours agree with its physical offset ('chain'). A
    lone record has no checksum or neighbour to confirm it ('lone'). A record that may be
    inside the body of another one is lone, too, or whose properties may end in bytes of another
    file.
    Partial and damaged records are counted.

    The file has whole records as they are stored, one after the other. Each begins with its own
    length. It appears complete or not at all.

    The exit code is 0 when every record found is confirmed and in the file. It is 1 when nothing
    was found, or when records are partial, damaged or lone. It is 1, too, when two records claim
    the same place of a log. It is 3 when an image cannot be read to its end.
    """

    images: Annotated[
        tuple[str, ...],
        Argument(
            "IMAGE",
            "Images of disks or partitions, block devices, segments, core files: any file. One "
            "that ends in .gz or .zst is unpacked first.",
        ),
    ]
    output: Annotated[str, Option("--output", "The new file.", "FILE")]
    format: Annotated[
        CarveFormat | None,
        Option(
            "--format",
            "Records as they are stored, or one JSON line for each record with its place; 'jsonl' "
            "by default for a FILE.jsonl, otherwise 'rmq'. 'json-schema' writes what the lines "
            "are, and reads nothing.",
        ),
    ] = None
    by_store: Annotated[
        bool,
        Option("--by-store", "Make FILE a new directory, with a file for each store."),
    ] = False
    lone: Annotated[bool, Option("--lone", "Also write lone records.")] = False
    map: Annotated[
        str | None,
        Option(
            "--map",
            "A new HTML page: places of records in each image, parts of each log, "
            "and how certain each is. It needs no network and no script.",
            "FILE",
        ),
    ] = None
    summary: Annotated[
        Format | None,
        Option(
            "--summary",
            "How to write the rows about the stores; 'table' on a terminal, 'jsonl' elsewhere by "
            "default.",
        ),
    ] = None
    unpack_limit: UnpackLimit = None
    jobs: Jobs = None
    delivery: Annotated[Delivery, Only("columns", "time_zone", "quiet")] = Delivery()

    def describe(self) -> int:
        """Write what the lines of the file are into it."""
        from rmqtool.carve.rows import CARVED_RECORDS

        return replace(self.delivery, output=self.output).describe([CARVED_RECORDS], *self.images)

    def run(self) -> int:
        """Write the file; 1 when not all that was found is vouched for."""
        from rmqtool.carve.carving import Carving
        from rmqtool.carve.rows import CARVED
        from rmqtool.render.progress import progress
        from rmqtool.writing.output import refuse_targets

        refuse_targets(self.images, self.output, self.map)
        options, quiet = self._options(), self.delivery.quiet
        with ExitStack() as keep:
            with progress("unpack", None, quiet=quiet) as advance:
                work = Carving(options, keep, advance)
            with progress("carve", work.total_bytes or None, quiet=quiet) as advance:
                done = self._mapped(work, advance) if self.map else work.run(advance)
        shown = replace(self.delivery, columns=None, format=self.summary)
        shown.emit(CARVED.rows([[store.row for store in done.stores]]))
        return self._end(done)

    def _mapped(self, work: Carving, advance: Callable[[int], None]) -> Carved:
        """Write the file and the map of it."""
        import time

        from rmqtool import __version__
        from rmqtool.report.carve_map import CarveMap
        from rmqtool.writing.output import OutputFile

        with OutputFile(str(self.map)) as file:
            drawn = CarveMap(work.images)
            done = work.run(advance, drawn.add)
            text = drawn.page(done, round(time.time() * 1000), __version__)
            file.binary.write(text.encode("utf-8", "backslashreplace"))
        return done

    def _options(self) -> CarveOptions:
        from rmqtool.ranges import size

        limit = self.unpack_limit
        return options_of(
            CarveOptions,
            self,
            columns=self.delivery.wanted_columns,
            unpack_limit=None if limit is None else size("--unpack-limit", limit),
        )

    def _end(self, done: Carved) -> int:
        """Say what is not in the file, and give the exit code."""
        from rmqtool.carve.carving import next_step, sentences
        from rmqtool.carve.virtual_disks import sentences_of

        for sentence in (*sentences(done), *sentences_of(done.images)):
            self.delivery.note(sentence)
        if not done.records:
            self.delivery.note("nothing found")
        elif len(done.stores) > 1 and not self.by_store:
            stores = counted(len(done.stores), "store")
            self.delivery.note(f"{stores} in one file; --by-store writes a file for each")
        if done.records and (step := next_step(self._options(), done)):
            self.delivery.note(f"next: {step}")
        if done.unread:
            return IN_PART
        return DONE if done.records and done.is_whole else NO
