"""`rmqtool browse`: a store on the terminal."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from rmqtool.cli.declaration import Command
from rmqtool.cli.options import BrokerConf, StorePath, UnpackLimit
from rmqtool.errors import EngineMissing, UsageError

PACKAGE: Final = "textual"
INSTALL: Final = "pip install '.[browse]' in a checkout of rmqtool"
# Starts this program again, with the modules that this process has.
PROGRAM: Final = (
    "import sys; sys.path[:] = {!r}; from rmqtool.cli.main import main; sys.exit(main())"
)


@dataclass(frozen=True)
class Browse(Command):
    """Look instead of read: the log as a map, topics, queues, consumer groups, messages, findings
    and all other files, on one terminal. Nothing is written. The broker may run. '?' shows the
    keys; 'q' leaves.

    '/' goes to whatever was typed or pasted: an ID, a key, a time, an offset. Each screen shows the
    command line that gives the same rows. 'e' leaves, and prints the command that extracts the
    marked messages.

    Diagnosis and lists of a whole store are commands of their own in the background. A commitlog of
    up to 1 GiB is diagnosed at once, a larger one when 'd' asks for it.

    Without a terminal, and for screen readers, 'rmqtool dump' shows the same as text.
    """

    store: StorePath
    broker_conf: BrokerConf = None
    unpack_limit: UnpackLimit = None

    def run(self) -> int:
        """Show the store until somebody leaves."""
        from importlib.util import find_spec

        from rmqtool.store.tree import open_store

        open_store(self.store, self.broker_conf)  # what is wrong with it is said before a screen is
        streams = (sys.stdin, sys.stdout)
        if not all(stream is not None and stream.isatty() for stream in streams):
            reason = "needs a terminal; in a pipe, rmqtool dump shows the same rows as text"
            raise UsageError(option="browse", reason=reason)
        if find_spec(PACKAGE) is None:
            raise EngineMissing(needs=PACKAGE, install=INSTALL)
        from rmqtool.browse.app import Browser, browse
        from rmqtool.render.sink import standard_output

        program = (sys.executable, "-P", "-c", PROGRAM.format([path for path in sys.path if path]))
        left = browse(Browser(program, self.store, self.broker_conf))
        standard_output().write_lines(left.lines)
        return left.code
