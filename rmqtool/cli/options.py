"""Arguments and options that several commands have, each declared once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from rmqtool.cli.completion.values import broker_versions
from rmqtool.cli.declaration import Argument, Option
from rmqtool.errors import UsageError
from rmqtool.languages import VARIABLE, Language
from rmqtool.store.containers import SHOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

StorePath: TypeAlias = Annotated[
    str,
    Argument(
        "STORE",
        f"A store root, a directory of it, a file, or an archive: {SHOWN}.",
        opens=True,
    ),
]
StorePaths: TypeAlias = Annotated[
    tuple[str, ...],
    Argument("PATH", "Store roots, directories of a store, files, or archives.", opens=True),
]
StoresFile: TypeAlias = Annotated[
    str | None,
    Option(
        "--stores-file",
        "Several stores: a path or pattern a line; after a tab, the name of the broker.",
        "FILE",
    ),
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
NextRelease: TypeAlias = Annotated[
    str | None,
    Option(
        "--broker-version",
        "Release that is to run on the store; by default the one that wrote it.",
        "X.Y.Z",
        completes=broker_versions,
    ),
]
Held: TypeAlias = Annotated[
    bool,
    Option("--held", "Half messages and timer copies, too, whether or not they were decided."),
]
UnpackLimit: TypeAlias = Annotated[
    str | None,
    Option(
        "--unpack-limit",
        "Bytes that an archive may take when it is unpacked, such as 20GiB; by default 16 GiB "
        "and 64 times its size, and no more than the disk of the temporary directory can spare.",
        "SIZE",
        env="RMQTOOL_UNPACK_LIMIT",
    ),
]
AsUser: TypeAlias = Annotated[
    str | None,
    Option(
        "--as-user",
        "The user that runs the broker, by name or number; by default the owner of most files "
        "of the store. What this user cannot read and write is reported.",
        "NAME",
    ),
]
Lang: TypeAlias = Annotated[
    Language | None,
    Option(
        "--lang",
        "Language of sentences; by default the locale's. Codes, commands and JSON stay.",
        env=VARIABLE,
    ),
]
At: TypeAlias = Annotated[
    str | None,
    Option(
        "--at",
        "When the broker would be started; now by default. By then files of the log may be old "
        "enough to be deleted, and timers due too long ago to be delivered.",
        "TIME",
        env="RMQTOOL_AT",
    ),
]
Jobs: TypeAlias = Annotated[
    int | None,
    Option("--jobs", "Threads; one for each processor by default.", "N", least=1),
]

MaxRate: TypeAlias = Annotated[
    str | None,
    Option(
        "--max-rate",
        "Read files at this rate at most, in bytes a second, such as 200MB, and keep none of it in "
        "the page cache: beside a busy broker. Databases of RocksDB are read as they are.",
        "SIZE",
    ),
]


SECTION: Final = Option(
    "--section", "Only these sections, comma separated. Default: all of them.", "NAMES"
)


def sections(asked: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """Give the sections that were asked for with `--section`, each once; all where none was.

    Raises:
        UsageError: one of them is not known.
    """
    from rmqtool.plural import meant

    asked = [name for listed in asked for name in listed.split(",")]
    for name in asked:
        if name not in known:
            reason = f"no section {name!r}; {meant(name, known)}"
            raise UsageError(option="--section", reason=reason)
    return tuple(dict.fromkeys(asked or known))
