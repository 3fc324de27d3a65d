"""`rmqtool rebuild-cq`: rebuild consume queues from the commitlog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rmqtool.cli.completion.values import queues, topics
from rmqtool.cli.declaration import Only, Option
from rmqtool.cli.delivery import Delivery, Shown
from rmqtool.cli.engines import EngineChoice
from rmqtool.cli.options import StorePath, StoresFile
from rmqtool.cli.rebuilding import Output, RebuildCommand, RuleOptions, UnitOptions
from rmqtool.rebuild.options import StoreType


@dataclass(frozen=True)
class RebuildCq(RebuildCommand):
    """A unit is written at the queue offset that its record states. A hole in the sequence (its
    records are lost) is filled with units that consumers skip. A broker would append instead, and
    so shift all later units; --like-broker does the same. Units have the plain tags code, which is
    right for every consumer: a broker without the bits of --ext looks at the message.
    A pattern in quotes such as '/backups/*/store', and --stores-file, rebuild for many stores: a
    row a store, each with a directory of its own below --output. One that fails stops no other.
    """

    target = "QUEUES"
    store: StorePath = ""
    to: Output = Output()
    topic: Annotated[
        str | None, Option("--topic", "Only queues of this topic.", "TOPIC", completes=topics)
    ] = None
    queue_id: Annotated[
        int | None, Option("--queue", "Only this queue of it.", "ID", least=0, completes=queues)
    ] = None
    store_type: Annotated[
        StoreType | None,
        Option(
            "--as",
            "Write queues as files or as a RocksDB database; by default as the store has them, "
            "which may be both.",
        ),
    ] = None
    units: UnitOptions = UnitOptions()
    rules: Annotated[RuleOptions, Only("broker_version", "broker_conf", "jobs")] = RuleOptions()
    stores_file: StoresFile = None
    delivery: Shown = Delivery()
    choice: EngineChoice = EngineChoice()
