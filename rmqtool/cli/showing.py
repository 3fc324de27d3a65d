"""Options that say how messages look, for commands that give any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from rmqtool.cli.completion.values import topics
from rmqtool.cli.declaration import Option
from rmqtool.errors import UsageError
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


DecoderChoice: TypeAlias = Annotated[
    str | None,
    Option(
        "--decoder",
        "Show bodies by this command of yours, or this entry point of the group "
        "rmqtool.decoders: it gets bodies as JSON lines, and answers JSON lines. "
        "'rmqtool help decoders' has the protocol.",
        "COMMAND",
    ),
]


def decoded_bodies(decoder: str, limit: int) -> BodyOptions:
    """Give the options of bodies that a decoder shows, once it runs.

    Raises:
        UsageError: it cannot be loaded, or started.
    """
    from rmqtool.tables.decoders import decoder_of

    decoder_of(decoder)
    return BodyOptions(BodyMode.TEXT, ceiling=limit, decoder=decoder)


def refuse_on_spark(decoder: str | None, *, is_spark: bool) -> None:
    """Refuse a decoder where executors would have to run it.

    Raises:
        UsageError: they would.
    """
    if decoder is not None and is_spark:
        reason = "runs on this machine only, and cannot be combined with Spark"
        raise UsageError(option="--decoder", reason=reason)


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
    decoder: DecoderChoice = None

    def options(self) -> BodyOptions:
        """Give them as the tables want them.

        Raises:
            UsageError: the limit is no size, or the decoder cannot be had.
        """
        from rmqtool.ranges import size

        limit = size("--body-limit", self.body_limit)
        if self.decoder is None:
            return BodyOptions(self.body, self.raw, limit)
        if self.raw or self.body not in {BodyMode.NONE, BodyMode.TEXT}:
            other = "--raw" if self.raw else f"--body {self.body}"
            raise UsageError(option="--decoder", reason=f"cannot be combined with {other}")
        return decoded_bodies(self.decoder, limit)
