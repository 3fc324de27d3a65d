"""Tell files of a log that a running broker has deleted from those that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.errors import StoreError
from rmqtool.store.unread import has_expired
from rmqtool.tables.inputs import store_of

if TYPE_CHECKING:
    from rmqtool.errors import UnreadablePath
    from rmqtool.spark.options import SourceOptions


@dataclass(frozen=True, slots=True)
class Gone:
    """Tells files that have expired from those that cannot be read."""

    options: SourceOptions  # of the read
    expired: set[str] | None  # takes the expired files; None when they count as unreadable

    def has(self, path: str, error: UnreadablePath) -> bool:
        """Take note of a file that has expired; False for another one."""
        if self.expired is None:
            return False
        try:
            store = store_of(self.options.path, self.options.broker_conf, None)
        except StoreError:
            return False
        if has_expired(store, path, error):
            self.expired.add(path)
            return True
        return False
