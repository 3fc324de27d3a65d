"""`rmqtool diff`: two stores side by side, or a store and what a manifest says of it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import Annotated

from rmqtool.cli.completion.values import diff_sections
from rmqtool.cli.declaration import Argument, Command, Option
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.exits import DONE, IN_PART, NO
from rmqtool.cli.options import SECTION, Jobs, UnpackLimit, sections
from rmqtool.errors import UsageError


@dataclass(frozen=True)
class Diff(Command):
    """A and B are replicas, or a store and its copy. The logs are compared byte for byte by
    physical offset, whatever the length of their files. Unused space and the rest of an end-of-file
    blank do not count as a difference. Files with a difference are then scanned: the command shows
    the first record that differs, and counts what only one store has by topic and queue.

    Sections: verdict, records, messages, queues, offsets, epochs, settings, problems. Only what
    differs is shown. If one side is partial, only the common part is compared.

    With --merge-offsets --output FILE, a consumerOffset.json of both is written: of each offset the
    larger one, if both stores have the queue up to there and the same message before it. Otherwise
    the smaller one, or none. Each is a row, with the reason. The exit code is 1 when one is left
    out.

    A or B may be a manifest of 'rmqtool validate --manifest': each file of the store that is not as
    it was then is a row, by the checksum of its bytes. A file that only grew holds the same bytes,
    and more. For a replica on a machine that cannot be reached, its manifest is enough.

    Equal bytes are not checked: 'rmqtool validate' does that. A damaged record that only one store
    has is listed in 'problems'. The exit code is 0 when the stores are the same, 1 when they
    differ, 3 when some input could not be read.
    """

    first: Annotated[
        str, Argument("A", "A store root, a directory of it, a file or an archive.", opens=True)
    ]
    second: Annotated[
        str, Argument("B", "The store to compare it with, or a manifest.", opens=True)
    ]
    section: Annotated[tuple[str, ...], SECTION._replace(completes=diff_sections)] = ()
    merge_offsets: Annotated[
        bool,
        Option(
            "--merge-offsets",
            "Write the consumer offsets of both as one consumerOffset.json, to --output.",
        ),
    ] = False
    unpack_limit: UnpackLimit = None
    jobs: Jobs = None
    delivery: Delivery = Delivery()

    def describe(self) -> int:
        """Write what the rows of the sections are."""
        from rmqtool.diff.report import SECTIONS, TABLES

        if self.merge_offsets:
            from rmqtool.diff.merging import MERGED

            return self.delivery.describe([MERGED], self.first, self.second)
        wanted = sections(self.section, SECTIONS)
        tables = [table.rows((), label="section") for table in TABLES if table.name in wanted]
        return self.delivery.describe(tables, self.first, self.second)

    def run(self) -> int:
        """Compare; 1 when the stores differ, 3 when some of them could not be read."""
        from rmqtool.check.manifest.manifest import is_manifest
        from rmqtool.diff import difference
        from rmqtool.diff.report import SECTIONS, lender, report, verdict
        from rmqtool.plural import counted
        from rmqtool.store.moment import looked_again
        from rmqtool.store.tree import open_store

        self.delivery.keep_out_of(self.first, self.second)
        for store, manifest in ((self.first, self.second), (self.second, self.first)):
            if is_manifest(manifest):
                return self._to_manifest(store, manifest)
        if self.merge_offsets:
            return self._merge()
        wanted = sections(self.section, SECTIONS)
        compared = looked_again(
            lambda: difference(open_store(self.first), open_store(self.second), jobs=self.jobs)
        )
        shown = [
            rows
            for rows in report(compared)
            if rows.name in wanted and (self.section or any(rows.chunks))
        ]
        if len(shown) == 1:
            if not self.delivery.emit(shown[0]):
                self.delivery.note(f"{shown[0].name}: none")
        else:
            self.delivery.emit_all(shown, empty="none")
        self.delivery.note(verdict(compared))
        if (number := lender(compared)) is not None:
            stores = (self.first, self.second)
            words = ["rmqtool", "repair", stores[1 - number], "--from", stores[number]]
            self.delivery.note(f"next: {shlex.join(words)}")
        unread = sum(side_problem.is_unread for some in compared.troubles for side_problem in some)
        if unread:
            self.delivery.note(f"{counted(unread, 'thing')} could not be read: --section problems")
            return IN_PART
        return DONE if compared.is_same else NO

    def _to_manifest(self, store: str, manifest: str) -> int:
        """Compare with a manifest; 1 when a file differs, 3 when one could not be read."""
        from rmqtool.check.manifest.manifest import Manifest
        from rmqtool.diff.manifest import CHANGED, compare
        from rmqtool.store.tree import open_store

        for option, given in (("--merge-offsets", self.merge_offsets), ("--section", self.section)):
            if given:
                raise UsageError(option=option, reason="cannot be combined with a manifest")
        report = compare(open_store(store), Manifest.read(manifest), jobs=self.jobs)
        self.delivery.emit(CHANGED.rows([[changed.row() for changed in report.changed]]))
        self.delivery.note(report.verdict)
        if report.unread:
            return IN_PART
        return NO if report.changed else DONE

    def _merge(self) -> int:
        """Write the offsets of both; 1 when some are left out."""
        from rmqtool.diff import difference
        from rmqtool.diff.merging import MERGED, MergedOffset, document, merge
        from rmqtool.diff.side import Part
        from rmqtool.plural import counted
        from rmqtool.store.moment import looked_again
        from rmqtool.store.tree import open_store
        from rmqtool.writing.output import OutputFile

        if self.delivery.output is None or self.section:
            option = "--section" if self.section else "--output"
            reason = "--merge-offsets needs --output FILE, and has no sections"
            raise UsageError(option=option, reason=reason)

        def decided() -> list[MergedOffset]:
            a, b = open_store(self.first), open_store(self.second)
            report = difference(a, b, jobs=self.jobs)
            if report.parts != set(Part):
                raise UsageError(option="--merge-offsets", reason="needs two store roots")
            return merge(a, b, report)

        merged = looked_again(decided)
        with OutputFile(self.delivery.output) as file:
            file.binary.write(document(merged))
        replace(self.delivery, output=None).emit(MERGED.rows([[offset.row() for offset in merged]]))
        left_out = sum(offset.merged is None for offset in merged)
        taken = counted(len(merged) - left_out, "offset")
        self.delivery.note(f"{taken} written to {self.delivery.output}, {left_out} left out")
        return NO if left_out else DONE
