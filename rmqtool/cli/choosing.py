"""Options that choose rows and say how bodies look, for commands that show or write messages."""

from __future__ import annotations

from typing import Annotated, Final, TypedDict, Unpack

import typer

from rmqtool.errors import UsageError
from rmqtool.ranges import number_range, time_of
from rmqtool.tables.bodies import BodyMode
from rmqtool.tables.selection import Selection

BODY_LIMIT: Final = "64MiB"

TopicsOption = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="Only this topic; may be repeated."),
]
QueueOption = Annotated[
    int | None, typer.Option("--queue", metavar="ID", help="Only this queue number.")
]
TagOption = Annotated[
    str | None, typer.Option("--tag", metavar="TAG", help="Only messages with this tag.")
]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="Only messages with this key or unique key."),
]
WherePropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where-property",
        metavar="NAME=VALUE",
        help="Only messages with this property; may be repeated, all must match.",
    ),
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="TIME", help="Stored at or after: ISO 8601, UTC by default, or ms."
    ),
]
ToOption = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="Stored before this time.")
]
OffsetsOption = Annotated[
    str | None,
    typer.Option(
        "--offsets",
        metavar="A:B",
        help="Physical offsets from A up to but not B, such as 0x1000:64KiB; A or B may be "
        "left out.",
    ),
]
QueueOffsetsOption = Annotated[
    str | None,
    typer.Option("--queue-offsets", metavar="A:B", help="Queue offsets from A up to but not B."),
]
FillersOption = Annotated[
    bool,
    typer.Option("--fillers", help="Show blank records, unused tails and empty slots, too."),
]
BodyOption = Annotated[
    BodyMode,
    typer.Option("--body", help="How to show bodies; compressed ones are decompressed."),
]
RawOption = Annotated[bool, typer.Option("--raw", help="Show bodies as they are stored.")]
BodyLimitOption = Annotated[
    str, typer.Option("--body-limit", metavar="SIZE", help="Show no body that is larger.")
]
HexOption = Annotated[
    bool,
    typer.Option("--hex", help="Show every byte with the name and the value of its field."),
]


class Typed(TypedDict):
    """The options above as they were typed, by the names of the parameters."""

    topic: list[str] | None
    queue: int | None
    tag: str | None
    key: str | None
    where_property: list[str] | None
    from_: str | None
    to: str | None
    offsets: str | None
    queue_offsets: str | None


def selection(**typed: Unpack[Typed]) -> Selection:
    """Say which rows are wanted.

    Raises:
        UsageError: an option cannot be meant.
    """
    return Selection(
        topics=tuple(typed["topic"] or ()),
        queue_id=typed["queue"],
        tag=typed["tag"],
        key=typed["key"],
        properties=tuple(_property(text) for text in typed["where_property"] or ()),
        store_time=(time_of("--from", typed["from_"]), time_of("--to", typed["to"])),
        offsets=number_range("--offsets", typed["offsets"]),
        queue_offsets=number_range("--queue-offsets", typed["queue_offsets"]),
    )


def _property(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise UsageError(option="--where-property", reason=f"{text!r} is not NAME=VALUE")
    return name, value
