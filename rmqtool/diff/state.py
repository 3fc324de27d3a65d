"""Queues, consumer offsets, epochs and configuration of two stores, where they differ.

`dataVersion` is left out: it counts changes, so it differs between brokers that agree.
Source: ConsumerOffsetManager, TopicConfigManager, SubscriptionGroupManager, ScheduleMessageService,
EpochFileCache, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from rmqtool.diff.side import Part, SideProblem
from rmqtool.errors import RmqtoolError
from rmqtool.findings.registry_state import EP_CRC
from rmqtool.formats import epoch
from rmqtool.formats.config_names import (
    DELAYS_JSON,
    GROUPS_JSON,
    LIGHT_OFFSETS_JSON,
    OFFSETS_JSON,
    TOPICS_JSON,
)
from rmqtool.formats.config_shapes import TABLES, consumer_offsets, lmq_consumer_offsets
from rmqtool.queues.span import NO_PLACE
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.config_files import Fault

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from rmqtool.diff.side import Side

V = TypeVar("V")
Pair = tuple[V | None, V | None]

LARGEST_EPOCH_FILE: Final = 16 << 20
COMPARED: Final = (TOPICS_JSON, GROUPS_JSON, DELAYS_JSON)


class QueueReach(NamedTuple):
    """How far a queue reaches: queue offsets of its first and of its next message."""

    first: int
    next: int


class OffsetKey(NamedTuple):
    """Whose offset it is."""

    group: str
    topic: str
    queue_id: int


class SettingKey(NamedTuple):
    """A field of an entry of a file."""

    file: str
    entry: str
    field: str


class StateDifference(NamedTuple):
    """Where two stores differ beside their logs: what A has, what B has; None for nothing."""

    queues: dict[tuple[str, int, str], Pair[QueueReach]]  # by topic, queue and kind
    offsets: dict[OffsetKey, Pair[int]]  # of consumers
    epochs: dict[int, Pair[int]]  # start offset of each master epoch
    settings: dict[SettingKey, Pair[str]]  # JSON text of each field

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not any(self)

    def newer(self, number: int) -> set[str]:
        """Give the groups that have a higher offset in A (0) or B (1), or one only there."""
        return {
            key.group
            for key, pair in self.offsets.items()
            if _or_less(pair[number]) > _or_less(pair[1 - number])
        }


def _or_less(offset: int | None) -> int:
    return -1 if offset is None else offset


def compare(a: Side, b: Side, parts: Collection[Part]) -> StateDifference:
    """Compare what two stores hold beside their logs.

    Args:
        a: a store.
        b: the other.
        parts: what is looked at.
    """
    has_config = Part.CONFIG in parts
    return StateDifference(
        _different(_queues(a), _queues(b)) if Part.QUEUES in parts else {},
        _different(_offsets(a), _offsets(b)) if has_config else {},
        _different(_epochs(a), _epochs(b)) if Part.EPOCHS in parts else {},
        _different(_settings(a), _settings(b)) if has_config else {},
    )


K = TypeVar("K", bound=Any)


def _different(a: Mapping[K, V], b: Mapping[K, V]) -> dict[K, Pair[V]]:
    return {key: (a.get(key), b.get(key)) for key in sorted({*a, *b}) if a.get(key) != b.get(key)}


def _queues(side: Side) -> dict[tuple[str, int, str], QueueReach]:
    spans = side.survey.ranges
    names = zip(spans.topics, spans.queue_ids, map(str, spans.kinds), strict=True)
    reaches = map(QueueReach, spans.min_offsets, spans.max_offsets)
    # A queue that never had a message says nothing: its directory is made ahead of need.
    return {
        name: reach
        for name, reach, last in zip(names, reaches, spans.last, strict=True)
        if last != NO_PLACE
    }


def _offsets(side: Side) -> dict[OffsetKey, int]:
    offsets = [
        *consumer_offsets(_document(side, OFFSETS_JSON)),
        *lmq_consumer_offsets(_document(side, LIGHT_OFFSETS_JSON)),
    ]
    return {
        OffsetKey(offset.group, offset.topic, offset.queue_id): offset.queue_offset
        for offset in offsets
        if offset.queue_offset is not None
    }


def _settings(side: Side) -> dict[SettingKey, str]:
    return {
        SettingKey(name, str(entry), field): json.dumps(value, sort_keys=True, ensure_ascii=False)
        for name in COMPARED
        for entry, fields in _entries(_document(side, name).get(TABLES[name]))
        for field, value in _entries(fields if isinstance(fields, dict) else {"": fields})
    }


def _entries(table: object) -> Iterator[tuple[str, Any]]:
    yield from table.items() if isinstance(table, dict) else ()


def _document(side: Side, name: str) -> dict[str, Any]:
    """Read a file as a broker would, and note what is wrong with it."""
    document = side.store.config(name)
    for problem in document.problems:
        used = f"; {document.path} was compared instead" if document else ""
        is_unread = not document and problem.fault is not Fault.EMPTY  # to brokers it is not there
        side.note(SideProblem(problem.path, problem.says + used, is_unread))
    return document.document


def _epochs(side: Side) -> dict[int, int]:
    for artefact in side.store.branches_of(ArtefactKind.EPOCH):
        if artefact.path.endswith(".bak"):
            continue
        try:
            raw = artefact.place.read(LARGEST_EPOCH_FILE)
            file = epoch.decode(raw, path=artefact.path)
        except RmqtoolError as error:
            side.note(SideProblem(artefact.path, getattr(error, "reason", str(error))))
            continue
        if file.count != len(file.entries) or file.crc not in {0, file.crc_found}:
            problem = "its entries do not agree with its first two lines"
            side.note(SideProblem(artefact.path, problem, is_unread=False, code=EP_CRC))
        return {entry.epoch: entry.start_offset for entry in file.entries}
    return {}
