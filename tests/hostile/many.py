"""Stores that are nothing but many: files, holes, queues, whatever a stranger can count up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.message import Message, encode, sealed

SEGMENT: Final = 4096
QUEUES_A_TOPIC: Final = 8
BODY: Final = b"a body that is nothing but a body"
BLANK_MAGIC: Final = (-875286124).to_bytes(4, "big", signed=True)


def empty_logs(root: Path, count: int) -> None:
    """Make commitlog files of no byte, each after a hole."""
    directory = root / "commitlog"
    directory.mkdir(parents=True)
    for number in range(count):
        (directory / f"{number * SEGMENT:020}").touch()


def holes(root: Path, count: int) -> None:
    """Make commitlog files of zeros, each after a hole as long as it."""
    directory = root / "commitlog"
    directory.mkdir(parents=True)
    for number in range(count):
        (directory / f"{2 * number * SEGMENT:020}").write_bytes(bytes(SEGMENT))


def queues(root: Path, count: int) -> None:
    """Make queues with one empty file each, and a directory that is no queue for each."""
    empty_logs(root, 1)
    for number in range(count):
        topic = root / f"consumequeue/topic-{number // QUEUES_A_TOPIC}"
        queue = topic / str(number % QUEUES_A_TOPIC)
        queue.mkdir(parents=True)
        (queue / f"{0:020}").touch()
        (topic / f"no-queue-{number}").mkdir()


def segments(root: Path, count: int) -> None:
    """Make commitlog files with a record each, and a queue with a file for each of its units."""
    empty_logs(root, count)
    queue = root / "consumequeue/topic/0"
    queue.mkdir(parents=True)
    for number in range(count):
        start = number * SEGMENT
        record = _record(number, start)
        blank = (SEGMENT - len(record)).to_bytes(4, "big") + BLANK_MAGIC
        raw = (record + blank).ljust(SEGMENT, b"\0")
        (root / "commitlog" / f"{start:020}").write_bytes(raw)
        unit = {"physical_offset": start, "size": len(record), "tags_code": 0}
        (queue / f"{number * CQ_UNIT.size:020}").write_bytes(CQ_UNIT.build(unit))


def hurt(root: Path, count: int) -> None:
    """Make commitlog files with a record, a damaged one, a record, and a queue of their units."""
    (root / "commitlog").mkdir(parents=True)
    queue = root / "consumequeue/topic/0"
    queue.mkdir(parents=True)
    units = bytearray()
    for segment in range(count):
        raw = bytearray()
        for number in range(3 * segment, 3 * segment + 3):
            start = segment * SEGMENT + len(raw)
            raw += _record(number, start)
            size = segment * SEGMENT + len(raw) - start
            units += CQ_UNIT.build({"physical_offset": start, "size": size, "tags_code": 0})
        raw[len(raw) // 3 : len(raw) // 3 + 8] = b"\xff" * 8  # size and magic code of the second
        blank = (SEGMENT - len(raw)).to_bytes(4, "big") + BLANK_MAGIC
        (root / "commitlog" / f"{segment * SEGMENT:020}").write_bytes(
            bytes(raw + blank).ljust(SEGMENT, b"\0")
        )
    (queue / f"{0:020}").write_bytes(units)


def links(root: Path, count: int) -> None:
    """Make links to nothing in place of commitlog files."""
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{0:020}").write_bytes(bytes(SEGMENT))
    for number in range(1, count + 1):
        (root / "commitlog" / f"{number * SEGMENT:020}").symlink_to("nothing")


def damages(root: Path, count: int) -> None:
    """Make a log of records each second of which has a body that is not its own."""
    log = bytearray()
    for number in range(2 * count):
        record = bytearray(_record(number, len(log)))
        if number % 2:
            record[record.index(BODY)] ^= 1
        log += record
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{0:020}").write_bytes(log.ljust(len(log) + SEGMENT, b"\0"))


def keys(root: Path, count: int) -> None:
    """Make a configuration with topics, groups and offsets of queues that are not there."""
    empty_logs(root, 1)
    (root / "config").mkdir()
    names = [f"name-{number}" for number in range(count)]
    for name, table in {
        "topics.json": {"topicConfigTable": {name: {"topicName": name} for name in names}},
        "subscriptionGroup.json": {
            "subscriptionGroupTable": {name: {"groupName": name} for name in names}
        },
        "consumerOffset.json": {"offsetTable": {f"{name}@{name}": {"0": 1} for name in names}},
    }.items():
        (root / "config" / name).write_text(json.dumps(table))


def _record(number: int, physical_offset: int) -> bytes:
    message = Message(
        queue_offset=number,
        physical_offset=physical_offset,
        store_port=10911,
        body=BODY,
        topic_bytes=b"topic",
    )
    return encode(sealed(message))


MANY: Final[dict[str, Callable[[Path, int], None]]] = {
    "empty logs": empty_logs,
    "holes": holes,
    "queues": queues,
    "segments": segments,
    "hurt": hurt,
    "links": links,
    "damages": damages,
    "keys": keys,
}
