"""Options that say how messages look, for commands that give any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from rmqtool.cli.completion.values import topics
from rmqtool.cli.declaration import Option
from rmqtool.tables.bodies import BodyMode, BodyOptions

TIMES: Final = (
    "14:32, 'yesterday 14:32', '2026-11-21 09:04', '1h ago', ISO 8601 or ms. Without an offset "
    "such as Z or +08:00, it is the time zone of this machine, or of --time-zone."
)
Fillers: TypeAlias = Annotated[
    bool, Option("--fillers", "Show blank records, unused tails and empty slots, too.")
]
TraceTopic: TypeAlias = Annotated[
    tuple[str, ...],
    Option(
        "--trace-topic",
        "A topic that clients write traces to, besides RMQ_SYS_TRACE_TOPIC; may be repeated.",
        "TOPIC",
        completes=topics,
    ),
]
Hex: TypeAlias = Annotated[
    bool, Option("--hex", "Show every byte with the name and the value of its field.")
]


@dataclass(frozen=True, slots=True)
class Bodies:
    """How bodies are shown."""

    body: Annotated[
        BodyMode, Option("--body", "How to show bodies; compressed ones are decompressed.")
    ] = BodyMode.NONE
    raw: Annotated[bool, Option("--raw", "Show bodies as they are stored.")] = False
    body_limit: Annotated[str, Option("--body-limit", "Show no body that is larger.", "SIZE")] = (
        "64MiB"
    )

    def options(self) -> BodyOptions:
        """Give them as the tables want them.

        Raises:
            UsageError: the limit is no size.
        """
        from rmqtool.ranges import size

        return BodyOptions(self.body, self.raw, size("--body-limit", self.body_limit))
