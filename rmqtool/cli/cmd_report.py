"""`rmqtool report`: one HTML page about a store, to attach to a ticket."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rmqtool.cli.delivery import Delivery
from rmqtool.cli.options import BrokerConfOption, JobsOption, QuietOption, StoreArgument
from rmqtool.errors import UsageError

OutputOption = Annotated[
    str | None,
    typer.Option("--output", metavar="FILE", help="The page to write; standard output by default."),
]
LevelOption = Annotated[
    str,
    typer.Option(
        "--level",
        metavar="full|deep",
        help="How deep to validate; see 'rmqtool help validate'.",
    ),
]


def report(
    store: StoreArgument,
    output: OutputOption = None,
    level: LevelOption = "full",
    broker_conf: BrokerConfOption = None,
    jobs: JobsOption = None,
    quiet: QuietOption = False,
) -> int:
    """Draw a store on one HTML page that can be attached to a ticket.

    The store is validated, and the page shows what was found: the findings with what helps, a map
    of each commitlog file to scale, traffic over time of each topic, which queues cover the log,
    lag of consumer groups, and dead letters. The file needs no network, no script and no other
    file, and stays below 5 MB however large the store is. It holds names of topics and groups, but
    no keys and no bodies. Nothing is written to the store.

    The exit code is that of 'rmqtool validate': 0 when no damage was found, 1 when some was, and 3
    when something could not be read.
    """
    from rmqtool.check.options import Level, ValidateOptions
    from rmqtool.check.report import sentences
    from rmqtool.cli import reporting
    from rmqtool.cli.targets import refuse_targets

    delivery = Delivery(output=output, quiet=quiet)
    if output is None and sys.stdout is not None and sys.stdout.isatty():
        reason = "is needed where standard output is a terminal"
        raise UsageError(option="--output", reason=reason, step="--output report.html")
    if level not in {Level.FULL, Level.DEEP}:
        raise UsageError(option="--level", reason=f"{level!r} is none of: full deep")
    refuse_targets([store], output)
    options = ValidateOptions(store=store, level=Level(level), broker_conf=broker_conf, jobs=jobs)
    facts = reporting.report(options, output, quiet=quiet)
    for sentence in sentences(facts.summary):
        delivery.note(sentence)
    if output is not None:
        delivery.note(f"wrote {output}: open it in a browser, or attach it")
    return facts.exit_code
