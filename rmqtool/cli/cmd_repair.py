"""`rmqtool repair`: bridge damage, put derived files right, take it back."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from rmqtool.cli.delivery import Delivery
from rmqtool.cli.exits import DONE, NO
from rmqtool.cli.options import (
    BrokerConfOption,
    ColorOption,
    ColumnsOption,
    FormatOption,
    JobsOption,
    QuietOption,
    StoreArgument,
)
from rmqtool.cli.targets import refuse_targets
from rmqtool.errors import UsageError
from rmqtool.render.emit import Format
from rmqtool.store.place import is_remote
from rmqtool.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.repair.options import RepairOptions
    from rmqtool.repair.plans import Plan
    from rmqtool.rows import Rows


def repair(
    store: StoreArgument,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only say what would be done; so it is by default."),
    ] = False,
    in_place: Annotated[
        bool,
        typer.Option(
            "--in-place",
            help="Change the store itself. The broker must be down; what is replaced is kept in "
            "rmqtool-undo-TIME, and a killed run is finished by the next one.",
        ),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="DIR", help="Write a repaired copy: a new directory."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --in-place on a terminal: really do it.")
    ] = False,
    plan: Annotated[
        str | None, typer.Option("--plan", metavar="FILE", help="Save the plan to a new file.")
    ] = None,
    apply: Annotated[
        str | None,
        typer.Option(
            "--apply",
            metavar="FILE",
            help="Make just the edits of a saved plan; refused if the store has changed since.",
        ),
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take the latest edit in place back, times included.")
    ] = False,
    quarantine: Annotated[
        str | None,
        typer.Option(
            "--quarantine",
            metavar="DIR",
            help="Keep the original bytes of what is replaced in a new directory, as evidence.",
        ),
    ] = None,
    bridge_missing: Annotated[
        bool,
        typer.Option(
            "--bridge-missing", help="Write files of bridges where whole segments are missing."
        ),
    ] = False,
    clamp_offsets: Annotated[
        bool,
        typer.Option(
            "--clamp-offsets",
            help="Move committed consumer and delay offsets that lie outside of their queue.",
        ),
    ] = False,
    broker_version: Annotated[
        str | None,
        typer.Option(
            "--broker-version",
            metavar="X.Y.Z",
            help="Release that is to run on the store; by default the one that wrote it.",
        ),
    ] = None,
    broker_conf: BrokerConfOption = None,
    jobs: JobsOption = None,
    format_: FormatOption = None,
    columns: ColumnsOption = None,
    color: ColorOption = "auto",
    quiet: QuietOption = False,
) -> int:
    """Repair a store so that every undamaged message survives a start.

    First comes a plan: each edit with its place, its reason and what is lost. Nothing is written
    without --in-place or --output. A damaged record is bridged: a record of the same length takes
    its place, which brokers walk over and deliver to nobody; the unit of its queue repeats the
    neighbour's, so that later messages keep their queue offset: the neighbour is delivered twice,
    no other message is lost. No message is invented, and no checksum is made for bad bytes.

    Afterwards the store is validated, and the next start foretold. The exit code is 1 when
    something is, or would be, left that is worse than a note; for a plan, when there is anything
    to do.
    """
    from rmqtool.repair.options import RepairOptions

    delivery = Delivery(format_, None, columns, color, quiet)
    options = RepairOptions(
        store,
        broker_version=broker_version,
        broker_conf=broker_conf,
        bridge_missing=bridge_missing,
        clamp_offsets=clamp_offsets,
        jobs=jobs,
    )
    wish = _Wish(dry_run, in_place, output, yes, plan, apply, quarantine)
    if undo:
        return _undo(store, wish, delivery)
    wish.refuse_contradictions()
    return _repair(options, wish, delivery)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What is to be done with the plan, as asked for on the command line."""

    dry_run: bool
    in_place: bool
    output: str | None
    yes: bool
    plan: str | None
    apply: str | None
    quarantine: str | None

    def refuse_contradictions(self) -> None:
        """Refuse what cannot be meant, before any file is opened."""
        if sum((self.dry_run, self.in_place, self.output is not None)) > 1:
            reason = "choose one of --dry-run, --in-place and --output DIR"
            raise UsageError(option="--in-place", reason=reason)
        if self.apply is not None and self.plan is not None:
            raise UsageError(option="--plan", reason="the plan is in a file already")

    @property
    def writes(self) -> bool:
        """Whether edits are to be made; on a terminal a person has to say so twice."""
        streams = (sys.stdin, sys.stdout)
        is_terminal = any(stream is not None and stream.isatty() for stream in streams)
        asked = self.in_place and (self.yes or not is_terminal)
        return asked or self.output is not None


def _undo(store: str, wish: _Wish, delivery: Delivery) -> int:
    from rmqtool import repair as library

    if wish != _Wish(False, False, None, wish.yes, None, None, None):
        raise UsageError(option="--undo", reason="stands alone")
    library.undo(store)
    delivery.note("the latest edit is taken back; the store is as it was before")
    delivery.note(f"next: rmqtool validate {shlex.quote(store)}")
    return DONE


def _repair(options: RepairOptions, wish: _Wish, delivery: Delivery) -> int:
    from rmqtool.repair.in_place import planned_in_place

    _refuse_looks(delivery)
    refuse_targets([options.store], wish.output, wish.plan, wish.quarantine)
    if is_remote(options.store) and (wish.in_place or wish.output is not None):
        reason = "a store on a remote file system is planned only: copy it here, and repair that"
        raise UsageError(option="--in-place" if wish.in_place else "--output", reason=reason)
    name = ""
    if wish.in_place and wish.writes:
        plan, name = planned_in_place(options, lambda: _plan(options, wish, delivery), wish)
    else:
        plan = _plan(options, wish, delivery)
        if wish.output is not None:
            _copy(plan, wish)
    replace(delivery, columns=None).emit_all(_sections(plan, delivery.wanted_columns))
    _tell(plan, delivery)
    if not wish.writes:
        return _not_written(options, plan, wish, delivery)
    if name:
        delivery.note(f"done; rmqtool repair --undo {shlex.quote(options.store)} takes it back")
    elif wish.output is not None:
        delivery.note(f"written to {wish.output}")
    if not plan.edits and wish.output is None:
        return NO if plan.left else DONE
    return _prove(options, plan, wish, delivery)


def _refuse_looks(delivery: Delivery) -> None:
    """Refuse how the plan is to be shown before anything is changed, not behind it."""
    from rmqtool.repair.result import EDITS, LEFT

    if delivery.format is Format.CSV:
        reason = "csv holds rows of one kind, and here are edits and what is left; choose jsonl"
        raise UsageError(option="--format", reason=reason)
    known = dict.fromkeys((*EDITS, *LEFT))
    for name in delivery.wanted_columns or ():
        if name not in known:
            reason = f"no column {name}; there are: {' '.join(known)}"
            raise UsageError(option="--columns", reason=reason)


def _sections(plan: Plan, wanted: tuple[str, ...] | None) -> Iterator[Rows]:
    """Yield edits and what is left, each with those of the columns that it has."""
    from rmqtool.repair.result import rows_of

    for rows in rows_of(plan):
        own = [name for name in wanted or () if name in rows.columns]
        yield replace(rows, columns=own, shown=own) if own else rows


def _plan(options: RepairOptions, wish: _Wish, delivery: Delivery) -> Plan:
    """Make the plan and save it, or read it."""
    from rmqtool.render.progress import progress
    from rmqtool.repair.planning import make_plan
    from rmqtool.repair.plans import read_plan
    from rmqtool.store.output import OutputFile
    from rmqtool.store.place import Place
    from rmqtool.store.tree import open_store

    if wish.apply is not None:
        plan = read_plan(wish.apply)
        plan.store = Place.of(options.store).location
        return plan
    opened = open_store(options.store, options.broker_conf)
    if not wish.in_place and opened.lock_held():
        delivery.note("a broker runs on this store: the plan is for what it had written by now")
    total = opened.commitlog.size
    with progress("plan", total, quiet=delivery.quiet) as advance:
        plan = make_plan(options, advance)
    if wish.plan is not None:
        with OutputFile(wish.plan) as file:
            file.text.write(plan.text())
    return plan


def _copy(plan: Plan, wish: _Wish) -> None:
    from rmqtool.repair.applying import apply_to_copy
    from rmqtool.repair.quarantine import quarantine
    from rmqtool.store.place import Place

    root = Place.of(plan.store)
    if wish.quarantine is not None:
        quarantine(plan, root, wish.quarantine)
    apply_to_copy(plan, root, wish.output or "")


def _tell(plan: Plan, delivery: Delivery) -> None:
    """Sum the plan up."""
    for note in plan.notes:
        delivery.note(note)
    codes = ", ".join(f"{count} {code}" for code, count in sorted(plan.counts.items()))
    if codes:
        delivery.note(f"{counted(len(plan.edits), 'edit')}: {codes}")
    else:
        delivery.note("no edit is planned" if plan.left else "nothing to repair")
    if plan.left:
        stay = "stays as it is" if len(plan.left) == 1 else "stay as they are"
        delivery.note(f"{counted(len(plan.left), 'finding')} {stay}: see the section `left`")


def _not_written(options: RepairOptions, plan: Plan, wish: _Wish, delivery: Delivery) -> int:
    if plan.edits:
        words = ["rmqtool", "repair", options.store]
        saved = wish.plan or wish.apply
        words += ["--apply", saved] if saved is not None else options.words
        words += ["--in-place", "--yes"] if wish.in_place else ["--in-place"]
        delivery.note("nothing was written; --in-place changes the store, --output DIR a copy")
        delivery.note(f"next: {shlex.join(words)}")
    return NO if plan.edits or plan.left else DONE


def _prove(options: RepairOptions, plan: Plan, wish: _Wish, delivery: Delivery) -> int:
    """Validate what was written, and say what a broker would do with it."""
    from rmqtool.repair.result import prove

    store = wish.output or options.store
    proof = prove(store, options, plan.broker_version)
    count = len(proof.findings)
    if count:
        codes = ", ".join(sorted({one.code for one in proof.findings}))
        delivery.note(f"validated: {counted(count, 'finding')} above a note: {codes}")
        delivery.note(f"next: rmqtool validate {shlex.quote(store)}")
    else:
        delivery.note("validated: nothing above a note")
    delivery.note(proof.verdict)
    if options.broker_version is None:
        command = f"rmqtool startup {shlex.quote(store)} --broker-version V"
        delivery.note(f"next, if another release is to run on it: {command}")
    return NO if count or proof.loses else DONE
