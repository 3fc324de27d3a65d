"""All keys that a broker.conf may have: which release knows which, with type and default.

The table beside this module is made of RocketMQ's own jars by `python -m tests.truth.keys`. It is
read when a key is looked up, so what needs none of it does not pay.
Source: the setters of BrokerConfig, MessageStoreConfig, NettyServerConfig, NettyClientConfig,
AuthConfig and of the tiered store's configuration, as MixAll#properties2Object takes them.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from rmqtool.broker.release import Version

PATH: Final = __file__.removesuffix(".py") + ".tsv"
COLUMNS: Final = ("key", "model", "taken by", "type", "releases", "default", "earlier defaults")
MARK: Final = "*"  # of a key that rmqtool goes by
OF_THE_MACHINE: Final = "(machine)"  # a default that two machines do not share
DOUBT: Final = "?"  # after a release of which the registry has no jar


class ReleaseSpan(NamedTuple):
    """Releases that know a key, one after the other."""

    first: Version
    last: Version | None  # None where the newest release still knows it

    def __contains__(self, version: object) -> bool:
        """Tell whether a release is among them."""
        if not isinstance(version, tuple):
            return False
        return self.first <= version and (self.last is None or version <= self.last)

    @classmethod
    def parse(cls, text: str) -> ReleaseSpan:
        """Read `5.1.0`, `4.9.0-4.9.8` or `5.1.0-`."""
        first, dash, last = text.replace(DOUBT, "").partition("-")
        begin = Version.known(first)
        return cls(begin, (Version.known(last) if last else None) if dash else begin)


class KnownKey(NamedTuple):
    """A row of the table."""

    name: str  # as setters have it; capitals count
    mark: str  # MARK where it is one of conf.py; else empty
    taken_by: str  # short names of the classes, a comma between them
    type: str  # what Java reads it as
    releases: str  # which know it, as text
    default: str  # what the newest of them has; `(machine)` where machines differ
    earlier: str  # defaults of releases before

    @property
    def spans(self) -> tuple[ReleaseSpan, ...]:
        """The releases that know it."""
        return tuple(map(ReleaseSpan.parse, self.releases.split(" ")))

    @property
    def since(self) -> Version:
        """The first release that knows it."""
        return self.spans[0].first

    def is_known_to(self, version: Version) -> bool:
        """Tell whether a release knows it."""
        return any(version in span for span in self.spans)


@cache
def known_keys() -> dict[str, KnownKey]:
    """Read the table, by key."""
    with open(PATH, encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes 2 ms to load
        rows = [KnownKey(*line.rstrip("\n").split("\t")) for line in file if line[0] != "#"]
    return {row.name: row for row in rows}
