"""Commitlogs of our own making: hostile names, far times, many queues."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rmqtool.formats.message import BLANK, Message
from tests.scan.segments import MESSAGE, placed, segment_bytes

SEGMENT_BYTES: Final = 1 << 20


def message(topic: bytes, queue_id: int, queue_offset: int) -> Message:
    """Give a message of a queue."""
    return MESSAGE._replace(topic_bytes=topic, queue_id=queue_id, queue_offset=queue_offset)


def build_log(root: Path, messages: Iterable[Message], *, start: int = 0) -> Path:
    """Write a commitlog of 1 MiB segments and nothing else; give the store."""
    directory = root / "commitlog"
    directory.mkdir(parents=True)
    segment: list[Message] = []
    used = 0
    for message in messages:
        size = placed([message])[0].size
        if used + size + BLANK.size > SEGMENT_BYTES:
            _write(directory, start, segment)
            start, used, segment = start + SEGMENT_BYTES, 0, []
        segment.append(message)
        used += size
    _write(directory, start, segment)
    return root


def _write(directory: Path, start: int, messages: list[Message]) -> None:
    raw = segment_bytes(messages, start=start, size=SEGMENT_BYTES)
    (directory / f"{start:020}").write_bytes(raw)
