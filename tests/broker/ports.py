"""Free ports of the loopback address."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Final

LOOPBACK: Final = "127.0.0.1"


def free_ports() -> list[int]:
    """Return four adjacent free ports.

    A broker takes three that belong together: the one configured (here the third), that minus
    two for the fast lane, and in 4.9.x always plus one for replication. A DLedger node takes the
    one that is left.
    """
    while True:
        with ExitStack() as held:
            first = held.enter_context(_bound(0))
            base = int(first.getsockname()[1])
            try:
                for port in range(base + 1, base + 4):
                    held.enter_context(_bound(port))
            except (OSError, OverflowError):
                continue
            return list(range(base, base + 4))


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    try:
        bound.bind((LOOPBACK, port))
    except (OSError, OverflowError):
        bound.close()
        raise
    return bound
