"""`rmqtool rebuild-index`: rebuild the key index from the commitlog."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from rmqtool.cli.declaration import Command, Option
from rmqtool.cli.delivery import Delivery, Shown
from rmqtool.cli.engines import EngineChoice
from rmqtool.cli.options import StorePath
from rmqtool.cli.rebuilding import Output, RuleOptions, UnitOptions, describe, options_of, rebuild
from rmqtool.rebuild.options import StoreType


@dataclass(frozen=True)
class RebuildIndex(Command):
    """Entries, slots and chains are those of a broker. A broker names a file by its clock. Here the
    name is that of the file on disk with the same first record, else the store time of that record.
    An index in RocksDB (rocksdbstore, 5.4.0 on) is written anew with the timers and open
    transactions of the database that was there.
    """

    store: StorePath
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
    delivery: Shown = Delivery()
    choice: EngineChoice = EngineChoice()

    def describe(self) -> int:
        """Write what the rows are."""
        from rmqtool.rebuild.options import Target

        return describe(Target.INDEX, self.to, self.delivery)

    def run(self) -> int:
        """Rebuild; 1 when --check finds a difference."""
        from rmqtool.rebuild.options import Target

        options = options_of(self.store, Target.INDEX, self.to, self.rules, UnitOptions())
        options = replace(options, store_type=self.store_type)
        return rebuild(options, self.delivery, self.choice, yes=self.to.yes)
