"""`rmqtool rebuild`: rebuild consume queues and key index from the commitlog."""

from __future__ import annotations

from dataclasses import dataclass

from rmqtool.cli.delivery import Delivery, Shown
from rmqtool.cli.engines import EngineChoice
from rmqtool.cli.options import StorePath, StoresFile
from rmqtool.cli.rebuilding import Output, RebuildCommand, RuleOptions, UnitOptions


@dataclass(frozen=True)
class Rebuild(RebuildCommand):
    """The log is read once for both, byte for byte what a broker would write: expired segments,
    delayed and transactional messages, light message queues and inner batches included. Nothing is
    written without --output or --in-place; evidence is opened read-only.
    A pattern in quotes such as '/backups/*/store', and --stores-file, rebuild for many stores: a
    row a store, each with a directory of its own below --output. One that fails stops no other.
    """

    target = "ALL"
    store: StorePath = ""
    to: Output = Output()
    units: UnitOptions = UnitOptions()
    rules: RuleOptions = RuleOptions()
    stores_file: StoresFile = None
    delivery: Shown = Delivery()
    choice: EngineChoice = EngineChoice()
