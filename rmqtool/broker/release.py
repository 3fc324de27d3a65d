"""Releases of RocketMQ: their order, how one is named, and which of them wrote a store.

A version that was asked for is read here and nowhere else, so that all commands take the same ones.
No file of a store names its release. But formats grew, and some files only came with a release, so
each trace is a bound (see `traces`). A store that was upgraded has traces of both releases.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

_TEXT: Final = r"[Vv]?(\d{1,4})[._](\d{1,4})(?:[._](\d{1,4})(?:[-_]\w[\w.-]*)?)?"


class Version(NamedTuple):
    """A release, in the order of its numbers."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def line(self) -> str:
        """The first two numbers, such as `5.3`."""
        return f"{self.major}.{self.minor}"

    @property
    def rules_of(self) -> Version:
        """The release whose rules count: itself, or the newest known one before it."""
        return self if self in RELEASES else max(release for release in RELEASES if release <= self)

    @property
    def doubt(self) -> str:
        """What to say of a release that is not known; empty for others."""
        if self in RELEASES:
            return ""
        return f"{self} is not known here: the rules of {self.rules_of} are applied, unproven"

    @classmethod
    def known(cls, text: str) -> Version:
        """Give the release that the code itself names by its three numbers, such as `5.3.3`."""
        major, minor, patch = map(int, text.split("."))
        return cls(major, minor, patch)

    @classmethod
    def parse(cls, text: str, option: str = "--broker-version") -> Version:
        """Read a release (`5.3.3`, `5.4.0-SNAPSHOT`, `V5_3_3`) or a line (`5.3`).

        A build on the way to a release counts as that release, a line as the one in `LINES`.

        Args:
            text: what was asked for.
            option: by which option.

        Raises:
            UsageError: it is no version, or its rules are not known.
        """
        known = f"known lines: {' '.join(LINES)}"
        match = re.fullmatch(_TEXT, text, re.ASCII)
        if match is None:
            reason = f"{text!r} is not a version such as 5.3.3 or 5.3; {known}"
            raise UsageError(option=option, reason=reason)
        major, minor, patch = match.groups()
        line = f"{int(major)}.{int(minor)}"
        if line not in LINES:
            reason = f"the rules of {text} are not known; {known}"
            if (int(major), int(minor)) > RELEASES[-1][:2]:
                newest = RELEASES[-1]
                reason += f"; {newest} has the newest rules, in startup: --rules-of {newest}"
            raise UsageError(option=option, reason=reason)
        return LINES[line] if patch is None else cls(int(major), int(minor), int(patch))


# Each line is spoken for by one release: the one that tests compare with real brokers, if any.
LINES: Final = {
    version.line: version
    for version in (
        Version(4, 9, 3),
        Version(5, 0, 0),
        Version(5, 1, 4),
        Version(5, 2, 0),
        Version(5, 3, 3),
        Version(5, 4, 0),
        Version(5, 5, 0),
    )
}
COMMONEST: Final = LINES["5.3"]  # where nothing tells
RELEASES: Final = tuple(
    Version(*numbers, patch)
    for numbers, patches in (
        ((4, 9), 9), ((5, 0), 1), ((5, 1), 5), ((5, 2), 1), ((5, 3), 5), ((5, 4), 1), ((5, 5), 2)
    )
    for patch in range(patches)
)  # fmt: skip


class Trace(NamedTuple):
    """One trace of the writer of a store."""

    path: str  # where it is, relative to the store root
    says: str  # what is there, a phrase
    # the first release that does so; None when it bounds from above only
    at_least: Version | None = None
    # the first release that no longer does so; None when it bounds from below only
    below: Version | None = None
    is_doubtful: bool = False  # a few bytes without a checksum: one flipped bit writes it, too


class WrittenBy(NamedTuple):
    """The releases that may have written a store last."""

    traces: tuple[Trace, ...]  # what tells them
    at_least: Version | None  # the newest of all lower bounds; None without one
    # the oldest of all upper bounds; None without one, or when it contradicts the lower
    # bound: then the store was upgraded, and old traces remained
    below: Version | None

    @classmethod
    def of(cls, traces: Iterable[Trace]) -> WrittenBy:
        """Join traces to a range; a doubtful one counts where no other contradicts it."""
        traces = tuple(traces)
        below = min((trace.below for trace in traces if trace.below), default=None)
        at_least = _newest(traces)
        if below and at_least and below <= at_least:
            firm = _newest(trace for trace in traces if not trace.is_doubtful)
            if firm and below <= firm:
                below = None
            else:
                at_least = firm
        return cls(traces, at_least, below)

    @property
    def version(self) -> Version:
        """The one release whose rules count, where nobody named another.

        The commonest release if nothing excludes newer ones; else that of the newest line.
        """
        spoken = [release for release in LINES.values() if self._allows(release)]
        if self.below is None and COMMONEST in spoken:
            return COMMONEST
        others = (release for release in RELEASES if self._allows(release))
        return max(spoken or others, default=COMMONEST)

    @property
    def is_settled(self) -> bool:
        """Whether all releases that may have written it are of one major line.

        Otherwise the rules of one release are assumed: files of 4.9 and 5.x differ in much.
        """
        return len({release.major for release in RELEASES if self._allows(release)}) == 1

    def _allows(self, version: Version) -> bool:
        if self.at_least and version < self.at_least:
            return False
        return self.below is None or version < self.below

    def __str__(self) -> str:
        parts = [
            f"{self.at_least} or newer" if self.at_least else "",
            f"before {self.below}" if self.below else "",
        ]
        return ", ".join(filter(None, parts)) or "unknown"


def _newest(traces: Iterable[Trace]) -> Version | None:
    """Give the newest of the lower bounds; None without one."""
    return max((trace.at_least for trace in traces if trace.at_least), default=None)
