"""Plan and repair under the broker's lock, so that nothing changes in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rmqtool.repair.applying import apply_in_place
from rmqtool.repair.quarantine import quarantine
from rmqtool.store.broker_conf import places_elsewhere
from rmqtool.store.place import Place
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.undo import resume

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.repair.options import RepairOptions
    from rmqtool.repair.plans import Plan


class Keeping(Protocol):
    """Where the original bytes are to be kept; None for nowhere."""

    @property
    def quarantine(self) -> str | None: ...  # noqa: D102


def planned_in_place(
    options: RepairOptions,
    make: Callable[[], Plan],
    keeping: Keeping,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Plan, str]:
    """Finish what a killed run left, make the plan, and make its edits.

    Args:
        options: what is asked.
        make: gives the plan, once the lock is held.
        keeping: where the original bytes are to be kept.
        say: told of an interrupted run that is finished first.

    Returns:
        The plan, and the name of the undo directory; empty when nothing had to be done.

    Raises:
        StoreLocked: a broker uses the store.
        PlanMismatch: a plan from a file was made for another store.
        WriteFailed: the system refused; the store is as it was.
        EditUnfinished: the same half way; the store is not.
    """
    elsewhere = places_elsewhere(Place.of(options.store), options.broker_conf)
    with StoreLock(options.store, elsewhere) as lock:
        for one in resume(lock):
            say(one.sentence)
        plan = make()
        if keeping.quarantine is not None and plan.edits:
            quarantine(plan, keeping.quarantine)
        return plan, apply_in_place(plan, lock)
