"""`rmqtool repair`: bridge damage, put derived files right, take it back."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final

from rmqtool.cli.declaration import Command, Option, options_of
from rmqtool.cli.delivery import Delivery, Shown
from rmqtool.cli.exits import DONE, NO
from rmqtool.cli.in_place import InPlace, Yes, announce, ask
from rmqtool.cli.options import BrokerConf, Jobs, NextRelease, StorePath, UnpackLimit
from rmqtool.errors import UsageError
from rmqtool.plural import counted, meant
from rmqtool.render.look import Format
from rmqtool.store.entry import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.repair.options import RepairOptions
    from rmqtool.repair.plans import Plan
    from rmqtool.rows import Rows

LOST_SHOWN: Final = 20  # on a terminal; other formats have all
LEFT_OUT_SHOWN: Final = 5


@dataclass(frozen=True)
class Repair(Command):
    """First comes a plan: each edit with its place, its reason and its loss. Nothing is
    written without --in-place or --output. A damaged record is bridged: a record of the same length
    takes its place, which brokers skip and never deliver; the unit of its queue repeats the
    neighbour's, so that later messages keep their queue offset: the neighbour is delivered twice,
    no other message is lost. No message is invented, and no checksum is made for bad bytes. With
    --from, a record is bridged only where the replica has not got it either. The plan names the
    source of each copied byte range. Nothing is taken where the records beside it differ. Queues in
    RocksDB are rebuilt from the repaired log, in a step of its own: after it, --undo takes them
    back first, and the other edits when it is run again.

    Afterwards the store is validated, and the next start predicted. The exit code is 1 when
    something is, or would be, left that is worse than a note; for a plan, when there is anything
    to do.
    """

    store: StorePath
    dry_run: Annotated[bool, Option("--dry-run", "Print the plan and write nothing (default).")] = (
        False
    )
    in_place: InPlace = False
    output: Annotated[
        str | None, Option("--output", "Write a repaired copy: a new directory.", "DIR")
    ] = None
    yes: Yes = False
    plan: Annotated[str | None, Option("--plan", "Save the plan to a new file.", "FILE")] = None
    apply: Annotated[
        str | None,
        Option(
            "--apply",
            "Make just the edits of a saved plan; refused if the store has changed since.",
            "FILE",
        ),
    ] = None
    undo: Annotated[
        bool,
        Option(
            "--undo",
            "Take the latest edit in place back, times included; with the --broker-conf that the "
            "edit had.",
        ),
    ] = False
    quarantine: Annotated[
        str | None,
        Option(
            "--quarantine",
            "Keep the replaced bytes in a new directory, as evidence.",
            "DIR",
        ),
    ] = None
    replica: Annotated[
        str | None,
        Option(
            "--from",
            "Take what is damaged or missing here, and sound there, from a replica: another store "
            "with the same log, or an archive of one. It is only read.",
            "STORE",
            opens=True,
        ),
    ] = None
    bridge_missing: Annotated[
        bool,
        Option("--bridge-missing", "Write files of bridges where whole segments are missing."),
    ] = False
    clamp_offsets: Annotated[
        bool,
        Option(
            "--clamp-offsets",
            "Move committed consumer and delay offsets that lie outside of their queue.",
        ),
    ] = False
    set_offset: Annotated[
        tuple[str, ...],
        Option(
            "--set-offset",
            "Set the committed offsets of a group: GROUP=last, GROUP@TOPIC=first, "
            "GROUP@TOPIC:QUEUE=120, GROUP@TOPIC='2026-11-21 09:04', NEW=like:GROUP, GROUP=none. "
            "May be repeated. The broker must be down.",
            "CHANGE",
        ),
    ] = ()
    reset_config: Annotated[
        bool,
        Option(
            "--reset-config",
            "Write configuration files that are missing, or have no sound copy, as far as the log "
            "proves them. Put the topics and queues that the log has into topics.json. Implies "
            "--clamp-offsets.",
        ),
    ] = False
    fast_start: Annotated[
        bool,
        Option(
            "--fast-start",
            "Of a store that crashed and is sound: write the proven checkpoint and take abort out, "
            "so that a broker reads the end of the log only. 'startup' says how much that is.",
        ),
    ] = False
    broker_version: NextRelease = None
    broker_conf: BrokerConf = None
    unpack_limit: UnpackLimit = None
    jobs: Jobs = None
    delivery: Shown = Delivery()

    def describe(self) -> int:
        """Write what the rows of a plan are."""
        from rmqtool.repair.result import EDITS, LEFT
        from rmqtool.tables.lost_messages import LOST_MESSAGES

        return self.delivery.describe([EDITS, LEFT, LOST_MESSAGES])

    def run(self) -> int:
        """Plan, repair or take back, as asked."""
        from rmqtool import memory

        memory.give_back_arrays()
        from rmqtool.repair.options import RepairOptions

        return self._undo() if self.undo else self._repair(options_of(RepairOptions, self))

    def _undo(self) -> int:
        from rmqtool import repair

        others = (self.plan, self.apply, self.quarantine, self.output, self.replica)
        if self.dry_run or self.in_place or any(other is not None for other in others):
            raise UsageError(option="--undo", reason="cannot be combined with other options")
        repair.undo(self.store, broker_conf=self.broker_conf)
        self.delivery.note("the latest edit is taken back; the store is as it was before")
        self.delivery.note(f"next: rmqtool validate {shlex.quote(self.store)}")
        return DONE

    def _repair(self, options: RepairOptions) -> int:
        self._refuse()
        name = ""
        if self.in_place:
            from rmqtool.repair.in_place import planned_in_place

            announce(self.store, self.delivery, yes=self.yes)
            plan, name = planned_in_place(
                options, lambda: self._agreed(options), self, self.delivery.note
            )
        else:
            plan = self._plan(options)
            if self.output is not None:
                self._copy(plan, self.output)
        if self.yes or not self.in_place:  # else it was shown before the question
            self._show(plan)
        if not self.in_place and self.output is None:
            return self._not_written(options, plan)
        if name:
            words = ["--broker-conf", self.broker_conf] if self.broker_conf is not None else []
            undo = shlex.join(["rmqtool", "repair", "--undo", self.store, *words])
            self.delivery.note(f"done; {undo} takes it back")
        elif self.output is not None:
            self.delivery.note(f"written to {self.output}")
        if not plan.edits and self.output is None:
            return NO if plan.left else DONE
        return self._prove(options, plan)

    def _agreed(self, options: RepairOptions) -> Plan:
        """Make the plan; a person who has not agreed yet sees it, and is asked.

        Raises:
            Declined: nothing is to be written.
        """
        plan = self._plan(options)
        if not self.yes:
            self._show(plan)
            if plan.edits:
                ask(f"make {counted(len(plan.edits), 'edit')} in {self.store}")
        return plan

    def _show(self, plan: Plan) -> None:
        """Show the edits and what is left, and sum them up."""
        from rmqtool.repair.result import sentences

        replace(self.delivery, columns=None).emit_all(self._sections(plan))
        for sentence in sentences(plan):
            self.delivery.note(sentence)

    def _refuse(self) -> None:
        """Refuse what cannot be meant, shown or written, before any file is opened."""
        from rmqtool.repair.result import EDITS, LEFT
        from rmqtool.store.place import is_remote

        if sum((self.dry_run, self.in_place, self.output is not None)) > 1:
            reason = "choose one of --dry-run, --in-place and --output DIR"
            raise UsageError(option="--in-place", reason=reason)
        if self.apply is not None and self.plan is not None:
            raise UsageError(option="--plan", reason="the plan is in a file already")
        if self.delivery.format is Format.CSV:
            reason = "csv has rows of one kind, and these are edits and findings; choose jsonl"
            raise UsageError(option="--format", reason=reason)
        known = dict.fromkeys((*EDITS.names, *LEFT.names))
        for name in self.delivery.wanted_columns or ():
            if name not in known:
                reason = f"no column {name}; {meant(name, known)}"
                raise UsageError(option="--columns", reason=reason)
        targets = [name for name in (self.output, self.plan, self.quarantine) if name is not None]
        if targets:
            from rmqtool.writing.output import refuse_targets

            stores = [self.store, *([self.replica] if self.replica is not None else [])]
            refuse_targets(stores, *targets)
        if is_remote(self.store) and (self.in_place or self.output is not None):
            reason = (
                "a store on a remote file system is planned only: copy it here, and repair that"
            )
            raise UsageError(option="--in-place" if self.in_place else "--output", reason=reason)

    def _sections(self, plan: Plan) -> Iterator[Rows]:
        """Yield edits and what is left, each with those of the columns that it has."""
        from rmqtool.repair.result import rows_of

        is_table = self.delivery.wanted_format is Format.TABLE
        most_lost = LOST_SHOWN if is_table else None
        if self.delivery.wanted_columns is not None:  # these are of edits and of what is left
            most_lost = 0
        for rows in rows_of(plan, most_lost):
            own = [name for name in self.delivery.wanted_columns or () if name in rows.columns]
            yield replace(rows, columns=own, shown=own) if own else rows

    def _plan(self, options: RepairOptions) -> Plan:
        """Make the plan and save it, or read it."""
        from rmqtool.render.progress import progress
        from rmqtool.repair.planning import make_plan
        from rmqtool.repair.plans import read_plan
        from rmqtool.store.address import place_of
        from rmqtool.store.broker_conf import places_elsewhere
        from rmqtool.store.tree import open_store

        if self.apply is not None:
            lender = None if self.replica is None else place_of(self.replica)
            plan = read_plan(self.apply, lender)
            place = place_of(self.store)
            plan.store = place.location
            plan.elsewhere = places_elsewhere(place, self.broker_conf)
            plan.broker_conf = self.broker_conf
            return plan
        opened = open_store(self.store, self.broker_conf)
        if not self.in_place and opened.moment.is_live:
            note = "a broker runs on this store: the plan covers what it has written so far"
            self.delivery.note(note)
        with progress("plan", opened.commitlog.size, quiet=self.delivery.quiet) as advance:
            is_kept = self.in_place or self.output is not None or self.plan is not None
            plan = make_plan(options, advance, is_kept=is_kept)
        if self.plan is not None:
            from rmqtool.writing.output import OutputFile

            with OutputFile(self.plan) as file:
                file.text.write(plan.text())
        return plan

    def _copy(self, plan: Plan, output: str) -> None:
        from rmqtool.repair.applying import apply_to_copy
        from rmqtool.repair.in_place import quarantine
        from rmqtool.store.address import place_of

        root = place_of(plan.store)
        if self.quarantine is not None:
            quarantine(plan, self.quarantine)
        left_out = apply_to_copy(plan, root, output)
        if left_out:
            names = ", ".join(map(printable, left_out[:LEFT_OUT_SHOWN]))
            more = "" if len(left_out) <= LEFT_OUT_SHOWN else ", …"
            self.delivery.note(f"not copied, because they are not regular files: {names}{more}")

    def _not_written(self, options: RepairOptions, plan: Plan) -> int:
        from rmqtool.store.address import is_inside

        if plan.edits:
            words = ["rmqtool", "repair", self.store]
            saved = self.plan or self.apply
            lender = ["--from", self.replica] if self.replica is not None else []
            words += ["--apply", saved, *lender] if saved is not None else options.words
            if is_inside(self.store):
                command = shlex.join([*words, "--output", "DIR"])
                self.delivery.note("nothing was written")
            else:
                command = shlex.join([*words, "--in-place", "--yes"])
                self.delivery.note("nothing was written; --output DIR writes a repaired copy")
            self.delivery.note(f"next: {command}")
        return NO if plan.edits or plan.left else DONE

    def _prove(self, options: RepairOptions, plan: Plan) -> int:
        """Validate what was written, and say what a broker would do with it."""
        from rmqtool.repair.result import prove

        store = self.output or self.store
        proof = prove(store, options, plan.broker_version)
        for sentence in proof.sentences(store, options):
            self.delivery.note(sentence)
        return NO if proof.findings or proof.loses else DONE
