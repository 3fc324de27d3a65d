"""`rmqtool query`: from a pasted string to the message, and how that is known."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from rmqtool.cli.completion.values import broker_versions, groups, queues, topics
from rmqtool.cli.declaration import Argument, Command, Option
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.engines import EngineChoice, EngineName
from rmqtool.cli.exits import DONE, NO
from rmqtool.cli.options import BrokerConf, Jobs, StorePath, UnpackLimit
from rmqtool.cli.showing import TIMES, Bodies, Hex, TraceTopic, refuse_on_spark
from rmqtool.errors import UsageError
from rmqtool.ranges import Boundary
from rmqtool.render.look import Format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.cli.answering import Show
    from rmqtool.clock import Clock
    from rmqtool.query.requests import Request
    from rmqtool.table import Table

STANDARD_INPUT: Final = "-"
PATHS: Final = ("./", "../", "/", "~")  # what only paths begin with
MOST_AROUND: Final = 1000  # as query/store_times.py has it


@dataclass(frozen=True)
class Query(Command):
    """What index and queues say is verified with the record; where they are missing or damaged the
    log itself is searched. Exit code 1: not found, and stderr says what was searched. Spark helps
    with --scan only.

    'rmqtool query ID' and '--id ID' without a STORE say what an ID holds itself: address, time and
    physical offset.
    """

    store: StorePath = ""
    what: Annotated[
        tuple[str, ...],
        Argument(
            "WHAT",
            "An ID, a physical offset, a key, or TOPIC QUEUE OFFSET. Or a file of requests, one a "
            "line, '-' for standard input: the same, the options below, or JSON objects with their "
            "names.",
        ),
    ] = ()
    id: Annotated[
        str | None, Option("--id", "Offset message ID or unique key of the client.", "ID")
    ] = None
    key: Annotated[tuple[str, ...], Option("--key", "A key; may be repeated.", "KEY")] = ()
    topic: Annotated[
        tuple[str, ...],
        Option("--topic", "Topic of a key, a text, a queue or a time.", "TOPIC", completes=topics),
    ] = ()
    at: Annotated[
        str | None, Option("--at", "Physical offset, also inside of a record.", "OFFSET")
    ] = None
    queue: Annotated[
        str | None, Option("--queue", "Number of the queue.", "ID", completes=queues)
    ] = None
    queue_offset: Annotated[str | None, Option("--queue-offset", "Offset in the queue.", "N")] = (
        None
    )
    time: Annotated[
        str | None,
        Option(
            "--time",
            "First message stored at or after, with its neighbours; with --topic, its place in "
            f"each queue. {TIMES}",
            "TIME",
        ),
    ] = None
    around: Annotated[
        str | None,
        Option(
            "--around",
            f"Messages stored around a time, {MOST_AROUND} at most: 14:32±5m, or 14:32+-5m; 5m by "
            "default.",
            "TIME±LENGTH",
        ),
    ] = None
    boundary: Annotated[
        Boundary,
        Option("--boundary", "upper: the last one stored at or before, instead."),
    ] = Boundary.LOWER
    transaction: Annotated[
        str | None, Option("--transaction", "Transaction ID; implies --trace.", "ID")
    ] = None
    grep: Annotated[
        str | None,
        Option(
            "--grep",
            "Messages with this text in their body or properties, inflated bodies and messages of "
            "batches too: the first 1,000. All of the log is read; --topic names topics.",
            "TEXT",
        ),
    ] = None
    grep_regex: Annotated[
        str | None,
        Option("--grep-regex", "The same with a regular expression of Python, on bytes.", "REGEX"),
    ] = None
    group: Annotated[
        str | None,
        Option(
            "--group",
            "Alone or with --topic: committed offset, lag and its age, queue by queue. With an ID, "
            "key or offset: whether this consumer group has consumed the message, and the "
            "evidence; '*' asks all groups of its topic. The path of a broadcast client's "
            "offsets.json stands for that client.",
            "GROUP",
            completes=groups,
        ),
    ] = None
    trace: Annotated[
        bool,
        Option(
            "--trace",
            "Follow the message across topics, in order of time. With traces of clients, "
            "say who sent it, who consumed it, how long that took and how it ended.",
        ),
    ] = False
    trace_topic: TraceTopic = ()
    like_broker: Annotated[
        str | None,
        Option(
            "--like-broker",
            "Say what a broker of that release would answer to --time, too.",
            "VERSION",
            completes=broker_versions,
        ),
    ] = None
    explain: Annotated[bool, Option("--explain", "Show the way to the answer, step by step.")] = (
        False
    )
    scan: Annotated[
        bool | None,
        Option(
            "--scan/--no-scan",
            "Always, or never, search the log itself; by default where index or queues fail.",
        ),
    ] = None
    bodies: Bodies = Bodies()
    hex: Hex = False
    broker_conf: BrokerConf = None
    unpack_limit: UnpackLimit = None
    jobs: Jobs = None
    delivery: Delivery = Delivery()
    choice: EngineChoice = EngineChoice()

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not self.scan and (self.choice.engine is not None or self.choice.master is not None):
            reason = "needs --scan; a lookup is done at once here"
            raise UsageError(option="--engine", reason=reason)
        for option in ("grep", "grep_regex"):
            if self.scan is False and getattr(self, option) is not None:
                reason = f"cannot be combined with --{option.replace('_', '-')}"
                raise UsageError(option="--no-scan", reason=reason)

    def describe(self) -> int:
        """Write what the rows of the answer are."""
        return self.delivery.describe(self._tables(), *filter(None, [self.store]))

    def _tables(self) -> Iterator[Table]:
        """Yield the tables of the answer: of messages, of queues, of an ID alone."""
        from rmqtool.query import groups, rows
        from rmqtool.query.decoded import DECODED
        from rmqtool.query.explain import STEPS
        from rmqtool.tables.trace_table import TRACES

        if self._lone_id() is not None:
            yield DECODED
        elif self.group is not None:
            yield groups.CONSUMED if self._is_about_messages else groups.GROUP_QUEUES
        elif self.is_file or len(self.key) > 1:
            yield rows.BATCH
        else:
            is_of_queues = self.time is not None and self.topic
            table = rows.BYTES if self.hex else rows.HITS
            yield rows.TIMES if is_of_queues else table
            if self.trace or self.transaction is not None:
                yield TRACES
            if self.explain:
                yield STEPS

    def run(self) -> int:
        """Answer what was asked; 1 when something was not found."""
        if (text := self._lone_id()) is not None:
            return self._decode(text)
        self.delivery.keep_out_of(self.store)
        if self.group is not None and not self._is_about_messages:
            return self._of_group(self.group)
        from rmqtool.cli.answering import Show

        show = Show(
            self.trace or self.transaction is not None,
            self.explain,
            self.hex,
            self.bodies.options(),
            self.trace_topic,
        )
        is_spark = self.choice.engine is EngineName.SPARK or self.choice.master is not None
        refuse_on_spark(self.bodies.decoder, is_spark=is_spark)
        clock = self.delivery.clock
        wanted = self.wanted(clock)
        self.delivery.note(clock.note)
        if not self.scan:
            return self._answer(wanted, show)
        with self.choice.working([self.store], self.delivery):
            return self._answer(wanted, show)

    @property
    def _is_about_messages(self) -> bool:
        """Whether something besides a group and topics was asked for."""
        return bool(self.what or self.key or any(text is not None for _, text in self._named()))

    def _of_group(self, group: str) -> int:
        """Show how far a group is; 1 when it has no queue."""
        from rmqtool.query.groups import GROUP_QUEUES, ConsumerGroup, summary
        from rmqtool.query.sources import Sources
        from rmqtool.store.moment import looked_again
        from rmqtool.store.tree import open_store

        def look() -> tuple[str, list[dict[str, object]]]:
            with Sources(open_store(self.store, self.broker_conf)) as sources:
                consumer_group = ConsumerGroup(sources, group)
                consumer_group.require()
                return consumer_group.name, list(consumer_group.rows(self.topic))

        name, rows = looked_again(look)
        self.delivery.emit(GROUP_QUEUES.rows([rows]))
        self.delivery.note(summary(name, rows))
        return DONE if rows else NO

    def _lone_id(self) -> str | None:
        """Give the ID that is asked about without a store; None where there is a store.

        Raises:
            UsageError: there is neither.
        """
        import os

        from rmqtool.query.requests import id_problem

        others = [name for name, text in self._named() if name != "id" and text is not None]
        is_alone = not (self.what or self.key or others or self.group)
        if not self.store:
            if self.id is None or not is_alone:
                raise UsageError(option="STORE", reason="is missing; only --id ID needs none")
            if problem := id_problem(self.id):
                raise UsageError(option="--id", reason=f"no ID that RocketMQ makes: {problem}")
            return self.id
        is_id = is_alone and self.id is None and not id_problem(self.store)
        return self.store if is_id and not os.path.lexists(self.store) else None

    def _decode(self, text: str) -> int:
        import time

        from rmqtool.query.decoded import decoded
        from rmqtool.rows import turned

        rows = decoded(text, time.time_ns() // 1_000_000)
        is_table = self.delivery.wanted_format is Format.TABLE
        self.delivery.emit(turned(rows) if is_table and self.delivery.columns is None else rows)
        return DONE

    def wanted(self, clock: Clock | None = None) -> list[Request]:
        """Give the requests of the options, or of the file; a clock reads their times.

        Raises:
            UsageError: they cannot be meant.
        """
        from rmqtool.query.requests import parse_lines, request_of

        named = {name: text for name, text in self._named() if text is not None}
        if self.what:
            if named or self.key or (self.topic and self.is_file):
                raise UsageError(option="WHAT", reason="cannot be combined with other requests")
            if self.is_file:
                return list(parse_lines(_lines(self.what[0]), clock))
            return [self._pasted(clock)]
        like = None
        if self.like_broker is not None:
            from rmqtool.broker.release import Version

            like = Version.parse(self.like_broker, "--like-broker")
            if self.time is None or not self.topic:
                raise UsageError(option="--like-broker", reason="needs --time and --topic")
        return [
            request_of(
                key, topics=self.topic, boundary=self.boundary, like_broker=like, clock=clock
            )
            for key in [{**named, "key": text} for text in self.key] or [named]
        ]

    @property
    def is_file(self) -> bool:
        """Whether the requests are in a file."""
        import os

        return len(self.what) == 1 and (
            self.what[0] == STANDARD_INPUT or os.path.lexists(self.what[0])
        )

    def _pasted(self, clock: Clock | None) -> Request:
        """Understand what was pasted, one word or three.

        Raises:
            UsageError: it is written as the path of a file, and there is not one.
        """
        from rmqtool.query.requests import ByKey, pasted

        text = " ".join(self.what).strip()
        if text.startswith(PATHS):
            raise UsageError(option="WHAT", reason=f"{text}: no such file")
        request = pasted(text, clock)
        if not self.topic:
            return request
        if not isinstance(request, ByKey):
            raise UsageError(option="--topic", reason=f"is for a key, and {text} is not a key")
        return request._replace(topics=self.topic)

    def _named(self) -> Iterator[tuple[str, str | None]]:
        """Give what was asked for, by the names of `request_of`."""
        yield "id", self.id
        yield "at", self.at
        yield "queue", self.queue
        yield "queue-offset", self.queue_offset
        yield "time", self.time
        yield "around", self.around
        yield "transaction", self.transaction
        yield "grep", self.grep
        yield "grep-regex", self.grep_regex

    def _answer(self, wanted: list[Request], show: Show) -> int:
        from rmqtool.store.moment import looked_again

        return looked_again(lambda: self._look(wanted, show))

    def _look(self, wanted: list[Request], show: Show) -> int:
        from rmqtool.cli.answering import answer_consumed, answer_many, answer_one
        from rmqtool.query.lookup import Lookup
        from rmqtool.store.tree import open_store

        store = open_store(self.store, self.broker_conf)
        with Lookup(store, scan=self.scan, jobs=self.jobs) as lookup:
            if self.group is not None:
                return answer_consumed(lookup, wanted, self.group, self.delivery)
            if self.is_file or len(wanted) > 1:
                return answer_many(lookup, wanted, show, self.delivery)
            return answer_one(lookup, wanted[0], show, self.delivery)


def _lines(source: str) -> Iterator[str]:
    """Read the lines of a file or of standard input."""
    if source == STANDARD_INPUT:
        for raw in sys.stdin.buffer:
            yield raw.decode("utf-8", "replace")
        return
    try:
        with open(source, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            yield from file
    except OSError as error:
        raise UsageError(option="WHAT", reason=f"{source}: {error.strerror}") from error
