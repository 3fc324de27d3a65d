"""The commands, a file each, and the table of contents.

To add a command `x-y`:

1. `CONTENTS` below names it, under what a person wants to do, with a summary of one line.
2. `commands/x_y.py` has a frozen dataclass `XY`, a `Command`. Its docstring is the help below the
   summary. Each field is an argument or an option (see `declaration.py`; those that several
   commands share are in `options.py`, `delivery.py`, `engines.py` and `choosing.py`). `run` calls
   the library once, hands rows to `Delivery.emit`, remarks to `Delivery.note`, and returns the
   exit code. It formats nothing and prints nothing. What is heavy is imported in `run`: who asks
   for help, or completes a word, loads all that stands above.
3. `examples/x-y.txt` has what the help and the manual show; a test runs it.

The fast reader of plain lines, Typer's command, `--help`, the manual page and completion follow:
nothing else is to be written. Tests then ask for a transcript.
"""

from __future__ import annotations

from importlib import import_module
from inspect import cleandoc
from typing import TYPE_CHECKING, Final

from rmqtool.cli.declaration import Option, flag

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.cli.declaration import Command

PROGRAM: Final = "rmqtool"
DESCRIPTION: Final = """
Inspect, prove, repair and rebuild the store of an Apache RocketMQ broker.

STORE is a store root, a directory of it or a single file, or an archive of one. Its broker may run:
reading disturbs nothing. Nothing is written unless a command says so. 'rmqtool STORE' alone is
'rmqtool doctor STORE'.
'rmqtool COMMAND --help' shows the options, 'rmqtool help COMMAND' a page with examples.
"""
HELP: Final = flag("help", Option("-h, --help", "Show this message and exit."))
VERSION: Final = flag(
    "version",
    Option(
        "--version",
        "Show the versions of rmqtool and of every library that it uses, and exit.",
    ),
)
CONTENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "Inspect": {
        "doctor": "Diagnose a store: what is wrong, what it costs, which command to run next.",
        "browse": "Look around in a store: map, topics, messages, damage.",
        "info": "Show a store at a glance: its content, its writer, how it was left.",
        "dump": "Print any file of a store as it is: rows, or annotated bytes.",
        "query": "Find a message by ID, key, offset or time, verified and explained.",
        "startup": "Predict what a broker would do at startup.",
    },
    "Check": {
        "validate": "Check every byte of a store and list each defect.",
        "diff": "Compare two stores: where they differ, what only one has.",
        "hash": "Hash what a log holds: replicas have the same hash.",
        "report": "Write a one-page HTML report of a store.",
    },
    "Repair": {
        "repair": "Repair a store so that every undamaged message survives a start.",
        "rebuild": "Rebuild consume queues and key index from the commitlog.",
        "rebuild-cq": "Rebuild consume queues from the commitlog.",
        "rebuild-index": "Rebuild the key index from the commitlog.",
    },
    "Messages and data": {
        "extract": "Take messages out, each as it was sent, to send or read them elsewhere.",
        "carve": "Find records in images of disks, cut segments, swap and core files.",
        "rebuild-log": "Write a new store of records out of stores and extracts.",
        "send": "Send messages of an extract into a running cluster, each of them once.",
        "export": "Write a table of a store as a data set: Parquet, CSV or JSON lines.",
        "sql": "Answer a question about a store in SQL.",
    },
    "Set up": {
        "warm-up": "Compile native code for this machine now, so that no command waits for it.",
    },
    "Help": {
        "help": "Show a page of the manual: a command, the formats, a finding.",
        "completion": "Print the script that completes command lines in a shell.",
    },
}
SUMMARIES: Final = {name: text for some in CONTENTS.values() for name, text in some.items()}
NAMES: Final = tuple(SUMMARIES)
# What a store without a command gets: `rmqtool STORE`.
DEFAULT: Final = "doctor"
# What people type who know other tools.
OTHER_WORDS: Final = {
    **dict.fromkeys(("cat", "decode", "head", "less", "print", "read", "tail"), "dump"),
    **dict.fromkeys(("diagnose", "diagnosis", "health"), "doctor"),
    **dict.fromkeys(("explore", "look", "top", "tui", "ui"), "browse"),
    **dict.fromkeys(("inspect", "list", "ls", "show", "stat", "status"), "info"),
    **dict.fromkeys(("find", "get", "grep", "lookup", "search", "select"), "query"),
    **dict.fromkeys(("check", "chk", "fsck", "test", "verify"), "validate"),
    **dict.fromkeys(("fix", "recover", "restore"), "repair"),
    **dict.fromkeys(("foremost", "photorec", "scalpel", "undelete", "unformat"), "carve"),
    **dict.fromkeys(("boot", "predict", "simulate", "start"), "startup"),
    **dict.fromkeys(("cmp", "compare"), "diff"),
    **dict.fromkeys(("compact", "import", "migrate", "pack"), "rebuild-log"),
    **dict.fromkeys(("produce", "publish", "replay", "resend"), "send"),
    **dict.fromkeys(("man", "manual", "usage"), "help"),
}
# What they type who know this one, or mqadmin, and the command line that does it.
OTHER_LINES: Final = {
    "clonegroupoffset": "repair STORE --set-offset NEW=like:GROUP",
    "consumerprogress": "query STORE --group GROUP",
    "lost": "doctor STORE",
    "querymsgbyid": "query STORE ID",
    "querymsgbykey": "query STORE --key KEY --topic TOPIC",
    "querymsgbyoffset": "query STORE --topic TOPIC --queue ID --queue-offset N",
    "querymsgbyuniquekey": "query STORE ID",
    "resetoffsetbytime": "repair STORE --set-offset GROUP@TOPIC=TIME",
    "skipaccumulatedmessage": "repair STORE --set-offset GROUP@TOPIC=last",
    "topiclist": "info STORE --section topics",
    "topics": "info STORE --section topics",
    "topicstatus": "info STORE --section queues",
    "undo": "repair STORE --undo",
    "version": "--version",
}
OTHER_OPTIONS: Final = {
    "--csv": "--format csv",
    "--json": "--format json",
    "--jsonl": "--format jsonl",
    "-o": "--output",
    "-q": "--quiet",
    "-v": "rmqtool --version",
}


def load(name: str) -> type[Command]:
    """Give one command out of `NAMES`; no other is imported."""
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    command: type[Command] = getattr(module, name.title().replace("-", ""))
    return command


def paragraphs(text: str) -> list[str]:
    """Give the paragraphs of a docstring, each on one line."""
    return [
        " ".join(paragraph.split())
        for paragraph in cleandoc(text).split("\n\n")
        if paragraph.strip()
    ]


def described(name: str) -> list[str]:
    """Give the paragraphs of a command's help: the summary first."""
    return [SUMMARIES[name], *paragraphs(load(name).__doc__ or "")]
