"""Options that `rebuild`, `rebuild-cq` and `rebuild-index` share, each declared once."""

from __future__ import annotations

from typing import Annotated

import typer

OutputDirectoryOption = Annotated[
    str | None,
    typer.Option("--output", metavar="DIR", help="Write the files into a new directory."),
]
InPlaceOption = Annotated[
    bool,
    typer.Option(
        "--in-place",
        help="Replace what the store has. The broker must be down; what is replaced is kept in "
        "rmqtool-undo-TIME, and a killed run is finished by the next one.",
    ),
]
CheckOption = Annotated[
    bool,
    typer.Option(
        "--check", help="Compare with what the store has and write nothing; exit 1 if it differs."
    ),
]
ExtOption = Annotated[
    bool,
    typer.Option(
        "--ext",
        help="Rebuild consumequeue_ext, too, for a broker with enableConsumeQueueExt: bits of the "
        "SQL92 subscriptions in consumerFilter.json. Without it units have plain tags codes, which "
        "are right for every consumer.",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be written.")]
BrokerVersionOption = Annotated[
    str | None,
    typer.Option(
        "--broker-version",
        metavar="X.Y.Z",
        help="Whose rules to follow; by default those of the release that wrote the store.",
    ),
]
TimeZoneOption = Annotated[
    str,
    typer.Option(
        "--time-zone",
        metavar="ZONE",
        help="Time zone of the broker's JVM, for names of index files that are not there.",
    ),
]
