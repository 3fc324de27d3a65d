"""Free ports of the loopback address."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, suppress
from itertools import count
from typing import Final

LOOPBACK: Final = "127.0.0.1"
ANY: Final = "0.0.0.0"  # noqa: S104 - servers take their ports of all addresses
_AT_ONCE: Final = 4
# Below those that systems give to whoever connects: between the look and the start of a broker,
# which takes seconds, such a one would be taken.
_FIRST: Final = 10_000
_BLOCKS: Final = 5_500
_turns: Final = count(101 * os.getpid())  # processes that run at once begin far from each other


def free_ports() -> list[int]:
    """Return four adjacent free ports.

    A broker takes three that belong together: the one configured (here the third), that minus
    two for the fast lane, and in 4.9.x always plus one for replication. A DLedger node takes the
    one that is left.
    """
    while True:
        base = _FIRST + _AT_ONCE * (next(_turns) % _BLOCKS)
        ports = list(range(base, base + _AT_ONCE))
        with suppress(OSError), ExitStack() as held:
            for port in ports:
                held.enter_context(_bound(port))
            return ports


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    try:
        bound.bind((ANY, port))
    except OSError:
        bound.close()
        raise
    return bound
