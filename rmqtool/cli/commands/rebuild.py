"""`rmqtool rebuild`: rebuild consume queues and key index from the commitlog."""

from __future__ import annotations

from dataclasses import dataclass

from rmqtool.cli.declaration import Command
from rmqtool.cli.delivery import Delivery, Shown
from rmqtool.cli.engines import EngineChoice
from rmqtool.cli.options import StorePath, StoresFile
from rmqtool.cli.rebuilding import (
    Output,
    RuleOptions,
    UnitOptions,
    describe,
    names_many,
    rebuild,
    rebuild_options,
)


@dataclass(frozen=True)
class Rebuild(Command):
    """The log is read once for both, byte for byte what a broker would write: expired segments,
    delayed and transactional messages, light message queues and inner batches included. Nothing is
    written without --output or --in-place; evidence is opened read-only.
    A pattern in quotes such as '/backups/*/store', and --stores-file, rebuild for many stores: a
    row a store, each with a directory of its own below --output. One that fails stops no other.
    """

    store: StorePath = ""
    to: Output = Output()
    units: UnitOptions = UnitOptions()
    rules: RuleOptions = RuleOptions()
    stores_file: StoresFile = None
    delivery: Shown = Delivery()
    choice: EngineChoice = EngineChoice()

    def describe(self) -> int:
        """Write what the rows are."""
        from rmqtool.rebuild.options import Target

        is_many = names_many(self.store, self.stores_file)
        return describe(Target.ALL, self.to, self.delivery, is_many=is_many)

    def run(self) -> int:
        """Rebuild; 1 when --check finds a difference."""
        from rmqtool.rebuild.options import Target

        stores = self.store, self.stores_file
        options = rebuild_options(stores, Target.ALL, self.to, self.rules, self.units)
        return rebuild(
            options, self.delivery, self.choice, yes=self.to.yes, stores_file=self.stores_file
        )
