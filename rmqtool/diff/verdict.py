"""The answer in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.diff.log_difference import AFTER, BEFORE, SHARED
from rmqtool.diff.side import Part
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.diff.difference import StoreDifference
    from rmqtool.diff.log_difference import LogDifference

NAMES = ("A", "B")


def verdict(found: StoreDifference) -> str:
    """Say in one sentence how B is to A."""
    parts = [*(_log(found) if Part.LOG in found.parts else ()), *_state(found)]
    if not found.is_complete:
        parts.append("some input could not be read")
    if found.is_same is not False:
        what = "no difference was seen"
        if found.is_same:
            whole = len(found.parts) == len(Part)
            what = f"the {'stores' if whole else ' and '.join(sorted(found.parts))} are the same"
        rest = parts[1:] if found.log.shared.length else parts
        return "; ".join([what, *rest])
    return "; ".join(parts)


def _log(found: StoreDifference) -> Iterator[str]:
    log = found.log
    if not log.shared.length:
        yield _apart(log)
        return
    yield from _shared(found)
    for name, own in zip(NAMES, log.own, strict=True):
        if older := own.messages(BEFORE):
            yield f"{name} has {older:,} older {_messages(older)}"
    if log.unread:
        yield f"{log.unread:,} bytes of the log could not be compared"


def _apart(log: LogDifference) -> str:
    if not log.a.length and not log.b.length:
        return "neither has a commitlog"
    for name, span in zip(NAMES, (log.a, log.b), strict=True):
        if not span.length:
            return f"{name} has no message in a commitlog"
    return (
        f"the logs have no offset in common: A holds [{log.a.begin}, {log.a.end}), "
        f"B holds [{log.b.begin}, {log.b.end})"
    )


def _shared(found: StoreDifference) -> Iterator[str]:
    log = found.log
    more = [own.messages(SHARED, AFTER) for own in log.own]
    if log.first is None:
        yield _longer(found, more)
        return
    if not log.goes_on:
        parts = " and ".join(
            f"{name} has {count:,} {_messages(count)}"
            for name, count in zip(NAMES, more, strict=True)
        )
        yield f"they part at {log.first}: from there {parts} of its own"
    else:
        inner = [own.messages(SHARED) for own in log.own]
        parts = f"{inner[0]:,} {_messages(inner[0])} of A and {inner[1]:,} of B are not the same"
        yield f"they differ first at {log.first}: {parts}"
        for name, own in zip(NAMES, log.own, strict=True):
            if count := own.messages(AFTER):
                yield f"{name} has {count:,} {_messages(count)} more at its end"
    for name, own in zip(NAMES, log.own, strict=True):
        if count := len(own.own_damage):
            yield f"{name} is damaged in {count:,} {'place' if count == 1 else 'places'}"


def lender(found: StoreDifference) -> int | None:
    """Say which of two stores can lend the other one records; None for neither, or for both.

    Returns:
        0 for A, 1 for B: only the other one is damaged, and after that they are the same again.
    """
    damaged = [bool(own.own_damage) for own in found.log.own]
    if not found.log.goes_on or damaged[0] == damaged[1]:
        return None
    return damaged.index(False)


def _longer(found: StoreDifference, more: list[int]) -> str:
    log = found.log
    if log.a.end == log.b.end:
        return "their logs are the same" if log.a == log.b else "their logs end alike"
    long = 0 if log.a.end > log.b.end else 1
    count = more[long]
    time = f"{iso_time(found.same_until)}" if found.same_until is not None else "its beginning"
    extra = f"{count:,} {_messages(count)} more"
    if not count:
        extra = f"{abs(log.a.end - log.b.end):,} bytes more, and no message in them"
    short_name, long_name = NAMES[1 - long], NAMES[long]
    return (
        f"{short_name} is {long_name}'s log up to {time} (physical offset {log.shared.end}); "
        f"{long_name} has {extra}"
    )


def _state(found: StoreDifference) -> Iterator[str]:
    state = found.state
    for number, name in enumerate(NAMES):
        if groups := state.newer(number):
            count = len(groups)
            what = "group" if count == 1 else "groups"
            yield f"the offsets of {count:,} {what} are newer in {name}"
    counts = {
        "queue": len(state.queues),
        "epoch": len(state.epochs),
        "setting": len(state.settings),
    }
    for word, count in counts.items():
        if count:
            yield f"{count:,} {word}{' differs' if count == 1 else 's differ'}"


def _messages(count: int) -> str:
    return "message" if count == 1 else "messages"
