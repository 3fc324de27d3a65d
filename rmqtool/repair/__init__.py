"""Repair a store, so that every undamaged message survives the broker's next start.

0. `replica` tells what another store with the same log lends, where one is given.
1. `survey` looks on while the store is validated: what of the log is lost, what queues should hold.
2. `commitlog`, `queues`, `index`, `checkpoint`, `timer`, `config`, `layout` decide the edits;
   `bridge` makes the records that stand for lost bytes, `queue_place` the units for lost messages.
3. `plans` holds the edits, with what they are for; it can be saved, read and judged by a person.
4. `applying` makes them, in place (journalled, undoable) or in a copy.

From Python, as on the command line:

    from rmqtool import repair

    plan = repair.plan("/data/store")
    for edit in plan.edits:
        print(edit.path, edit.position, edit.length, edit.code, edit.reason, edit.lost)
    repair.apply(plan, in_place=True)      # takes the broker's lock
    repair.undo("/data/store")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from rmqtool.repair.plans import Plan

    Path = str | os.PathLike[str]


class PlanArguments(TypedDict, total=False):
    """What a plan may be told."""

    broker_version: str | None  # release that is to run on the store; by default whoever wrote it
    broker_conf: str | None  # the broker's configuration file
    bridge_missing: bool  # write files of bridges where segments are missing
    clamp_offsets: bool  # move committed offsets that lie outside of their queue to its end
    reset_config: bool  # write configuration files anew of which no copy is sound; put topics back
    fast_start: bool  # of a crashed store that is sound: spare the broker its recovery
    replica: str | None  # root of another store with the same log, which lends what is damaged here
    jobs: int | None  # threads; by default one for each processor


def plan(
    store: Path, *, watch: Callable[[int], None] = lambda _: None, **how: Unpack[PlanArguments]
) -> Plan:
    """Decide what a repair would do; nothing is written.

    Args:
        store: the store root.
        watch: takes the bytes of the log done since it was last called.
        **how: see `PlanArguments`.

    Raises:
        StoreError: the store cannot be used, or not all of it can be read.
    """
    import os

    from rmqtool.repair.options import RepairOptions
    from rmqtool.repair.planning import make_plan

    return make_plan(RepairOptions(os.fspath(store), **how), watch)


def apply(plan: Plan, output: Path | None = None, *, in_place: bool = False) -> str:
    """Make the edits of a plan.

    Args:
        plan: for the store that it names.
        output: a new directory for a repaired copy.
        in_place: change the store itself, under the broker's lock.

    Returns:
        With `in_place` the name of the undo directory; empty when there was nothing to do.

    Raises:
        UsageError: not exactly one of the two was chosen.
        PlanMismatch: the store has changed since.
        StoreLocked: a broker uses it.
        RepairError: it could not be written; the store is as it was, unless it is an
            `EditUnfinished`.
    """
    import os

    from rmqtool.errors import UsageError
    from rmqtool.repair.applying import apply_in_place, apply_to_copy
    from rmqtool.store.address import place_of
    from rmqtool.writing.lock import StoreLock
    from rmqtool.writing.undo import resume

    if in_place == (output is not None):
        raise UsageError(option="--output", reason="choose one of --output DIR and --in-place")
    if output is not None:
        apply_to_copy(plan, place_of(plan.store), os.fspath(output))
        return ""
    with StoreLock(plan.store, plan.elsewhere) as lock:
        resume(lock)
        return apply_in_place(plan, lock)


def undo(store: Path, which: str | None = None, *, broker_conf: str | None = None) -> str:
    """Take the latest edit in place back, or the one of that name.

    Args:
        store: the store root.
        which: name of its undo directory.
        broker_conf: the broker's configuration file, where it places part of the store elsewhere.

    Returns:
        Name of the undo directory that it was kept in.

    Raises:
        RepairError: there is not one, or the store was changed since.
        StoreLocked: a broker uses the store.
    """
    from rmqtool.store.address import place_of
    from rmqtool.store.broker_conf import places_elsewhere
    from rmqtool.writing.lock import StoreLock
    from rmqtool.writing.undo import undo as take_back

    place = place_of(store)
    with StoreLock(place.location, places_elsewhere(place, broker_conf)) as lock:
        return take_back(lock, which).name
