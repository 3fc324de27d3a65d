"""Stage 4 for RocksDB: which commitlog file recovery begins with, and what it dispatches.

Source: CommitLog#recoverNormally, #recoverAbnormally, #isMappedFileMatchedRecover, 5.3.3 to 5.5.0;
CombineConsumeQueueStore#isMappedFileMatchedRecover, DefaultMessageStore#recover, 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.broker.rules import NormalStart
from rmqtool.formats.message import MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2, MESSAGE_PREFIX
from rmqtool.startup.load import StartFails
from rmqtool.startup.start_file import StartFile

if TYPE_CHECKING:
    from rmqtool.startup.files import ModelFile
    from rmqtool.startup.records import DispatchRequest, RecordCheck
    from rmqtool.startup.rocksdb.model import RocksModel


class RocksStartFile(StartFile):
    """Finds the file that recovery begins with."""

    model: RocksModel

    def __init__(self, model: RocksModel, check: RecordCheck) -> None:
        self._further = model.rocksdb_settings.further_files
        self._queued = model.dispatched_end
        super().__init__(model, check)

    def dispatched(self) -> int:
        """Give the physical offset up to which records are not dispatched after a clean stop."""
        model = self.model
        if model.rocksdb_settings.has_files:
            self._leading = (
                model.dispatched_end
                if model.rocksdb_settings.rocksdb_leads
                else super().dispatched()
            )
            if not model.rules.combines_queue_stores:
                return self._leading
            found = super().dispatched()
            if model.rocksdb_settings.path:
                found = min(found, model.dispatched_end)
        else:
            self._leading = found = model.dispatched_end
        return min([found, *(offset for offset in model.further_offsets if offset > 0)])

    def queues_agree(self, record: DispatchRequest) -> bool:
        """Tell whether the queues that lead have all before the first record of a file."""
        return record.physical_offset <= self._leading

    def matches_normally(self, file: ModelFile) -> bool:
        """See `StartFile`."""
        return super().matches_normally(file) and self._others_agree(file)

    def matches_abnormally(self, file: ModelFile) -> bool:
        """See `StartFile`; where RocksDB leads, its queues alone say it."""
        model = self.model
        if not model.rocksdb_settings.rocksdb_leads:
            return super().matches_abnormally(file) and self._others_agree(file)
        if model.rules.normal_start is NormalStart.FIRST_RECORD:
            return self.matches_normally(file)
        with file.open() as reader:
            prefix = reader.read_at(0, MESSAGE_PREFIX.size)
        magic = MESSAGE_PREFIX["magic_code"].of(prefix)
        is_record = magic in {MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2}
        return is_record and MESSAGE_PREFIX["physical_offset"].of(prefix) <= self._queued

    def _others_agree(self, file: ModelFile) -> bool:
        """Ask the second store, the index and transactions.

        Raises:
            StartFails: consumers read from a store that cannot be recovered.
        """
        model = self.model
        record = self.first_record(file)
        if record is None or not model.rules.combines_queue_stores:
            return record is not None
        offset = record.physical_offset
        agrees = all(offset <= one for one in model.further_offsets)
        if not model.rocksdb_settings.path or model.rocksdb_settings.rocksdb_leads:
            return agrees
        if self._queued <= 0 or offset <= self._queued:  # 0: it has not been started before
            return agrees
        if model.rocksdb_settings.has_light_alone:
            return False
        self._further -= 1
        if self._further >= 0:
            return False
        if model.rocksdb_settings.rocksdb_is_read:
            reason = "consumers read queues in RocksDB, which lag too far"
            raise StartFails(model.rocksdb_settings.path, reason)
        return agrees
