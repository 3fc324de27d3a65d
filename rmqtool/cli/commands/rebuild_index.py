"""`rmqtool rebuild-index`: rebuild the key index from the commitlog."""

from __future__ import annotations

from dataclasses import dataclass

from rmqtool.cli.declaration import Command
from rmqtool.cli.delivery import Delivery, Shown
from rmqtool.cli.engines import EngineChoice
from rmqtool.cli.options import StorePath
from rmqtool.cli.rebuilding import Output, RuleOptions, rebuild


@dataclass(frozen=True)
class RebuildIndex(Command):
    """Entries, slots and chains are those of a broker. A broker names a file by its clock; here
    the name is that of the file on disk which begins with the same record, else the store time of
    its first record.
    """

    store: StorePath
    to: Output = Output()
    rules: RuleOptions = RuleOptions()
    delivery: Shown = Delivery()
    choice: EngineChoice = EngineChoice()

    def run(self) -> int:
        """Rebuild; 1 when --check finds a difference."""
        from rmqtool.rebuild.options import RebuildOptions, Target

        options = RebuildOptions(
            self.store,
            Target.INDEX,
            output=self.to.output,
            in_place=self.to.in_place,
            check=self.to.check,
            dry_run=self.to.dry_run,
            time_zone=self.rules.time_zone,
            broker_version=self.rules.broker_version,
            broker_conf=self.rules.broker_conf,
            jobs=self.rules.jobs,
        )
        return rebuild(options, self.delivery, self.choice, yes=self.to.yes)
