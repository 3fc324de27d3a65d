"""Rebuild what a broker derives from its commitlog: consume queues and key index.

1. `derive` gives the dispatch runs of each part of the log, in parallel, in log order.
2. `placement` says where the units of a queue belong; `consume_queue` cuts them into files.
3. `index_file` adds entries to index files as a broker does; its kernel is in `index_kernels`.
4. `sinks` take the bytes: write them into a staged tree, or compare them with those on disk.
5. `work` puts it together; `in_place` swaps the result in under the broker's lock.

From Python, as on the command line:

    from rmqtool import rebuild

    result = rebuild.consume_queues("/data/store", "/data/new", topic="orders")
    for queue in result.queues:
        print(queue.topic, queue.queue_id, queue.next_queue_offset)
    for lost in result.lost:  # not `result.is_complete`: nothing was derived from these bytes
        print(lost.path, lost.physical_offset, lost.length, lost.code)
    rebuild.index("/data/store", in_place=True)  # takes the broker's lock; can be undone
    assert not rebuild.all("/data/store", check=True).differences
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, Unpack

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from rmqtool.rebuild.options import RebuildResult, StoreType, Target

    Path = str | os.PathLike[str]


class RebuildArguments(TypedDict, total=False):
    """What every rebuild may be told; without `output`, one of the first three has to be."""

    in_place: bool  # replace what the store has, under the broker's lock and undoable
    check: bool  # compare with what the store has; write nothing
    dry_run: bool  # only say what would be written
    broker_version: str | None  # whose rules, such as `5.3.3`; by default the writer's of the store
    broker_conf: str | None  # the broker's configuration file
    jobs: int | None  # threads; by default one for each processor
    advance: Callable[[int], None]  # is told of bytes of the log that are done
    # write queues as files or as a RocksDB database; by default as the store has them, which may be
    # both
    store_type: StoreType | None


def consume_queues(
    store: Path,
    output: Path | None = None,
    *,
    topic: str | None = None,
    queue_id: int | None = None,
    like_broker: bool = False,
    ext: bool = False,
    **how: Unpack[RebuildArguments],
) -> RebuildResult:
    """Rebuild consume queues and batch queues from the commitlog.

    Args:
        store: the store root.
        output: a new directory for them.
        topic: only queues of this topic; None is all.
        queue_id: only this queue of it; None is all.
        like_broker: shift units over holes, as a broker does, instead of filling the holes.
        ext: rebuild `consumequeue_ext`, too, and let units point there.
        **how: see `RebuildArguments`.

    Returns:
        What was done, and what could not be: see `is_complete`.

    Raises:
        UsageError: the options contradict each other; `NoSuchQueue` where the log has no record
            of the topic or queue.
        StoreError: the store cannot be used, or a broker uses it.
        RepairError: it could not be written; the store is as it was, unless it is an
            `EditUnfinished`.
    """
    from rmqtool.rebuild.options import Target

    options = {"topic": topic, "queue_id": queue_id, "like_broker": like_broker, "ext": ext}
    return _rebuild(Target.QUEUES, store, output, options, how)


def index(
    store: Path,
    output: Path | None = None,
    *,
    time_zone: str = "UTC",
    **how: Unpack[RebuildArguments],
) -> RebuildResult:
    """Rebuild the key index from the commitlog.

    Args:
        store: the store root.
        output: a new directory for it.
        time_zone: of the broker's JVM, for names of files that are not there.
        **how: see `RebuildArguments`.

    Raises:
        RmqtoolError: as with `consume_queues`.
    """
    from rmqtool.rebuild.options import Target

    return _rebuild(Target.INDEX, store, output, {"time_zone": time_zone}, how)


def all(  # noqa: A001 - consume queues, index, all: it reads as what it does
    store: Path,
    output: Path | None = None,
    *,
    like_broker: bool = False,
    ext: bool = False,
    time_zone: str = "UTC",
    **how: Unpack[RebuildArguments],
) -> RebuildResult:
    """Rebuild consume queues, batch queues and key index in one pass over the commitlog.

    Args:
        store: the store root.
        output: a new directory for them.
        like_broker: shift units over holes, as a broker does, instead of filling the holes.
        ext: rebuild `consumequeue_ext`, too, and let units point there.
        time_zone: of the broker's JVM, for names of index files that are not there.
        **how: see `RebuildArguments`.

    Raises:
        RmqtoolError: as with `consume_queues`.
    """
    from rmqtool.rebuild.options import Target

    options = {"like_broker": like_broker, "ext": ext, "time_zone": time_zone}
    return _rebuild(Target.ALL, store, output, options, how)


def _rebuild(
    target: Target, store: Path, output: Path | None, options: dict[str, Any], how: RebuildArguments
) -> RebuildResult:
    """Import what does the work only now: numba is not for those who only import this."""
    import os

    from rmqtool.rebuild.options import RebuildOptions
    from rmqtool.rebuild.work import rebuild

    facts = {**options, **how}
    advance = facts.pop("advance", lambda _: None)
    where = None if output is None else os.fspath(output)
    return rebuild(RebuildOptions(os.fspath(store), target, where, **facts), advance=advance)
