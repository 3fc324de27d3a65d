"""A directory of exports, each of what the log has got since the one before it.

1. `_places/N.json` says what batch N has: from which place of the log to which. A place names
   records by what they are, as that of a stream does, see `stream_place`.
2. `batch=N` is an export like any other. Until it has `_SUCCESS` or `_DAMAGED`, a run goes on with
   it; then the next batch begins where it ended. So each record is in exactly one batch.
3. Where the log no longer has what was exported last, or its files expired before they were, there
   is no next batch: nobody would see that records are missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from rmqtool.errors import NotAStore, OutputExists, RepairError, StoreError, Trouble, UsageError
from rmqtool.reads.export import DAMAGED, LARGEST_PLAN, NOT_OURS, PLAN, SUCCESS, fields_of
from rmqtool.reads.export_task import directory_name
from rmqtool.reads.log_end import end_of
from rmqtool.reads.options import TableName
from rmqtool.reads.stream_place import LogLoss, LossKind, StreamPlace, loss_of, place_at
from rmqtool.store.address import place_of
from rmqtool.store.fleet import fleet_of
from rmqtool.store.record_heads import LogReader
from rmqtool.tables.fleet import FLEET, STORE
from rmqtool.tables.inputs import store_of
from rmqtool.tables.selection import EVERYTHING
from rmqtool.writing.dataset import STAGING, Dataset
from rmqtool.writing.output import refuse_within

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.reads.export_options import ExportOptions
    from rmqtool.reads.log_end import End
    from rmqtool.store.tree import Store

PLACES: Final = "_places"
PLACE_FILE: Final = re.compile(r"(\d{6,})\.json")
OPTION: Final = "--since-last"
OF_STORE: Final = f"{STORE.name}="  # as the names of directories begin
FLEET_COLUMNS: Final = frozenset(column.name for column in FLEET)
_BEGIN, _END, _ASKED = "begin", "end", "asked"


class ExportLoss(StoreError):
    """What was to be exported next is gone, or what was exported last is no longer in the log."""

    @property
    def next_step(self) -> str:
        """A new directory."""
        return "export all that is there now into a new directory"


@dataclass(frozen=True, slots=True)
class ExportBatch:
    """One of the exports of a directory."""

    number: int  # from 1 on
    begin: StreamPlace  # where the log is read from
    end: StreamPlace  # place of the first record that is left for the next batch
    asked: dict[str, Any]  # what was exported, and how

    @property
    def directory(self) -> str:
        """Its name: Spark makes a column of it."""
        return f"batch={self.number:06}"

    def options(self, options: ExportOptions) -> ExportOptions:
        """Give the options of its export."""
        offsets = self.begin.physical_offset, self.end.physical_offset
        source = options.source
        return replace(
            options,
            source=replace(source, selection=replace(source.selection, offsets=offsets)),
            output=f"{options.output.rstrip('/')}/{self.directory}",
            is_settled=True,
        )


def of_stores(options: ExportOptions) -> Iterator[tuple[str, ExportOptions]]:
    """Yield the stores of a fleet, each with the options of its batches: they go to DIR/store=PATH.

    Raises:
        UsageError: files are to be split by the store, which they are; or nothing is named.
        OutputExists: the directory holds something else.
        RepairError: it lies in a store.
        WriteFailed: the system refused.
    """
    source = options.source
    if set(options.by) & FLEET_COLUMNS:
        reason = "with --since-last the files of each store are in a directory of it"
        raise UsageError(option="--partition-by", reason=reason)
    columns = source.columns and tuple(name for name in source.columns if name not in FLEET_COLUMNS)
    fleet = fleet_of(source.paths, source.stores_file)
    if not fleet.stores:
        name, reason = (fleet.refused or (("stores_file", "it names no store"),))[0]
        raise UsageError(option="STORE", reason=f"{name}: {reason}")
    top = Dataset.of(options.output)
    if not all(name.startswith(OF_STORE) for name in {*top.names()} - {STAGING}):
        reason = "exists and holds no batches of many stores: choose a new directory"
        raise OutputExists(path=str(top), reason=reason, trouble=Trouble.EXPLAINED)
    for store in fleet.stores:
        refuse_within(place_of(store.path), options.output)
    top.make()
    for store in fleet.stores:
        own = replace(source, path=store.path, paths=(), stores_file=None, columns=columns)
        place = f"{options.output.rstrip('/')}/{OF_STORE}{directory_name(STORE.name, store.name)}"
        yield store.name, replace(options, source=own, output=place)


def next_batch(options: ExportOptions) -> ExportBatch | None:
    """Give the batch that is to be exported; None when the log has nothing new.

    Args:
        options: of all batches: their directory, and no physical offsets.

    Raises:
        UsageError: another table, or a limit that says where to begin.
        OutputExists: the directory holds something else.
        RepairError: it lies in the store.
        ExportLoss: records are missing.
        StoreError: the store cannot be opened.
        WriteFailed: the system refused.
    """
    source = options.source
    if source.table is not TableName.MESSAGES:
        raise UsageError(option=OPTION, reason="is for messages")
    if source.selection.offsets != EVERYTHING:
        raise UsageError(option=OPTION, reason="chooses the offsets itself: leave --offsets out")
    top = Dataset.of(options.output)
    asked = _asked(options)
    last = _last(top, asked)
    store = store_of(source.path, source.broker_conf, None)
    log = store.commitlog
    if not log:
        nothing = NotAStore if last is None else ExportLoss
        raise nothing(path=source.path, reason="has no commitlog")
    end = end_of(store)
    with LogReader(log) as reader:
        if last is not None:
            is_done = _is_done(top, last, options)
            _refuse_loss(store, reader, last, end, is_done=is_done)
            if not is_done:
                return last
        begin = StreamPlace(log.start) if last is None else last.end
        if end.physical_offset <= begin.physical_offset:
            return None
        place = place_at(log, reader, *end, begin, begin.physical_offset)
    batch = ExportBatch(1 if last is None else last.number + 1, begin, place, asked)
    refuse_within(place_of(source.path), options.output)
    top.make()
    fields = {_ASKED: asked, _BEGIN: begin.given(), _END: place.given()}
    top.write(_name(batch.number), orjson.dumps(fields, option=orjson.OPT_INDENT_2) + b"\n")
    top.remove(STAGING)
    return batch


def _asked(options: ExportOptions) -> dict[str, Any]:
    """Say what all batches have in common: else they are no one table."""
    source = options.source
    return {
        "columns": list(options.names),
        "format": str(options.form),
        "partition_by": list(options.by),
        "limits": repr(source.selection),
        "body": repr(source.body),
        "fillers": source.fillers,
    }


def _last(top: Dataset, asked: dict[str, Any]) -> ExportBatch | None:
    """Give the newest batch. Raises OutputExists: the directory holds something else."""
    names = top.names()
    known = Dataset(top.place.child(PLACES)).names() if PLACES in names else []
    numbers = [int(match[1]) for match in map(PLACE_FILE.fullmatch, known) if match]
    if not numbers:
        if set(names) - {STAGING, PLACES}:
            reason = "exists and holds no batches of an export: choose a new directory"
            raise OutputExists(path=str(top), reason=reason, trouble=Trouble.EXPLAINED)
        return None
    number = max(numbers)
    path = f"{top}/{_name(number)}"
    fields = fields_of(top.read(_name(number), LARGEST_PLAN) or b"", path)
    try:
        begin, end = StreamPlace.of(fields[_BEGIN]), StreamPlace.of(fields[_END])
        before = dict(fields[_ASKED])
        offsets = range(begin.physical_offset, end.physical_offset)  # no texts, and not backward
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RepairError(path=path, reason=NOT_OURS) from error
    if not offsets:
        raise RepairError(path=path, reason=NOT_OURS)
    if differing := next((name for name in asked if before.get(name) != asked[name]), ""):
        reason = f"holds batches of another export ({differing} differs): choose a new directory"
        raise OutputExists(path=str(top), reason=reason, trouble=Trouble.EXPLAINED)
    return ExportBatch(number, begin, end, before)


def _is_done(top: Dataset, batch: ExportBatch, options: ExportOptions) -> bool:
    """Tell whether a batch is exported to its end.

    Raises:
        OutputExists: it has other bytes than its place says: two runs began it at once.
    """
    there = Dataset(top.place.child(batch.directory))
    if not {SUCCESS, DAMAGED} & {*there.names()}:
        return False
    plan = fields_of(there.read(PLAN, LARGEST_PLAN) or b"", f"{there}/{PLAN}")
    if plan.get("limits") != repr(batch.options(options).source.selection):
        reason = "has other offsets than its place says: two runs began it at once. Remove both"
        raise OutputExists(path=str(there), reason=reason, trouble=Trouble.EXPLAINED)
    return True


def _refuse_loss(
    store: Store, reader: LogReader, last: ExportBatch, end: End, *, is_done: bool
) -> None:
    """Refuse to go on where the log has no longer what was exported, or is to be exported.

    Raises:
        ExportLoss: that is so.
    """
    log, path = store.commitlog, str(store.root)
    begin, log_end = last.begin.physical_offset, end.physical_offset
    loss = loss_of(last.end, log, reader, log_end=log_end)
    if not is_done and begin < log.start:
        loss = LogLoss(LossKind.EXPIRED, begin, log.start, log.start)
    if loss is not None:
        raise ExportLoss(path=path, reason=_reason(loss))


def _name(number: int) -> str:
    return f"{PLACES}/{number:06}.json"


def _reason(loss: LogLoss) -> str:
    size = f"{loss.end - loss.begin:,} bytes, physical offsets {loss.begin} to {loss.end}"
    if loss.kind is LossKind.EXPIRED:
        return f"commitlog files were deleted before they were exported: {size}, are missing"
    return (
        f"the commitlog was cut after it was exported. It differs in {size}: records there that "
        "were exported may be gone, and other ones may be in their place"
    )
