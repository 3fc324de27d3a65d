"""`rmqtool rebuild`: rebuild consume queues and key index from the commitlog."""

from __future__ import annotations

from dataclasses import dataclass

from rmqtool.cli.declaration import Command
from rmqtool.cli.delivery import Delivery, Shown
from rmqtool.cli.engines import EngineChoice
from rmqtool.cli.options import StorePath
from rmqtool.cli.rebuilding import Output, RuleOptions, UnitOptions, describe, options_of, rebuild


@dataclass(frozen=True)
class Rebuild(Command):
    """The log is read once for both, byte for byte what a broker would write: expired segments,
    delayed and transactional messages, light message queues and inner batches included. Nothing is
    written without --output or --in-place; evidence is opened read-only.
    """

    store: StorePath
    to: Output = Output()
    units: UnitOptions = UnitOptions()
    rules: RuleOptions = RuleOptions()
    delivery: Shown = Delivery()
    choice: EngineChoice = EngineChoice()

    def describe(self) -> int:
        """Write what the rows are."""
        from rmqtool.rebuild.options import Target

        return describe(Target.ALL, self.to, self.delivery)

    def run(self) -> int:
        """Rebuild; 1 when --check finds a difference."""
        from rmqtool.rebuild.options import Target

        options = options_of(self.store, Target.ALL, self.to, self.rules, self.units)
        return rebuild(options, self.delivery, self.choice, yes=self.to.yes)
