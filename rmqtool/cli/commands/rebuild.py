"""`rmqtool rebuild`: rebuild consume queues and key index from the commitlog."""

from __future__ import annotations

from dataclasses import dataclass

from rmqtool.cli.declaration import Command
from rmqtool.cli.delivery import Delivery, Shown
from rmqtool.cli.engines import EngineChoice
from rmqtool.cli.options import StorePath
from rmqtool.cli.rebuilding import Output, RuleOptions, UnitOptions, rebuild


@dataclass(frozen=True)
class Rebuild(Command):
    """One pass over the log gives both, byte for byte what a broker would write: expired segments,
    delayed and transactional messages, light message queues and inner batches included. Nothing is
    written without --output or --in-place; evidence is opened read-only.
    """

    store: StorePath
    to: Output = Output()
    units: UnitOptions = UnitOptions()
    rules: RuleOptions = RuleOptions()
    delivery: Shown = Delivery()
    choice: EngineChoice = EngineChoice()

    def run(self) -> int:
        """Rebuild; 1 when --check finds a difference."""
        from rmqtool.rebuild.options import RebuildOptions, Target

        options = RebuildOptions(
            self.store,
            Target.ALL,
            output=self.to.output,
            in_place=self.to.in_place,
            check=self.to.check,
            dry_run=self.to.dry_run,
            like_broker=self.units.like_broker,
            ext=self.units.ext,
            time_zone=self.rules.time_zone,
            broker_version=self.rules.broker_version,
            broker_conf=self.rules.broker_conf,
            jobs=self.rules.jobs,
        )
        return rebuild(options, self.delivery, self.choice, yes=self.to.yes)
