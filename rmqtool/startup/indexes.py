"""Stage 3: the key index: which files a start keeps, destroys, fills and creates.

Source: IndexService#load, #buildIndex, IndexFile, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.dispatch import index_keys
from rmqtool.formats.index import FIRST_ENTRY, INDEX_HEADER
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.startup.load import entries
from rmqtool.store.entry import EntryKind, printable
from rmqtool.store.index_files import is_destroyed, is_index_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqtool.broker.rules import Rules
    from rmqtool.startup.load import Loader
    from rmqtool.startup.records import DispatchRequest
    from rmqtool.startup.settings import Settings
    from rmqtool.startup.walk import Block
    from rmqtool.store.place import Place

_ROLLBACK: Final = SysFlag.TRANSACTION_ROLLBACK_TYPE


@dataclass(slots=True)
class ModelIndexFile:
    """One index file, as far as its header goes."""

    path: str  # relative to the store root; empty for one that the broker would create
    end_timestamp: int = 0  # store time of its newest entry
    end_physical_offset: int = 0  # record of its newest entry
    index_count: int = FIRST_ENTRY  # number of the next entry

    @property
    def entries(self) -> int:
        """Entries in use."""
        return self.index_count - FIRST_ENTRY


@dataclass(slots=True)
class ModelIndex:
    """The key index."""

    rules: Rules  # of the version
    settings: Settings  # of the broker
    capacity: int  # `maxIndexNum`
    files: list[ModelIndexFile] = field(default_factory=list)  # those in use, oldest first
    # those that this start would delete
    destroyed: list[ModelIndexFile] = field(default_factory=list)
    created: int = 0  # how many files this start would create
    added: int = 0  # how many entries it would add

    def load(
        self, directory: Place, loader: Loader, *, stopped_cleanly: bool, index_timestamp: int
    ) -> None:
        """Take the files that are there; after a crash destroy those newer than the checkpoint.

        A file of the wrong length is mapped all the same, and lengthened by that.

        Args:
            directory: `index`, which may be missing.
            loader: takes a refusal.
            stopped_cleanly: whether there is no `abort`.
            index_timestamp: of the checkpoint.

        Raises:
            UnreadablePath: a file may not be read.
        """
        for entry in entries(directory):
            path = f"index/{printable(entry.name)}"
            if not is_index_name(entry.name):
                continue
            if entry.kind is EntryKind.DIRECTORY:
                if self.rules.index_failure_refuses:
                    loader.refuse(path, "a directory among index files")
                return
            raw = directory.child(entry.name).resolved().read(INDEX_HEADER.size)
            header = INDEX_HEADER.packer.unpack(raw.ljust(INDEX_HEADER.size, b"\0"))
            _, end_timestamp, _, end_physical_offset, _, count = header
            file = ModelIndexFile(path, end_timestamp, end_physical_offset, max(count, FIRST_ENTRY))
            if not stopped_cleanly and is_destroyed(end_timestamp, index_timestamp):
                self.destroyed.append(file)
            else:
                self.files.append(file)

    def put(self, record: DispatchRequest) -> None:
        """Index a record, unless the newest file is further already.

        Source: IndexService#buildIndex.
        """
        if not self.settings.keeps_index_files:
            return
        file = self._last_for_append()
        if record.physical_offset < file.end_physical_offset:
            return
        for _ in index_keys(self.rules, record):
            file = self._last_for_append()
            file.index_count += 1
            file.end_physical_offset = record.physical_offset
            self.added += 1

    def put_many(self, block: Block, chosen: NDArray[np.bool_]) -> None:
        """Index the chosen records of a block, as `put` would one after the other."""
        if not self.settings.keeps_index_files:
            return
        numbers = np.flatnonzero(chosen)
        offsets = block.physical_offsets[numbers]
        is_rollback = block.sys_flags[numbers] & _ROLLBACK == _ROLLBACK
        counts = np.where(is_rollback, 0, block.key_counts[numbers])
        number = 0
        while number < len(offsets):
            # Each record asks for a file, whether it has keys or not.
            newest = self._last_for_append().end_physical_offset
            new = np.flatnonzero((offsets[number:] >= newest) & (counts[number:] > 0))
            if not new.size:
                return
            number += int(new[0])
            ascends = np.diff(offsets[number:]) >= 0
            end = number + (int(ascends.argmin()) + 1 if not ascends.all() else len(ascends) + 1)
            with_keys = number + np.flatnonzero(counts[number:end])
            number = int(with_keys[-1]) + 1
            self._add(int(counts[with_keys].sum()))
            self.files[-1].end_physical_offset = int(offsets[number - 1])

    def _add(self, count: int) -> None:
        """Add entries, in as many files as they need."""
        self.added += count
        while count:
            file = self._last_for_append()
            fitting = min(count, self.capacity - file.index_count)
            file.index_count += fitting
            count -= fitting

    def _last_for_append(self) -> ModelIndexFile:
        """Source: IndexService#getAndCreateLastIndexFile."""
        last = self.files[-1] if self.files else None
        if last is None or last.index_count >= self.capacity:
            last = ModelIndexFile("", end_physical_offset=last.end_physical_offset if last else 0)
            self.files.append(last)
            self.created += 1
        return last
