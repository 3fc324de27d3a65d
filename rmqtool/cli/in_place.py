"""`--in-place`: it is said first, and a person agrees, by `--yes` or when asked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, TypeAlias

from rmqtool.cli.declaration import Option
from rmqtool.errors import RmqtoolError, UsageError

if TYPE_CHECKING:
    from rmqtool.cli.delivery import Delivery

InPlace: TypeAlias = Annotated[
    bool,
    Option(
        "--in-place",
        "Change the store itself. The broker must be down; replaced files are "
        "kept in rmqtool-undo-TIME, and a killed run is finished by the next one.",
    ),
]
Yes: TypeAlias = Annotated[
    bool, Option("--yes", "Agree to --in-place: do not ask. A script needs it.")
]


class Declined(RmqtoolError):
    """A person was asked, and did not agree."""

    def __str__(self) -> str:
        return "nothing was written"


def announce(store: str, delivery: Delivery, *, yes: bool) -> None:
    """Say that a store is about to be changed, before anything of it is read.

    Raises:
        UsageError: nobody agreed, and nobody can be asked.
    """
    delivery.note(f"this changes {store} itself; replaced files are kept in rmqtool-undo-TIME")
    streams = (sys.stdin, sys.stderr)
    if not yes and not all(stream is not None and stream.isatty() for stream in streams):
        reason = "changes the store itself; without a terminal to ask on, it needs --yes"
        raise UsageError(option="--in-place", reason=reason)


def ask(what: str) -> None:
    """Ask a person who looks at the terminal.

    Args:
        what: is about to be done, such as "make these 2 edits".

    Raises:
        Declined: the answer is not yes.
    """
    sys.stderr.write(f"rmqtool: {what}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise Declined
