"""What every scenario gets: a running broker and a list of what was sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.broker.broker import SMALL_GEOMETRY, Broker
from tests.broker.jars import LATEST, VERSIONS
from tests.broker.message import Outgoing, Sent

TAGS: Final = ("TagA", "TagB", "订单", "😀", "TagA || TagB", None, "polygenelubricants")
"""The last one's hash code is the smallest integer."""
FIVE: Final = tuple(version for version in VERSIONS if version.startswith("5."))
ALSO_LATEST: Final = (*VERSIONS, LATEST)
FIVE_ALSO_LATEST: Final = (*FIVE, LATEST)


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
        begin: what comes before, in a first life of the broker that ends with a clean stop.
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
    begin: Callable[[Stage], None] | None = None


def order(topic: str, number: int) -> Outgoing:
    """Return one of a varied lot of messages: with and without tags, keys, properties, Unicode."""
    keys = [f"ORDER-{number}"]
    if number % 3 == 0:
        keys.append(f"CUSTOMER-{number % 50}")
    if number % 10 == 0:
        keys += [f"订单-{number}", f"😀-{number}", "naïve-ключ"]
    properties = {"region": f"r{number % 5}", "amount": str(number * 7)} if number % 2 else {}
    if number % 25 == 0:
        properties["注释"] = "多语言 😀 текст"
    body = json.dumps({"order": number, "note": "订单 😀" if number % 6 == 0 else "plain"})
    return Outgoing(
        topic,
        body.encode() if number % 4 else text(f"order {number}", 40 + number % 200),
        tags=TAGS[number % len(TAGS)],
        keys=() if number % 11 == 5 else tuple(keys),
        properties=properties,
        flag=number % 3,
    )


def text(seed: str, length: int) -> bytes:
    """Return readable, repeatable text of that many bytes that compresses well."""
    line = f"{seed}: the quick brown fox jumps over the lazy dog; "
    return (line * (length // len(line.encode()) + 1)).encode()[:length]
