"""Export a table of a store to many files, as a job that can be taken up again, here or on Spark.

1. The store is cut into tasks, as for a read. `_export.json` in the target says what is exported,
   from which bytes and how it was cut.
2. Each task writes its files and then its receipt. A file appears at once and complete.
3. When every task has a receipt and nothing was unreadable, `_SUCCESS` says so; where rows tell of
   damage, `_DAMAGED` does: all that can be read is there, and some of the store is not as it was.

A second run does what has no receipt, or finds one of both marks and does nothing. Where
`_export.json` says something else, or is missing, it refuses: two exports are never mixed.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from rmqtool import __version__
from rmqtool.errors import OutputExists, RepairError, Trouble
from rmqtool.reads.export_task import RECEIPTS, ExportTask, NumberedTask, Receipt
from rmqtool.reads.fleet import AnyTask, FleetTask, tasks
from rmqtool.reads.plan import packs
from rmqtool.reads.tasks import FilesTask, LogTask
from rmqtool.store.address import place_of
from rmqtool.store.fleet import FleetStore
from rmqtool.writing.dataset import STAGING, Dataset
from rmqtool.writing.output import refuse_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.engine import Engine
    from rmqtool.reads.export_options import ExportOptions
    from rmqtool.reads.options import SourceOptions

SUCCESS: Final = "_SUCCESS"
DAMAGED: Final = "_DAMAGED"
PLAN: Final = "_export.json"
NOT_OURS: Final = "is not what an export has written"
LARGEST_PLAN: Final = 1 << 20
LARGEST_RECEIPT: Final = 16 << 20
OURS: Final = re.compile(r"part-\d{6,}-\d{4,}\.(parquet|csv|jsonl)")


@dataclass(slots=True)
class ExportResult:
    """What was done."""

    files: int = 0  # in the target, all runs together
    rows: int = 0  # in them
    damaged: int = 0  # rows that tell of damage
    bytes: int = 0  # of the files
    read: int = 0  # bytes of the store that were read
    tasks: int = 0  # all of them
    resumed: int = 0  # tasks that an earlier run had done
    unread: list[str] = field(default_factory=list)  # what could not be read
    # files that a running broker deleted before they were read
    expired: list[str] = field(default_factory=list)
    was_complete: bool = False  # an earlier run had done it all

    @property
    def is_complete(self) -> bool:
        """Whether all could be read."""
        return not self.unread

    def add(self, receipt: Receipt) -> None:
        """Count what a task did."""
        self.files += len(receipt.files)
        self.rows += receipt.rows
        self.damaged += receipt.damaged
        self.bytes += receipt.bytes
        self.read += receipt.read
        self.unread += [path for path in receipt.unread if path not in self.unread]
        self.expired += [path for path in receipt.expired if path not in self.expired]

    def merge(self, other: ExportResult) -> None:
        """Count what was done of another store."""
        for name in ("files", "rows", "damaged", "bytes", "read", "tasks", "resumed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.unread += other.unread
        self.expired += other.expired


class ExportRun:
    """One run.

    Args:
        options: what is asked.

    Raises:
        UsageError: an option does not fit the store.
        StoreError: the store cannot be opened.
        OutputExists: the target has something else.
    """

    def __init__(self, options: ExportOptions) -> None:
        self._options = options
        self._target = Dataset.of(options.output)
        source = options.source
        planned = tasks(source)
        # Of one store, a file each; a fleet may have many more small segments than files are good.
        some = packs(planned, source) if source.is_fleet else ((task,) for task in planned)
        self._tasks = [NumberedTask(*pair) for pair in enumerate(some)]
        self._plan = _json(_plan(options, self._tasks))
        self._files: set[str] = set()
        self._result = ExportResult(tasks=len(self._tasks))
        self._open()

    @property
    def total_bytes(self) -> int:
        """How much there is to read."""
        return sum(task.length for task in self._tasks)

    def finished(self) -> ExportResult | None:
        """Give what an earlier run did, if it did all of it.

        Raises:
            RepairError: what that run needed cannot be removed.
        """
        content = self._target.read(SUCCESS, LARGEST_PLAN) or self._target.read(
            DAMAGED, LARGEST_PLAN
        )
        if content is None:
            return None
        self._clear()  # it may have been killed after the mark
        return ExportResult(**{**fields_of(content), "was_complete": True})

    def run(self, engine: Engine, advance: Callable[[int], None] = lambda _: None) -> ExportResult:
        """Do what is left to do.

        Args:
            engine: runs the tasks.
            advance: told of bytes that are done.

        Raises:
            RepairError: something could not be written.
            SparkFailed: executors were lost, again and again.
        """
        function = ExportTask(self._options, self._target)
        left = list(self._left(advance))
        lengths = {task.number: task.length for task in left}
        for receipt in engine.run(function, left):
            self._take(receipt)
            advance(lengths[receipt.number])
        self._finish()
        return self._result

    def _open(self) -> None:
        """Take up the target, or begin it."""
        target = self._target
        names = target.names()
        if not set(names) - {STAGING}:  # with it: a run was killed before it said what it was
            for path in self._stores():
                refuse_within(place_of(path), self._options.output)
            target.make()
            target.write(PLAN, self._plan)
            return
        there = target.read(PLAN, LARGEST_PLAN) if PLAN in names else None
        if there is None:
            reason = "exists and holds no export: choose a new directory"
            raise OutputExists(path=str(target), reason=reason, trouble=Trouble.EXPLAINED)
        if there != self._plan:
            differing = _difference(there, self._plan)
            reason = f"holds another export ({differing} differs): choose a new directory"
            raise OutputExists(path=str(target), reason=reason, trouble=Trouble.EXPLAINED)

    def _stores(self) -> Iterator[str]:
        """Give the stores that are read."""
        if not self._options.source.is_fleet:
            yield self._options.source.path
            return
        paths = (task.store.path for some in self._tasks for task in some.tasks
                 if isinstance(task, FleetTask))  # fmt: skip
        yield from dict.fromkeys(paths)

    def _left(self, advance: Callable[[int], None]) -> Iterator[NumberedTask]:
        """Yield the tasks without a receipt, and those that could not read everything."""
        there = set(self._receipts())
        for task in self._tasks:
            name = Receipt(task.number).name
            raw = None
            if name.rpartition("/")[2] in there:
                raw = self._target.read(name, LARGEST_RECEIPT)
            receipt = None if raw is None else Receipt(**fields_of(raw))
            if receipt is None or receipt.unread:
                yield task
                continue
            self._result.resumed += 1
            self._take(receipt)
            advance(task.length)

    def _take(self, receipt: Receipt) -> None:
        self._result.add(receipt)
        self._files.update(receipt.files)

    def _receipts(self) -> list[str]:
        if RECEIPTS not in self._target.names():
            return []
        return Dataset(self._target.place.child(RECEIPTS)).names()

    def _finish(self) -> None:
        """Say that all is there, if it is, and clear away what does not belong to it.

        A run that was killed, or could not read something, may have left files of a task which
        the same task did not write again.
        """
        for name in self._target.files():
            if name not in self._files and OURS.fullmatch(name.rpartition("/")[2]):
                self._target.remove(name)
        self._target.remove(STAGING)
        if not self._result.is_complete:
            return
        mark = DAMAGED if self._result.damaged else SUCCESS
        self._target.write(mark, _json(asdict(self._result)))
        self._clear()

    def _clear(self) -> None:
        """Remove what tells runs what is done, and where files were made."""
        for name in (RECEIPTS, STAGING):
            self._target.remove(name)


def _plan(options: ExportOptions, numbered: list[NumberedTask]) -> dict[str, Any]:
    """Say what is exported: where this differs, files of two runs do not belong together."""
    source = options.source
    cuts = hashlib.sha256()
    for numbered_task in numbered:
        for task in numbered_task.tasks:
            cuts.update(repr(_cut(task, is_settled=options.is_settled)).encode())
    return {
        "rmqtool": __version__,
        "store": _store_text(source),
        "table": str(source.table),
        "format": str(options.form),
        "columns": list(options.names),
        "partition_by": list(options.by),
        "target_file_size": options.target_file_size,
        "limits": repr(source.selection),
        "body": repr(source.body),
        "fillers": source.fillers,
        "scope": str(source.scope),
        "tasks": len(numbered),
        "content": cuts.hexdigest(),
    }


def _store_text(source: SourceOptions) -> str | list[str]:
    """Name the stores; a URI may hold credentials."""
    if not source.is_fleet:
        return str(place_of(source.path))
    named = [FleetStore(path).name for path in source.paths]
    return [*named, *([source.stores_file] if source.stores_file else [])]


def _cut(task: AnyTask, *, is_settled: bool) -> tuple[object, ...]:
    """Say which bytes a task reads, and what tells that they are still the same."""
    if isinstance(task, FleetTask):
        return task.store.name, task.store.broker, *_cut(task.task, is_settled=is_settled)
    if isinstance(task, LogTask):
        part = task.part
        if is_settled:
            return part.segment.path, part.begin, part.end
        return part.segment.path, part.segment.size, part.segment.mtime_ms, part.begin, part.end
    if isinstance(task, FilesTask):
        entries = [(file.path, file.place.stat()) for file in task.files]
        return tuple((path, entry and (entry.size, entry.mtime_ns)) for path, entry in entries)
    return (type(task).__name__,)


def _difference(there: bytes, wanted: bytes) -> str:
    """Name the first thing in which two plans differ."""
    try:
        before, now = fields_of(there), fields_of(wanted)
    except RepairError:
        return "its description"
    return next((name for name in now if before.get(name) != now[name]), "its description")


def fields_of(raw: bytes, path: str = PLAN) -> dict[str, Any]:
    """Read what an earlier run wrote.

    Args:
        raw: of a file.
        path: of the file.

    Raises:
        RepairError: somebody else has written it.
    """
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError:
        fields = None
    if not isinstance(fields, dict):
        raise RepairError(path=path, reason=NOT_OURS)
    return fields


def _json(value: dict[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n"
