"""Make a report with a bar that shows how far it is, and bring the page to where it is wanted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rmqtool import __version__
from rmqtool.render.progress import progress
from rmqtool.render.sink import standard_output
from rmqtool.report.gather import gather
from rmqtool.report.page import page
from rmqtool.store.tree import open_store
from rmqtool.writing.output import OutputFile

if TYPE_CHECKING:
    from rmqtool.check.options import ValidateOptions
    from rmqtool.report.facts import Facts


def report(options: ValidateOptions, output: str | None, *, quiet: bool) -> Facts:
    """Validate a store, draw it, and write the page; give what the page shows.

    Args:
        options: what to validate.
        output: a new file; None is standard output.
        quiet: no progress on stderr.

    Raises:
        OutputExists: the file is there; nothing was read yet.
        WriteFailed: the system refused.
    """
    if output is None:
        facts, drawn = _draw(options, quiet=quiet)
        standard_output().write(drawn)
        return facts
    with OutputFile(output) as file:
        facts, drawn = _draw(options, quiet=quiet)
        file.binary.write(drawn)
    return facts


def _draw(options: ValidateOptions, *, quiet: bool) -> tuple[Facts, bytes]:
    total = open_store(options.store, options.broker_conf).commitlog.size
    with progress("report", total, quiet=quiet) as advance:
        facts = gather(options, advance)
    text = page(facts, round(time.time() * 1000), __version__)
    return facts, text.encode("utf-8", "backslashreplace")
