"""`rmqtool repair` without its options' declarations: what it does with their values.

Apart from `cmd_repair`, so that a plain command line needs no Typer: see `direct`.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from rmqtool import memory
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.exits import DONE, NO
from rmqtool.cli.targets import refuse_targets
from rmqtool.errors import UsageError
from rmqtool.render.emit import Format
from rmqtool.store.place import is_remote
from rmqtool.store.remote import place_of
from rmqtool.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.repair.options import RepairOptions
    from rmqtool.repair.plans import Plan
    from rmqtool.rows import Rows


class Asked(NamedTuple):
    """The values of the command line; names and defaults are those of `cmd_repair.repair`."""

    store: str
    dry_run: bool = False
    in_place: bool = False
    output: str | None = None
    yes: bool = False
    plan: str | None = None
    apply: str | None = None
    undo: bool = False
    quarantine: str | None = None
    bridge_missing: bool = False
    clamp_offsets: bool = False
    broker_version: str | None = None
    broker_conf: str | None = None
    jobs: int | None = None
    format_: Format | None = None
    columns: str | None = None
    color: str = "auto"
    quiet: bool = False


def run(asked: Asked) -> int:
    """Plan, repair or take back, as asked; give the exit code.

    Raises:
        UsageError: an option has a value that does not exist, or that contradicts another.
        RmqtoolError: the store cannot be repaired, or an output not be written.
    """
    memory.give_back_arrays()
    from rmqtool.repair.options import RepairOptions

    delivery = Delivery(asked.format_, None, asked.columns, asked.color, asked.quiet)
    options = RepairOptions(
        asked.store,
        broker_version=asked.broker_version,
        broker_conf=asked.broker_conf,
        bridge_missing=asked.bridge_missing,
        clamp_offsets=asked.clamp_offsets,
        jobs=asked.jobs,
    )
    wish = Wish(
        asked.dry_run,
        asked.in_place,
        asked.output,
        asked.yes,
        asked.plan,
        asked.apply,
        asked.quarantine,
    )
    if asked.undo:
        return _undo(asked.store, wish, delivery)
    wish.refuse_contradictions()
    return _repair(options, wish, delivery)


@dataclass(frozen=True, slots=True)
class Wish:
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


def _undo(store: str, wish: Wish, delivery: Delivery) -> int:
    from rmqtool import repair as library

    if wish != Wish(False, False, None, wish.yes, None, None, None):
        raise UsageError(option="--undo", reason="stands alone")
    library.undo(store)
    delivery.note("the latest edit is taken back; the store is as it was before")
    delivery.note(f"next: rmqtool validate {shlex.quote(store)}")
    return DONE


def _repair(options: RepairOptions, wish: Wish, delivery: Delivery) -> int:
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
    known = dict.fromkeys((*EDITS.names, *LEFT.names))
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


def _plan(options: RepairOptions, wish: Wish, delivery: Delivery) -> Plan:
    """Make the plan and save it, or read it."""
    from rmqtool.render.progress import progress
    from rmqtool.repair.planning import make_plan
    from rmqtool.repair.plans import read_plan
    from rmqtool.store.tree import open_store
    from rmqtool.writing.output import OutputFile

    if wish.apply is not None:
        plan = read_plan(wish.apply)
        plan.store = place_of(options.store).location
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


def _copy(plan: Plan, wish: Wish) -> None:
    from rmqtool.repair.applying import apply_to_copy
    from rmqtool.repair.quarantine import quarantine

    root = place_of(plan.store)
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


def _not_written(options: RepairOptions, plan: Plan, wish: Wish, delivery: Delivery) -> int:
    if plan.edits:
        words = ["rmqtool", "repair", options.store]
        saved = wish.plan or wish.apply
        words += ["--apply", saved] if saved is not None else options.words
        words += ["--in-place", "--yes"] if wish.in_place else ["--in-place"]
        delivery.note("nothing was written; --in-place changes the store, --output DIR a copy")
        delivery.note(f"next: {shlex.join(words)}")
    return NO if plan.edits or plan.left else DONE


def _prove(options: RepairOptions, plan: Plan, wish: Wish, delivery: Delivery) -> int:
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
