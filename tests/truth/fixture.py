"""A fixture as the truth tests need it: its store, the rules of its broker, what was sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from rmqtool.formats import config, config_shapes, index
from tests import stores
from tests.truth import broker_files
from tests.truth.plain_reader import Queue, Record, Rules, read_segments

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.formats.consume_queue_ext import ExtUnit

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DEFAULT_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


@dataclass(frozen=True)
class Fixture:
    """One fixture, unpacked.

    Attributes:
        name: of the fixture.
        store: its store root.
    """

    name: str
    store: Path

    @cached_property
    def settings(self) -> dict[str, str]:
        """Give `broker.conf` as the manifest repeats it."""
        return dict(stores.manifest(self.name)["settings"])

    def is_on(self, setting: str, *, default: bool = False) -> bool:
        """Tell whether a setting is `true`."""
        return self.settings.get(setting, str(default).lower()) == "true"

    def number(self, setting: str, default: int) -> int:
        """Give a setting that is a number."""
        return int(self.settings.get(setting, default))

    @cached_property
    def version(self) -> tuple[int, ...]:
        """Give the broker's version as numbers."""
        return tuple(map(int, stores.manifest(self.name)["version"].split(".")))

    @cached_property
    def rules(self) -> Rules:
        """Give what decides where records go."""
        levels = self.settings.get("messageDelayLevel", _DEFAULT_LEVELS)
        return Rules(
            version=self.version,
            delay_seconds=tuple(
                int(count) * _SECONDS[unit] for count, unit in re.findall(r"(\d+)([smhd])", levels)
            ),
            multi_dispatch=self.is_on("enableMultiDispatch"),
            batch_topics=frozenset(
                topic.topic for topic in config_shapes.topics(self.topics) if topic.is_batch_queue
            ),
        )

    @cached_property
    def is_in_rocksdb(self) -> bool:
        """Tell whether the broker kept queues and topics in RocksDB, not in files of its own."""
        return (self.store / "consumequeue" / "CURRENT").is_file()

    @cached_property
    def topics(self) -> dict[str, Any]:
        """Give `topics.json`; with RocksDB there is none, and no fixture has batch topics in it."""
        if self.is_in_rocksdb:
            return {}
        return config.parse_object((self.store / "config" / "topics.json").read_bytes())

    @cached_property
    def records(self) -> list[Record]:
        """Give all records of the log."""
        return read_segments(self.segments)

    @cached_property
    def segments(self) -> list[Path]:
        """Give the segments of the log, in order, wherever they lie."""
        directories = [
            *self.store.glob("commitlog*"),
            *self.store.glob("dledger-*/data"),
        ]
        return sorted(
            (path for directory in directories for path in directory.glob("[0-9]*")),
            key=lambda path: path.name,
        )

    def ext_units(self, queue: Queue) -> dict[int, ExtUnit]:
        """Give the ext units of a queue by address."""
        directory = self.store / "consumequeue_ext" / queue[0] / str(queue[1])
        return broker_files.ext_units(directory) if directory.is_dir() else {}

    @cached_property
    def filters(self) -> list[config_shapes.ConsumerFilter]:
        """Give the SQL92 subscriptions."""
        raw = (self.store / "config" / "consumerFilter.json").read_bytes()
        return list(config_shapes.consumer_filters(config.parse_object(raw)))

    @cached_property
    def index_geometry(self) -> tuple[int, int]:
        """Give the slots and entries of an index file."""
        return (
            self.number("maxHashSlotNum", index.DEFAULT_HASH_SLOT_NUM),
            self.number("maxIndexNum", index.DEFAULT_INDEX_NUM),
        )

    @property
    def log_start(self) -> int:
        """Give the first physical offset that is still there."""
        return int(self.segments[0].name) if self.segments else 0

    @cached_property
    def sent(self) -> list[dict[str, Any]]:
        """Give what the producers sent."""
        return list(stores.sent(self.name))
