"""Tables of few rows, which lie in several places: one task reads them all.

What they hold is what `info`, `query --group`, `dump` and `doctor` say of a store.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker.names import SCHEDULE_TOPIC
from rmqtool.errors import UnreadablePath
from rmqtool.findings.registry_layout import FS_READ
from rmqtool.formats.config_names import DELAYS_JSON
from rmqtool.formats.config_shapes import delay_offsets
from rmqtool.info.overview import overview
from rmqtool.info.overview_rows import table as section_table
from rmqtool.query.groups import GROUP_QUEUES, ConsumerGroup, known_groups
from rmqtool.query.sources import Sources
from rmqtool.queues.discovery import Queues
from rmqtool.reads.options import SourceOptions, TableName
from rmqtool.rows import rows_of
from rmqtool.scan.batch import Extent
from rmqtool.table import Column, Table, Type
from rmqtool.tables.inputs import store_of
from rmqtool.tables.lost_messages import LOST_MESSAGES
from rmqtool.tables.pending import pending_chunks
from rmqtool.tables.pending_tables import PENDING_TIMERS, POP_IN_FLIGHT
from rmqtool.tables.trace_table import TRACES
from rmqtool.tables.views import PENDING_TIMERS as TIMERS
from rmqtool.tables.views import POP_IN_FLIGHT as IN_FLIGHT
from rmqtool.tables.views import TRACES as TRACE_VIEW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.rows import Row
    from rmqtool.store.tree import Store

DAMAGE: Final = ("extent", "code", "reason")  # columns of what could not be read
DELAY_OFFSETS: Final = Table(
    "delay_offsets",
    "how far a delay level was delivered",
    (
        Column("delay_level", Type.INT32, "number of the level, from 1 on"),
        Column("delivered_offset", Type.INT64, "queue offset of the next message of the level"),
        Column("end_offset", Type.INT64, "queue offset past the last message of the level"),
        Column("waiting", Type.INT64, "messages of the level that were not delivered"),
    ),
)

LOST_WITH_REASON: Final = replace(
    LOST_MESSAGES,
    columns=(*LOST_MESSAGES.columns, *(PENDING_TIMERS[name] for name in ("extent", "reason"))),
)


class SmallTable(NamedTuple):
    """A table of few rows."""

    table: Table  # its columns
    rows: Callable[[SourceOptions], Iterator[Row]]  # its rows; times are text, or ms
    word: str = ""  # of the view of `dump` that shows it; empty where none does

    def readable(self, options: SourceOptions) -> Iterator[Row]:
        """Give the rows; where something stops them, the last one says what.

        Raises:
            StoreError: the store cannot be opened.
        """
        try:
            yield from self.rows(options)
        except UnreadablePath as error:
            yield unread_row(error.path, error.reason)


def _with_damage(table: Table) -> Table:
    """Give a table with columns for what could not be read."""
    return replace(table, columns=(*table.columns, *(PENDING_TIMERS[name] for name in DAMAGE)))


def _of_store(
    rows: Callable[[Store], Iterator[Row]],
) -> Callable[[SourceOptions], Iterator[Row]]:
    """Let rows that need a store alone be asked by the options of a read."""
    return lambda options: rows(store_of(options.path, options.broker_conf, None))


def _section(name: str) -> SmallTable:
    table = section_table(name)

    def rows(store: Store) -> Iterator[Row]:
        for section, section_rows in overview(store, [name, "problems"]):
            if section == name:
                yield from map(table.row, section_rows)
            else:
                yield from (unread_row(problem.path, problem.reason) for problem in section_rows)

    return SmallTable(_with_damage(table), _of_store(rows))


def unread_row(path: str, reason: str) -> Row:
    """Give the row that stands for what could not be read."""
    values = (str(Extent.GAP), str(FS_READ), f"{path}: {reason}")
    return dict(zip(DAMAGE, values, strict=True))


def _pending(table: Table, word: str) -> SmallTable:
    def rows(store: Store) -> Iterator[Row]:
        for chunk in pending_chunks(word, [store], []):
            yield from rows_of(chunk)

    return SmallTable(table, _of_store(rows), word)


def _group_rows(store: Store) -> Iterator[Row]:
    """Yield how far each group is in each of its queues."""
    with Sources(store, scan=False) as sources:
        for name in known_groups(store):
            yield from ConsumerGroup(sources, name).rows()


def _delay_rows(store: Store) -> Iterator[Row]:
    """Yield how far each delay level is."""
    levels = delay_offsets(store.config(DELAYS_JSON).document)
    with Queues(store) as queues:
        spans = {queue.queue_id: queue.span() for queue in queues.queues_of(SCHEDULE_TOPIC)}
        for level in sorted({*levels, *(number + 1 for number in spans)}):
            span, delivered = spans.get(level - 1), levels.get(level)
            end = waiting = None
            if span is not None:
                end = span.max_offset
                waiting = max(end - max(delivered or 0, span.min_offset), 0)
            yield dict(zip(DELAY_OFFSETS.names, (level, delivered, end, waiting), strict=True))


def _lost_rows(options: SourceOptions) -> Iterator[Row]:
    """Yield the account of loss: lost and doubtful messages, as `doctor` lists them."""
    from rmqtool.check.options import ValidateOptions
    from rmqtool.check.validate import validate
    from rmqtool.query.lost import lost_messages
    from rmqtool.startup.account import account_of

    run = validate(ValidateOptions(options.path, broker_conf=options.broker_conf))
    findings = list(run)
    store = store_of(options.path, options.broker_conf, None)
    account = account_of(store, run.summary.codes)
    yield from lost_messages(store, findings, account and account.numbers)


SMALL: Final = {
    TableName.PENDING_TIMERS: _pending(PENDING_TIMERS, TIMERS),
    TableName.POP_IN_FLIGHT: _pending(POP_IN_FLIGHT, IN_FLIGHT),
    TableName.TRACES: _pending(TRACES, TRACE_VIEW),
    TableName.TOPICS: _section("topics"),
    TableName.QUEUES: _section("queues"),
    TableName.GROUPS: _section("groups"),
    TableName.CHECKPOINT: _section("checkpoint"),
    TableName.CONSUMER_OFFSETS: SmallTable(_with_damage(GROUP_QUEUES), _of_store(_group_rows)),
    TableName.DELAY_OFFSETS: SmallTable(_with_damage(DELAY_OFFSETS), _of_store(_delay_rows)),
    TableName.LOST_MESSAGES: SmallTable(LOST_WITH_REASON, _lost_rows),
}
