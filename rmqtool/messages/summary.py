"""What a person is told of an extract, beside its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.messages.extract import Extracted

_SHOWN: Final = 5  # queues that are named


def sentences(done: Extracted, group: str | None) -> Iterator[str]:
    """Give what is not in the file, and what in it is not whole.

    Args:
        done: the extract.
        group: whose committed offsets counted.
    """
    if done.gaps:
        yield (
            f"{counted(done.gaps, 'damaged stretch', 'damaged stretches')} of the log, "
            f"{done.gap_bytes:,} bytes: messages there are not in the file"
        )
    if done.damaged:
        yield f"{counted(done.damaged, 'message')} with a damaged body"
    if done.without_offset:
        named = [f"{topic} queue {number}" for topic, number in sorted(done.without_offset)]
        more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        queues = counted(len(named), "queue")
        yield (
            f"group {group} has no offset for {queues}, so all messages there count: "
            f"{', '.join(named[:_SHOWN])}{more}"
        )
    if done.held_copies:
        yield (
            f"left out: {counted(done.held_copies, 'half message or timer copy', _HELD)}; "
            "--held writes them"
        )


_HELD: Final = "half messages and timer copies"
