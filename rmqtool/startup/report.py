"""A prediction as rows: the verdict, what is lost, what happens step by step, each queue."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from rmqtool.plural import counted
from rmqtool.table import Column, Table, Type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.rows import Row, Rows
    from rmqtool.startup.prediction import Loss, Prediction
    from rmqtool.startup.queue_outcomes import QueueOutcome


VERDICT: Final = Table(
    "verdict",
    "the outcome as a whole",
    (
        Column("broker_version", Type.TEXT, "release whose start is predicted"),
        Column("is_proven", Type.BOOLEAN, "brokers of this release were compared with predictions"),
        Column("starts", Type.BOOLEAN, "the broker would start"),
        Column("recovery", Type.TEXT, "normal after a clean stop, otherwise abnormal"),
        Column("messages_lost", Type.INT64, "messages that this start loses", "messages"),
        Column("first_lost_time", Type.TIME, "when the oldest lost message was stored"),
        Column("last_lost_time", Type.TIME, "when the newest lost message was stored"),
        Column(
            "messages_unreachable",
            Type.INT64,
            "messages of the log that their own queue would not lead to",
            "messages",
        ),
        Column(
            "messages_misdelivered",
            Type.INT64,
            "messages that consumers of another topic or queue would get",
            "messages",
        ),
        Column(
            "messages_unrouted",
            Type.INT64,
            "messages in reach of topics that are not configured: no client finds a route to them",
            "messages",
        ),
        Column(
            "messages_missing",
            Type.INT64,
            "messages lost earlier: queues have a place for them, and no file holds them whole",
            "messages",
        ),
        Column("segments_deleted", Type.INT64, "files of the log that this start deletes", "files"),
        Column("log_end", Type.INT64, "physical offset where the log would end", "bytes"),
        Column("verdict", Type.TEXT, "the same in a sentence"),
    ),
    shown=(
        *("recovery", "messages_lost", "messages_unreachable", "messages_missing"),
        *(
            "messages_misdelivered",
            "messages_unrouted",
            "segments_deleted",
            "log_end",
            "starts",
            "first_lost_time",
            "last_lost_time",
            "is_proven",
        ),
    ),
)
LOSSES: Final = Table(
    "losses",
    "messages of one topic that would be lost, in one way",
    (
        Column(
            "loss",
            Type.TEXT,
            "lost, missing, cut, unlisted, misdelivered, unrouted, light, compacted or "
            "deleted-topic",
        ),
        Column("topic", Type.TEXT, "name of the topic"),
        Column("messages", Type.INT64, "how many", "messages"),
        Column("first_store_time", Type.TIME, "when the oldest of them was stored"),
        Column("last_store_time", Type.TIME, "when the newest of them was stored"),
    ),
    shown=("messages", "topic", "loss", "first_store_time", "last_store_time"),
)
STEPS: Final = Table(
    "steps",
    "a thing that the broker would do",
    (
        Column("step", Type.TEXT, "what kind of step, such as recover or delete"),
        Column("path", Type.TEXT, "file or directory, relative to the store root"),
        Column("physical_offset", Type.INT64, "place in the commitlog", "bytes"),
        Column("count", Type.INT64, "records, units or entries that the step concerns"),
        Column("message", Type.TEXT, "the step in a sentence"),
    ),
    shown=("step", "message"),
    below=("message",),
)
QUEUES: Final = Table(
    "queues",
    "outcome for a queue",
    (
        Column("topic", Type.TEXT, "name of the topic"),
        Column("queue_id", Type.INT64, "number of the queue"),
        Column("min_queue_offset", Type.INT64, "queue offset of its first unit then"),
        Column("next_queue_offset", Type.INT64, "queue offset of the next message then"),
        Column("units_now", Type.INT64, "units that it has now", "units"),
        Column("units_cut", Type.INT64, "units that recovery would cut off", "units"),
        Column("units_added", Type.INT64, "units that dispatch would add", "units"),
        Column("units_shifted", Type.INT64, "units that would not lie at their offset", "units"),
        Column("readable", Type.INT64, "messages that consumers could read", "messages"),
        Column("files_deleted", Type.INT64, "files that would be deleted", "files"),
        Column("files_created", Type.INT64, "files that would be made", "files"),
        Column("queue_kind", Type.TEXT, "simple, batch or rocksdb"),
    ),
    shown=(
        *("topic", "queue_id", "next_queue_offset", "units_now", "units_cut", "units_added"),
        *("readable", "min_queue_offset", "units_shifted", "files_deleted", "files_created"),
        "queue_kind",
    ),
)
UNREAD: Final = Table(
    "unread",
    "a part of the store that this release does not read",
    (
        Column("part", Type.TEXT, "a noun; 'not known' where it is unknown whether it is read"),
        Column("path", Type.TEXT, "file or directory, relative to the store root"),
        Column("count", Type.INT64, "messages, topics or rows that it has; null: not counted"),
        Column("message", Type.TEXT, "the data that stays unread, and the effect"),
        Column("before", Type.TEXT, "what to do first, while the release that wrote it runs"),
    ),
    shown=("part", "path", "count", "message", "before"),
    below=("message", "before"),
)
TABLES: Final = (VERDICT, LOSSES, UNREAD, STEPS, QUEUES)
SECTIONS: Final = tuple(table.name for table in TABLES)
NOT_KNOWN: Final = "not known"  # the part whose reading nothing tells


def report(prediction: Prediction, *, all_queues: bool = False) -> list[Rows]:
    """Give the sections, the verdict first; an empty one is left out.

    Args:
        prediction: what would happen.
        all_queues: queues that nothing happens to, too.
    """
    changed = (queue for queue in prediction.queues.judged if queue.changes)
    queues = prediction.queues if all_queues else changed
    sections = [
        VERDICT.rows([[_verdict(prediction)]]),
        LOSSES.rows([list(_losses(prediction))]),
        UNREAD.rows([[dataclasses.asdict(unread) for unread in prediction.unread]]),
        STEPS.rows([list(steps(prediction))]),
        QUEUES.rows([[_queue(queue) for queue in queues]]),
    ]
    return [rows for rows in sections if any(rows.chunks)]


def _verdict(prediction: Prediction) -> Row:
    lost = prediction.lost
    return VERDICT.row(
        prediction,
        broker_version=prediction.version,
        recovery="normal" if prediction.stopped_cleanly else "abnormal",
        messages_lost=lost.messages,
        first_lost_time=lost.first_store_timestamp,
        last_lost_time=lost.last_store_timestamp,
        messages_unreachable=prediction.unreachable,
        messages_misdelivered=prediction.misdelivered.messages,
        messages_unrouted=prediction.unrouted.messages,
        messages_missing=prediction.missing.messages,
        segments_deleted=len(prediction.segments_deleted),
        log_end=prediction.log_maximum,
        verdict=verdict(prediction),
    )


def _losses(prediction: Prediction) -> Iterator[Row]:
    kinds: Iterable[tuple[str, Loss]] = (
        ("lost", prediction.lost),
        ("cut", prediction.cut),
        ("unlisted", prediction.unlisted),
        ("misdelivered", prediction.misdelivered),
        ("unrouted", prediction.unrouted),
        ("light", prediction.light),
        ("compacted", prediction.compacted),
        ("deleted-topic", prediction.deleted_topics),
        ("missing", prediction.missing),
    )
    for kind, loss in kinds:
        for topic in loss.topics:
            yield LOSSES.row(topic, loss=kind)


def steps(prediction: Prediction) -> Iterator[Row]:
    """Yield what happens, in order; the message says it all, the other fields are for programs."""
    yield from _live(prediction)
    for line in prediction.ignored:
        yield _step("ignore", f"broker.conf, {line}")
    for refusal in prediction.refusals:
        yield _step("refuse", f"{refusal.path}: {refusal.reason}", refusal.path)
    yield from _recovery(prediction)
    for path in prediction.segments_deleted:
        yield _step("delete", path, path)
    for path in prediction.index.deleted:
        yield _step("delete", f"{path}: newer than the checkpoint, after a crash", path)
    yield from _index(prediction)
    yield from _dispatch(prediction)
    yield from _later(prediction)
    for step in prediction.later_steps:
        yield _step(step.step, step.message, step.path, count=step.count)
    yield from _not_counted(prediction)


def _later(prediction: Prediction) -> Iterator[Row]:
    """Yield what comes after the start."""
    if count := prediction.timers:
        message = f"{counted(count, 'timer message')} waiting"
        if lost := prediction.timers_lost:
            message += f"; {lost} of them would never be delivered"
        yield _step("timers", message, "timerlog", count=count)
    if count := prediction.timers_gone:
        message = f"the records of {counted(count, 'timer message')} are gone from the log"
        yield _step("timers", message, "timerlog", count=count)
    if (expiring := prediction.retention) is not None:
        message = f"{expiring.when} the broker deletes {expiring.what}: {expiring.why}"
        yield _step("expire", message, expiring.paths[0], count=expiring.messages_deleted_soon)
    if count := prediction.files_unread:
        files = counted(count, "file")
        message = f"{files} of the log: rmqtool validate finds what is lost inside"
        yield _step("not_read", message, "commitlog", count=count)


def _not_counted(prediction: Prediction) -> Iterator[Row]:
    for caution in prediction.cautions:
        yield _step("caution", caution)
    for name in prediction.not_modelled:
        yield _step("not_modelled", f"{name}: a broker starts from it, too", name)


def _live(prediction: Prediction) -> Iterator[Row]:
    if not prediction.is_live:
        return
    message, end = "a broker runs on this store: if it died now", prediction.judged_up_to
    if end is not None:
        message += f", with the log as far as {end}"
    yield _step("live", message, None, end)


def _recovery(prediction: Prediction) -> Iterator[Row]:
    recovered = prediction.recovered
    if recovered is None:
        return
    if not recovered.first_path:
        yield _step("destroy", "there is no log, so every queue is deleted", "consumequeue")
        return
    path, count = recovered.first_path, recovered.records
    kind = "a clean stop" if prediction.stopped_cleanly else "a crash: there is `abort`"
    yield _step(
        "recover", f"{path} and on, {counted(count, 'record')}, after {kind}", path, count=count
    )
    if recovered.bytes_after_stop < recovered.bytes_read:
        message = f"{recovered.bytes_read:,} bytes are read; {recovered.bytes_after_stop:,} after "
        message += "repair --fast-start, which needs a sound store"
        yield _step("read", message, path, count=recovered.bytes_read)
    path, end = recovered.end_path, recovered.end
    reason = str(recovered.stop) if recovered.stop else "a blank closes the last file"
    yield _step("end", f"at {end}: {reason}; {path}", path, end)
    if recovered.queues_cut and (cut := sum(queue.units_cut for queue in prediction.queues.judged)):
        yield _step("cut", f"{counted(cut, 'unit')} of queues", "consumequeue", end, cut)


def _index(prediction: Prediction) -> Iterator[Row]:
    index = prediction.index
    if count := index.entries_deleted:
        yield _step(
            "delete",
            f"{counted(count, 'entry', 'entries')} of the index, with their files",
            count=count,
        )
    if count := index.entries_added:
        files = f"{counted(index.files_created, 'file')} more"
        yield _step(
            "index", f"{counted(count, 'entry is', 'entries are')} written, {files}", count=count
        )


def _dispatch(prediction: Prediction) -> Iterator[Row]:
    dispatched = prediction.dispatched
    if dispatched is None:
        return
    end, count = dispatched.end, prediction.records_dispatched
    for begin, after in dispatched.skipped:
        message = f"dispatch cannot read {begin} and goes on at {after}"
        yield _step("skip", message, None, begin, after - begin)
    if dispatched.hangs_at is not None:
        message = f"dispatch never gets beyond {end}, and the broker waits for it"
        yield _step("hang", message, None, end, count)
        return
    message = (
        f"{counted(count, 'record is', 'records are')} handed to queues; new ones from {end} on"
    )
    yield _step("dispatch", message, None, end, count)
    if end > prediction.log_maximum:
        message = f"new messages reach no queue until the log has grown to {end}"
        yield _step("dispatch", message, None, end)
    if prediction.failed_topic is not None:
        name = repr(prediction.failed_topic)
        message = f"topic {name} is not a valid file name: the broker stops writing queues"
        yield _step("fail", message, "consumequeue")


def _step(
    step: str,
    message: str,
    path: str | None = None,
    physical_offset: int | None = None,
    count: int | None = None,
) -> Row:
    return {
        "step": step,
        "path": path,
        "physical_offset": physical_offset,
        "count": count,
        "message": message,
    }


def _queue(queue: QueueOutcome) -> Row:
    return QUEUES.row(
        queue,
        min_queue_offset=queue.minimum,
        next_queue_offset=queue.maximum,
        files_deleted=len(queue.deleted_files),
        files_created=len(queue.created_files),
        queue_kind=_kind(queue),
    )


def _kind(queue: QueueOutcome) -> str:
    if queue.in_rocksdb:
        return "rocksdb"
    return "batch" if queue.is_batch else "simple"


# A prediction in one sentence, for a person who has to decide now.


def verdict(prediction: Prediction, *, is_validated: bool = False) -> str:
    """Say what the broker would do, the worst first.

    Args:
        prediction: what would happen.
        is_validated: whether the whole log was read, and is sound.
    """
    return f"{outcome(prediction)}: {_cost(prediction, is_validated=is_validated)}"


def outcome(prediction: Prediction) -> str:
    """Say whether the broker would come up, and how, without what it costs."""
    when = "if its broker died now, " if prediction.is_live else ""
    doubt = ""
    if prediction.rules_of != prediction.version:
        doubt = f" (unproven: by the rules of {prediction.rules_of})"
    elif not prediction.is_proven:
        doubt = " (unproven: by its source)"
    return f"{when}a {prediction.version} broker{doubt} would {_outcome(prediction)}"


def _outcome(prediction: Prediction) -> str:
    if prediction.refusals:
        return "refuse to start"
    if not prediction.starts:
        return "never come up"
    kind = "normal" if prediction.stopped_cleanly else "abnormal"
    return f"start after {kind} recovery"


def _cost(prediction: Prediction, *, is_validated: bool) -> str:
    """Say what it costs; of a refusal, what it is about."""
    parts = list(_loss_parts(prediction))
    if prediction.segments_deleted:
        parts.append(f"{counted(len(prediction.segments_deleted), 'segment')} deleted")
    if prediction.refusals:
        first = prediction.refusals[0]
        more = len(prediction.refusals) - 1
        also = f", and {counted(more, 'reason')} more" if more else ""
        return "; ".join([f"{first.path}: {first.reason}{also}", *parts])
    if shifted := sum(bool(queue.units_shifted) for queue in prediction.queues.judged):
        parts.append(f"offsets of {counted(shifted, 'queue')} shifted")
    if prediction.failed_topic is not None:
        parts.append("no queue would be written any more")
    if prediction.has_no_log and prediction.queues:
        parts.append("there is no commitlog, so every queue would be deleted")
    parts += [step.message for step in prediction.later_steps]
    parts += not_read(prediction)
    if missing := prediction.missing.messages:
        if not parts:
            parts.insert(0, "starting it loses nothing")
        verb = "was" if missing == 1 else "were"
        parts.append(f"{counted(missing, 'message')} {verb} lost earlier")
    elif not prediction.costs:
        is_whole = is_validated or not (prediction.files_unread or prediction.retention)
        parts.insert(0, "no message lost" if is_whole else "this start loses no message")
    if prediction.retention is not None:
        parts.append(f"later the broker deletes {prediction.retention.what}")
    return ", ".join(parts)


def not_read(prediction: Prediction) -> list[str]:
    """Say in a phrase which parts stay unread; empty where all are read."""
    names = dict.fromkeys(unread.part for unread in prediction.unread)
    parts = [name for name in names if name != NOT_KNOWN]
    phrases = [f"not read: {', '.join(parts)}"] if parts else []
    return [*phrases, *(["it is not known whether all is read"] if NOT_KNOWN in names else [])]


def _loss_parts(prediction: Prediction) -> list[str]:
    parts = []
    if lost := prediction.lost.messages:
        topics = counted(len(prediction.lost.topics), "topic")
        parts.append(f"{counted(lost, 'message')} in {topics} lost")
    if out_of_reach := prediction.unreachable:
        names = {topic.topic for loss in _unreachable(prediction) for topic in loss.topics}
        topics = counted(len(names), "topic")
        parts.append(f"{counted(out_of_reach, 'message')} in {topics} out of reach")
    if count := prediction.misdelivered.messages:
        parts.append(f"{counted(count, 'message')} delivered under another topic or queue")
    if count := prediction.unrouted.messages:
        topics = counted(len(prediction.unrouted.topics), "topic")
        parts.append(f"no client finds a route to {counted(count, 'message')} in {topics}")
    if light := prediction.light.messages:
        queues = counted(len(prediction.light.topics), "light queue")
        parts.append(f"{counted(light, 'message')} not in {queues}")
    if timers := prediction.timers_lost:
        parts.append(f"{counted(timers, 'timer message')} never delivered")
    return parts


def _unreachable(prediction: Prediction) -> tuple[Loss, ...]:
    return prediction.cut, prediction.unlisted, prediction.compacted
