"""What `rebuild`, `rebuild-cq` and `rebuild-index` do with their options: rows, summary, exit code.

Apart from their declarations, so that a plain command line needs no Typer: see `direct`.
"""

from __future__ import annotations

import gc
import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool import memory
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.engines import Choice, working
from rmqtool.cli.exits import DONE, IN_PART, NO
from rmqtool.errors import NoSuchQueue, UsageError
from rmqtool.rebuild.options import Mode, RebuildOptions, Target
from rmqtool.store.place import is_remote
from rmqtool.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.rebuild.options import RebuildResult
    from rmqtool.render.emit import Format

TARGETS: Final = {
    "rebuild": Target.ALL,
    "rebuild-cq": Target.QUEUES,
    "rebuild-index": Target.INDEX,
}
LOST_SHOWN: Final = 10
TROUBLE: Final = {
    "filler": "units that stand in for lost records, so that later ones keep their queue offset: "
    "consumers get nothing for them or, in the first segment, the message before once more",
    "repeated": "records left out, whose queue offset was taken already",
    "misnumbered": "records with a damaged queue offset; their unit is where it was missing",
    "implausible": "records left out, whose queue offset is impossible",
    "shifted": "units that are not at their queue offset, as with a broker",
}


class Asked(NamedTuple):
    """The values of a command line; names and defaults are those of the three commands.

    Attributes:
        target: what is rebuilt, as the command says.
        choice: who does the work.
    """

    target: Target
    store: str
    output: str | None = None
    in_place: bool = False
    check: bool = False
    dry_run: bool = False
    topic: str | None = None
    queue: int | None = None
    like_broker: bool = False
    ext: bool = False
    broker_version: str | None = None
    broker_conf: str | None = None
    time_zone: str = "UTC"
    jobs: int | None = None
    format_: Format | None = None
    columns: str | None = None
    color: str = "auto"
    quiet: bool = False
    choice: Choice = Choice()


def run(asked: Asked) -> int:
    """Rebuild, write the rows and the summary, give the exit code.

    Raises:
        UsageError: an option has a value that does not exist, or that contradicts another.
        RmqtoolError: the store cannot be opened at all, or the output not be written.
    """
    memory.give_back_arrays()
    delivery = Delivery(asked.format_, None, asked.columns, asked.color, asked.quiet)
    options = RebuildOptions(
        asked.store,
        asked.target,
        output=asked.output,
        in_place=asked.in_place,
        check=asked.check,
        dry_run=asked.dry_run,
        topic=asked.topic,
        queue_id=asked.queue,
        like_broker=asked.like_broker,
        ext=asked.ext,
        time_zone=asked.time_zone,
        broker_version=asked.broker_version,
        broker_conf=asked.broker_conf,
        jobs=asked.jobs,
    )
    with working(asked.choice, [asked.store], delivery):
        return _rebuild(options, delivery)


def _rebuild(options: RebuildOptions, delivery: Delivery) -> int:
    gc.disable()  # what is imported now lives to the end: looking through it takes 0.1 s
    from rmqtool.rebuild.report import rows_of
    from rmqtool.rebuild.work import rebuild
    from rmqtool.render.progress import progress
    from rmqtool.store.tree import open_store

    gc.freeze()
    gc.enable()
    total = open_store(options.store, options.broker_conf).commitlog.size
    try:
        with progress("rebuild", total, quiet=delivery.quiet) as advance:
            result = rebuild(options, advance=advance)
    except NoSuchQueue as error:
        raise _with_hint(error, options) from error
    delivery.emit(rows_of(options, result))
    for sentence in _summary(options, result):
        delivery.note(sentence)
    if not result.is_complete:
        return IN_PART
    return NO if result.differences else DONE


def _with_hint(error: NoSuchQueue, options: RebuildOptions) -> UsageError:
    """Say which names are like a topic that was mistyped."""
    from rmqtool.cli.hints import topic_hints

    hints = topic_hints([options.store], options.broker_conf, [error.topic])
    section = "topics" if error.queue_id is None else "queues"
    return UsageError(
        option=error.option,
        reason="; ".join(hints) or error.reason,
        step=f"rmqtool info {shlex.quote(options.store)} --section {section}",
    )


def _summary(options: RebuildOptions, result: RebuildResult) -> Iterator[str]:
    """Say what was done, what was not, and what to do next."""
    yield f"rules of {result.rules.version}, {result.why_rules}"
    for assumption in result.assumed:
        yield f"assumed: {assumption}; --broker-conf would tell"
    built = []
    if options.target.has_queues:
        built.append(f"{counted(len(result.queues), 'queue')} with {counted(result.units, 'unit')}")
    if options.target.has_index:
        files = counted(result.index_files, "index file")
        built.append(f"{files} with {counted(result.entries, 'entry', 'entries')}")
    yield (
        f"{' and '.join(built)} from {counted(result.records, 'record')}, {result.bytes} bytes, "
        f"in {result.seconds:.2f} s ({result.fsync_seconds:.2f} s of it waiting for the disk)"
    )
    if result.not_understood:
        count = counted(result.not_understood, "SQL92 expression")
        yield f"{count} not understood: the broker will look at each of those messages itself"
    yield from _left_out(options, result)
    yield from _outcome(options, result)


def _outcome(options: RebuildOptions, result: RebuildResult) -> Iterator[str]:
    """Say what became of the files, and what to do next."""
    if result.mode is Mode.CHECK:
        same = "the store has the same" if not result.differences else "the store differs"
        yield f"{same}; nothing was written"
        if result.differences:
            yield "next: the same command with --in-place, or with --output DIR"
    elif result.mode is Mode.DRY_RUN:
        yield "nothing was written; next: --output DIR or --in-place"
    elif result.mode is Mode.IN_PLACE and result.undo:
        store = shlex.quote(options.store)
        yield f"replaced in place; rmqtool repair --undo {store} takes it back"
        yield f"next: rmqtool validate {store}"
    elif result.mode is Mode.IN_PLACE:
        yield "the store has the same already; nothing was changed"
    else:
        yield f"written to {options.output}"
        if not is_remote(options.store):
            yield "to put them into the store, undoable, with its checkpoint: --in-place instead"


def _left_out(options: RebuildOptions, result: RebuildResult) -> Iterator[str]:
    """Name what could not be derived, with offsets."""
    for lost in result.lost[:LOST_SHOWN]:
        yield (
            f"nothing was derived from {lost.length} bytes at physical offset "
            f"{lost.physical_offset} ({lost.path}): {lost.code}"
        )
    if len(result.lost) > LOST_SHOWN:
        yield f"... and from {len(result.lost) - LOST_SHOWN} more such stretches"
    if result.lost:
        yield f"what that is, and what helps: rmqtool validate {shlex.quote(options.store)}"
    for offset in result.undispatched[:LOST_SHOWN]:
        yield f"no broker can dispatch the record at physical offset {offset}: a number is none"
    yield from _trouble(result)
    for queue in result.queues:
        if queue.left_out:
            yield f"left out: {queue.topic!r} queue {queue.queue_id}: {queue.left_out}"


def _trouble(result: RebuildResult) -> Iterator[str]:
    """Say of each kind of trouble once what it means, and in which queues it is."""
    hurt = [queue for queue in result.queues if not queue.tally.is_whole and not queue.left_out]
    for name, sentence in TROUBLE.items():
        found = [queue for queue in hurt if getattr(queue.tally, name)]
        if not found:
            continue
        total = sum(getattr(queue.tally, name) for queue in found)
        places = [
            f"{queue.topic} {queue.queue_id} ({getattr(queue.tally, name)})"
            for queue in found[:LOST_SHOWN]
        ]
        more = f" and {len(found) - LOST_SHOWN} more" if len(found) > LOST_SHOWN else ""
        where = "queue" if len(found) == 1 else "queues"
        yield f"{total} {sentence}; {where} {', '.join(places)}{more}"
