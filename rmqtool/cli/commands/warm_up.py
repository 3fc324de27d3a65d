"""`rmqtool warm-up`: compile what commands would compile when they first need it."""

from __future__ import annotations

from dataclasses import dataclass

from rmqtool.cli.declaration import Command
from rmqtool.cli.delivery import Delivery, Quiet
from rmqtool.cli.exits import DONE
from rmqtool.errors import WriteFailed


@dataclass(frozen=True)
class WarmUp(Command):
    """What reads whole files is compiled for the processor at hand.

    A command compiles what it needs when it first needs it, and keeps it. This command compiles all
    of it at once: run it after every installation and upgrade.

    Run by root, it keeps the code beside the installed modules, if only root may write there. Every
    user of the machine finds it there. Run by any other user, it keeps the code in the cache of
    that user. Code is run only if root or the user owns its directory, no other user can write
    there, and its SHA-256 is right. Without such a directory every command compiles what it needs
    again, and says so.
    """

    delivery: Quiet = Delivery()

    def run(self) -> int:
        """Compile and keep it."""
        from rmqtool.machine.cache import NotKept
        from rmqtool.machine.warm_up import warm_up
        from rmqtool.render.progress import counted

        try:
            with counted("compiling", quiet=self.delivery.quiet) as watch:
                ready = warm_up(watch)
        except NotKept as error:
            raise WriteFailed(path="the cache of native code", reason=str(error)) from error
        self.delivery.note(
            f"native code is ready: {ready.kernels} functions, {ready.compiled} of them compiled "
            f"now in {ready.seconds:.2f} s; kept in {ready.place}"
        )
        return DONE
