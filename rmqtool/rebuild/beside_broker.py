"""`rebuild --check` beside a running broker: how far it compares, and what it believes.

The broker goes on to write, and deletes files that have expired between the moment they are listed
and that they are read. What differs for such a reason does not differ each time.
"""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, Final

from rmqtool.queues.discovery import Queues
from rmqtool.store.unread import looked_again

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.rebuild.options import RebuildResult
    from rmqtool.store.tree import Store

# Seconds before each further look; what differs in each of them does. A broker may wait for the
# disk between two files that it writes.
_PAUSES: Final = (0.0, 0.1, 0.4, 1.0, 3.0)


def reached(store: Store) -> int | None:
    """Give the physical offset that the queues of a running broker have reached; None without one.

    Brokers dispatch in the order of the log. So queues and index have all that comes before the
    last record that a queue has, and what comes after it may be on its way.

    Raises:
        UnreadablePath: a queue cannot be read.
    """
    if not store.lock_held():
        return None
    with Queues(store) as queues:
        every = (queue for source in queues.sources for queue in source.queues())
        spans = (one.span(store.commitlog.start) for one in every)
        return max((span.last.physical_offset for span in spans if span.last), default=0)


def settled(check: Callable[[], RebuildResult], *, is_live: bool) -> RebuildResult:
    """Compare again where a running broker's files differ, or vanish, and believe what stays.

    Args:
        check: compares once.
        is_live: whether a broker runs on the store; else what is seen once is so.

    Raises:
        UnreadablePath: a file may not be read, or one is gone each time.
    """
    if not is_live:
        return check()
    result = looked_again(check)
    for pause in _PAUSES:
        if not (result.differences or result.lost):
            break
        sleep(pause)
        known = {difference.path for difference in result.differences}
        lost = {one.path for one in result.lost}
        result = looked_again(check)
        # By file alone: where entries expire meanwhile, the same damage has another position.
        result.differences = [
            difference for difference in result.differences if difference.path in known
        ]
        result.lost = [one for one in result.lost if one.path in lost]
    return result
