"""What the three rebuild commands share: options, and the one call of the library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from rmqtool.cli.completion.values import broker_versions, zones
from rmqtool.cli.declaration import Command, Option, options_of
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.engines import EngineChoice, stores_of
from rmqtool.cli.exits import DONE, IN_PART, NO
from rmqtool.cli.in_place import InPlace, Yes, announce, ask
from rmqtool.cli.options import BrokerConf, Jobs, UnpackLimit
from rmqtool.errors import NoSuchQueue, UsageError

if TYPE_CHECKING:
    from rmqtool.rebuild.options import RebuildOptions, RebuildResult


@dataclass(frozen=True, slots=True)
class Output:
    """What becomes of the files."""

    output: Annotated[
        str | None, Option("--output", "Write the files into a new directory.", "DIR")
    ] = None
    in_place: InPlace = False
    yes: Yes = False
    check: Annotated[
        bool,
        Option(
            "--check",
            "Compare with the files of the store and write nothing; exit 1 if it differs.",
        ),
    ] = False
    dry_run: Annotated[bool, Option("--dry-run", "Say what would be written.")] = False


@dataclass(frozen=True, slots=True)
class UnitOptions:
    """What the units of queues are to be."""

    like_broker: Annotated[
        bool, Option("--like-broker", "Shift units over holes, as a broker would.")
    ] = False
    ext: Annotated[
        bool,
        Option(
            "--ext",
            "Rebuild consumequeue_ext, too, for a broker with enableConsumeQueueExt: bits of the "
            "SQL92 subscriptions in consumerFilter.json. Without it units have plain tags codes, "
            "which are right for every consumer.",
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """Whose rules the files follow."""

    broker_version: Annotated[
        str | None,
        Option(
            "--broker-version",
            "Whose rules to follow; by default those of the release that wrote the store.",
            "X.Y.Z",
            completes=broker_versions,
        ),
    ] = None
    broker_conf: BrokerConf = None
    unpack_limit: UnpackLimit = None
    time_zone: Annotated[
        str,
        Option(
            "--time-zone",
            "Time zone of the broker's JVM, for names of index files that are not there.",
            "ZONE",
            completes=zones,
        ),
    ] = "UTC"
    jobs: Jobs = None


class RebuildCommand(Command):
    """What the rebuild commands have in common; each declares these fields, and its own."""

    target: ClassVar[str]  # name of what is rebuilt
    store: str
    stores_file: str | None
    to: Output
    units: UnitOptions = UnitOptions()
    rules: RuleOptions
    delivery: Delivery
    choice: EngineChoice

    def describe(self) -> int:
        """Write what the rows are."""
        from rmqtool.rebuild.many import REBUILT_STORES
        from rmqtool.rebuild.options import Target
        from rmqtool.rebuild.report import table_of
        from rmqtool.store.address import is_pattern

        if self.stores_file is not None or is_pattern(self.store):
            return self.delivery.describe([REBUILT_STORES])
        table = table_of(Target[self.target], is_check=self.to.check)
        return self.delivery.describe([table])

    def run(self) -> int:
        """Rebuild; 1 when --check finds a difference.

        Raises:
            Declined: somebody was asked, and did not agree.
            UsageError: no store is named, there is no such queue, or options contradict each other.
            RmqtoolError: the store cannot be opened at all, or the output not be written.
        """
        from rmqtool import memory

        stores = stores_of(self.store, self.stores_file)
        options, delivery = self._options(), self.delivery
        memory.give_back_arrays()
        if not stores["path"]:
            return _each(options, stores, delivery, self.choice)
        if options.in_place:
            announce(options.store, delivery, yes=self.to.yes)
            if not self.to.yes:
                ask(f"replace the {options.target.value} of this store")
        with self.choice.working([options.store], delivery):
            result = _rebuilt(options, delivery)
            from rmqtool.rebuild.report import rows_of, sentences

            delivery.emit(rows_of(options, result))
            for sentence in sentences(options, result):
                delivery.note(sentence)
        code = (NO if result.differences else DONE) if result.is_complete else IN_PART
        if options.in_place:
            del result  # it has a row for each queue: the memory is for the validation
            memory.give_back_rest()
            if not _is_sound(options, delivery):
                return code or NO
        return code

    def _options(self) -> RebuildOptions:
        from rmqtool.rebuild.options import RebuildOptions, Target

        holders = (self, self.to, self.units, self.rules)
        return options_of(RebuildOptions, *holders, target=Target[self.target], rules=None)


def _is_sound(options: RebuildOptions, delivery: Delivery) -> bool:
    """Validate the store that was changed, and say what is left."""
    from rmqtool.check.written import checked_again, defects_of

    findings = defects_of(
        options.store,
        broker_version=options.broker_version,
        broker_conf=options.broker_conf,
        jobs=options.jobs,
    )
    for sentence in checked_again(options.store, findings):
        delivery.note(sentence)
    return not findings


def _each(
    options: RebuildOptions, stores: dict[str, Any], delivery: Delivery, choice: EngineChoice
) -> int:
    """Rebuild for several stores, a row each; the exit code is that of the worst."""
    from rmqtool.plural import counted as number_of
    from rmqtool.rebuild.many import REBUILT_STORES, Rebuilds
    from rmqtool.render.progress import counted

    paths, stores_file = stores.get("paths", ()), stores.get("stores_file")
    work = Rebuilds(options, paths, stores_file)
    with (
        choice.working([store.path for store in work.stores], delivery),
        counted("rebuild", quiet=delivery.hides_bar(streams=True)) as watch,
    ):
        delivery.emit(REBUILT_STORES.rows([result.row] for result in work.results(watch)))
    delivery.note(number_of(len(work.stores), "store"))
    return work.exit_code


def _rebuilt(options: RebuildOptions, delivery: Delivery) -> RebuildResult:
    from rmqtool import memory

    with memory.lasting():
        from rmqtool.rebuild.work import rebuild as build
        from rmqtool.render.progress import progress
        from rmqtool.store.tree import open_store

    total = open_store(options.store, options.broker_conf).commitlog.size
    try:
        with progress("rebuild", total, quiet=delivery.quiet) as advance:
            return build(options, advance=advance)
    except NoSuchQueue as error:
        raise _with_hint(error, options) from error


def _with_hint(error: NoSuchQueue, options: RebuildOptions) -> UsageError:
    """Say which names are like a topic that was mistyped."""
    import shlex

    from rmqtool.query.topics import topic_hints

    hints = topic_hints([options.store], options.broker_conf, [error.topic])
    section = "topics" if error.queue_id is None else "queues"
    return UsageError(
        option=error.option,
        reason="; ".join(hints) or error.reason,
        step=f"rmqtool info {shlex.quote(options.store)} --section {section}",
    )
