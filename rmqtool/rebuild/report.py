"""What a rebuild gave, as rows: its queues, its index, or where the store has something else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rmqtool.rebuild.options import Mode
from rmqtool.table import Column, Table, Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.rebuild.options import RebuildOptions, RebuildResult
    from rmqtool.rows import Row, Rows

_TROUBLE: Final = (
    Column("filler", Type.INT64, "units that stand in for lost messages", "units"),
    Column("repeated", Type.INT64, "records left out: their queue offset was taken", "records"),
    Column("misnumbered", Type.INT64, "records with a damaged queue offset", "records"),
    Column("implausible", Type.INT64, "records left out: impossible queue offset", "records"),
    Column("shifted", Type.INT64, "units that do not lie at their queue offset", "units"),
    Column("left_out", Type.TEXT, "why the queue was left out; null where it was not"),
)
QUEUES: Final = Table(
    "queues",
    "a queue that was rebuilt",
    (
        Column("kind", Type.TEXT, "what kind of queue"),
        Column("topic", Type.TEXT, "name of the topic"),
        Column("queue_id", Type.INT64, "number of the queue"),
        Column("first_queue_offset", Type.INT64, "queue offset of its first unit"),
        Column("next_queue_offset", Type.INT64, "queue offset of the next message"),
        Column("units", Type.INT64, "units written for a record", "units"),
        Column("files", Type.INT64, "files that the queue takes", "files"),
        *_TROUBLE,
    ),
    shown=(
        *("topic", "queue_id", "units", "first_queue_offset", "next_queue_offset", "files"),
        "kind",
    ),
)
INDEX: Final = Table(
    "index",
    "the key index that was rebuilt",
    (
        Column("index_files", Type.INT64, "index files", "files"),
        Column("entries", Type.INT64, "entries in them", "entries"),
    ),
)
DIFFERENCES: Final = Table(
    "differences",
    "a stretch of a file that differs from the rebuilt one",
    (
        Column("path", Type.TEXT, "file, relative to the store root"),
        Column("position", Type.INT64, "first byte that differs", "bytes"),
        Column("length", Type.INT64, "how many bytes", "bytes"),
        Column("expected", Type.TEXT, "what the rebuilt file has"),
        Column("actual", Type.TEXT, "what the store has"),
    ),
)


def rows_of(options: RebuildOptions, result: RebuildResult) -> Rows:
    """Give what was asked for as rows to be written."""
    if result.mode is Mode.CHECK:
        return DIFFERENCES.rows([list(_differences(result))])
    if not options.target.has_queues:
        return INDEX.rows([[{name: getattr(result, name) for name in INDEX.names}]])
    rows = list(_queues(result))
    trouble = [one.name for one in _TROUBLE if any(row[one.name] for row in rows)]
    # People see the columns about trouble only where there is some.
    shown = (*QUEUES.shown[:3], *trouble, *QUEUES.shown[3:])
    return replace(QUEUES, shown=shown).rows([rows])


def _queues(result: RebuildResult) -> Iterator[Row]:
    for queue in result.queues:
        tally = queue.tally
        yield {
            "kind": str(queue.kind),
            "topic": queue.topic,
            "queue_id": queue.queue_id,
            "first_queue_offset": queue.first_queue_offset,
            "next_queue_offset": queue.next_queue_offset,
            "units": tally.units,
            "files": queue.files,
            "filler": tally.filler,
            "repeated": tally.repeated,
            "misnumbered": tally.misnumbered,
            "implausible": tally.implausible,
            "shifted": tally.shifted,
            "left_out": queue.left_out or None,
        }


def _differences(result: RebuildResult) -> Iterator[Row]:
    for one in result.differences:
        yield {name: getattr(one, name) for name in DIFFERENCES.names}
