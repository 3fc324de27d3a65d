"""`rmqtool rebuild-index`: rebuild the key index from the commitlog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rmqtool.cli.declaration import Option
from rmqtool.cli.delivery import Delivery, Shown
from rmqtool.cli.engines import EngineChoice
from rmqtool.cli.options import StorePath, StoresFile
from rmqtool.cli.rebuilding import Output, RebuildCommand, RuleOptions
from rmqtool.rebuild.options import StoreType


@dataclass(frozen=True)
class RebuildIndex(RebuildCommand):
    """Entries, slots and chains are those of a broker. A broker names a file by its clock. Here the
    name is that of the file on disk with the same first record, else the store time of that record.
    An index in RocksDB (rocksdbstore, 5.4.0 on) is written anew with the timers and open
    transactions of the database that was there.
    A pattern in quotes such as '/backups/*/store', and --stores-file, rebuild for many stores: a
    row a store, each with a directory of its own below --output. One that fails stops no other.
    """

    target = "INDEX"
    store: StorePath = ""
    to: Output = Output()
    store_type: Annotated[
        StoreType | None,
        Option(
            "--as",
            "Write the index as files or into a RocksDB database; by default as the store has it, "
            "which may be both.",
        ),
    ] = None
    rules: RuleOptions = RuleOptions()
    stores_file: StoresFile = None
    delivery: Shown = Delivery()
    choice: EngineChoice = EngineChoice()
