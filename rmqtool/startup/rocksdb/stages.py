"""The stages of a start that are others where a store has RocksDB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.startup.live import freeze
from rmqtool.startup.prediction import FurtherStep
from rmqtool.startup.rocksdb.fates import RocksBefore, rocks_fates
from rmqtool.startup.rocksdb.further import FurtherRows, further_steps, read_further
from rmqtool.startup.rocksdb.opening import with_database
from rmqtool.startup.rocksdb.settings import rocks_settings
from rmqtool.startup.rocksdb.start_file import RocksStartFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.startup.commitlog import Recovered
    from rmqtool.startup.model import Model
    from rmqtool.startup.prediction import QueueFate
    from rmqtool.startup.records import RecordCheck
    from rmqtool.startup.rocksdb.model import RocksModel
    from rmqtool.store.tree import Store


@dataclass(slots=True)
class RocksStages:
    """A start of one store."""

    model: RocksModel  # the store
    before: RocksBefore  # what there was
    rows: FurtherRows  # of `rocksdbstore`
    dispatched: int = 0  # physical offset up to which records are not dispatched after a clean stop

    def start_file(self, model: Model, check: RecordCheck) -> RocksStartFile:
        """Make what finds the file that recovery begins with; it knows what is dispatched."""
        del model  # it is ours
        found = RocksStartFile(self.model, check)
        self.dispatched = found.dispatch_from
        return found

    def differ(self) -> None:
        """Compare the two stores of a combined one, when both have been recovered."""
        rocksdb_settings = self.model.rocksdb_settings
        for key, wanted, found in list(self.model.second_maximums()):
            if found > 0 and rocksdb_settings.rocksdb_is_read != rocksdb_settings.rocksdb_leads:
                name = f"topic {key[0]}, queue {key[1]}"
                reason = f"{name} ends at {found} and not at {wanted}, and consumers read it there"
                self.model.loader.refuse(rocksdb_settings.path, reason)
                return
            if not rocksdb_settings.rocksdb_leads:
                self.model.set_empty(key, wanted)

    def fates(self) -> Iterator[QueueFate]:
        """Give what becomes of each queue.

        Raises:
            UnreadablePath: a file may not be read.
        """
        return rocks_fates(self.model, self.before)

    def further(
        self, recovered: Recovered | None, fates: tuple[QueueFate, ...]
    ) -> list[FurtherStep]:
        """Give what happens besides.

        Raises:
            UnreadablePath: a file of the log may not be read.
        """
        model, found = self.model, []
        if model.rocksdb_settings.has_files and not model.rocksdb_settings.rocksdb_is_read:
            cut = sum(fate.units_cut for fate in fates if fate.in_rocksdb)
            if cut:
                message = f"{cut:,} units of queues in RocksDB go out of sight"
                found.append(FurtherStep("empty", model.rocksdb_settings.path, message, cut))
        if recovered is not None:
            starts = {file.path: file.start for file in self.before.log}
            first = starts.get(recovered.first_path, 0)
            found += further_steps(model, self.rows, self.dispatched, first)
        return found


def rocks_stages(store: Store, plain: Model) -> RocksStages | None:
    """Open what a store has in RocksDB; None where it has nothing that a start goes by.

    Args:
        store: that may have it.
        plain: its model without that.

    Raises:
        UnreadablePath: a directory may not be listed.
        EngineMissing: the library that reads RocksDB is not installed.
    """
    rocksdb_settings = rocks_settings(store, plain.rules)
    if rocksdb_settings is None:
        return None
    model = with_database(store, plain, rocksdb_settings)
    if model.is_live:
        freeze(model)
    rows = read_further(store, model)
    return RocksStages(model, RocksBefore.with_keyed(model), rows)
