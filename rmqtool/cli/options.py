"""Arguments and options that several commands have, each declared once."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from rmqtool.cli.declaration import Argument, Option

StorePath: TypeAlias = Annotated[
    str, Argument("STORE", "A store root, a directory of it, or a file.")
]
StorePaths: TypeAlias = Annotated[
    tuple[str, ...], Argument("PATH", "Store roots, directories of a store, or files.")
]
BrokerConf: TypeAlias = Annotated[
    str | None,
    Option(
        "--broker-conf",
        "The broker's configuration, for paths and file lengths that are not the usual ones.",
        "FILE",
        env="RMQTOOL_BROKER_CONF",
    ),
]
AsUser: TypeAlias = Annotated[
    str | None,
    Option(
        "--as-user",
        "The user that runs the broker, by name or number; by default whoever owns most of the "
        "store. What this user cannot read and write is reported.",
        "NAME",
    ),
]
Jobs: TypeAlias = Annotated[
    int | None,
    Option("--jobs", "Threads; one for each processor by default.", "N", least=1),
]
