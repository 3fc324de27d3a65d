"""What every scenario gets: a running broker and a list of what was sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.broker.broker import SMALL_GEOMETRY, Broker
from tests.broker.jars import VERSIONS
from tests.broker.message import Sent

FIVE: Final = tuple(version for version in VERSIONS if version.startswith("5."))


@dataclass(slots=True)
class Stage:
    """A running broker, and what was sent to it so far."""

    broker: Broker
    sent: list[Sent] = field(default_factory=list)

    def record(self, sent: Sent | Iterable[Sent]) -> None:
        """Keep what was sent for `sent.jsonl`."""
        self.sent.extend([sent] if isinstance(sent, Sent) else sent)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of store.

    Attributes:
        name: last part of the fixture's name.
        summary: what the store is there for, in one sentence.
        play: sends and consumes.
        settings: of `broker.conf`, geometry included.
        versions: the broker versions that have the feature.
        crash: whether the broker is killed, not stopped.
        ipv6: whether IPv6 addresses are used.
    """

    name: str
    summary: str
    play: Callable[[Stage], None]
    settings: Mapping[str, object] = field(default_factory=lambda: SMALL_GEOMETRY)
    versions: tuple[str, ...] = VERSIONS
    crash: bool = False
    ipv6: bool = False


def text(seed: str, length: int) -> bytes:
    """Return readable, repeatable text of that many bytes that compresses well."""
    line = f"{seed}: the quick brown fox jumps over the lazy dog; "
    return (line * (length // len(line.encode()) + 1)).encode()[:length]
