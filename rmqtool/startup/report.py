"""A prediction as rows: the verdict, what is lost, what happens step by step, each queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.rows import Row, Rows
from rmqtool.startup.verdict import verdict
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.startup.prediction import Loss, Prediction, QueueFate

SECTIONS: Final = ("verdict", "losses", "steps", "queues")
VERDICT: Final = (
    "broker_version",
    "is_proven",
    "starts",
    "recovery",
    "messages_lost",
    "first_lost_time",
    "last_lost_time",
    "messages_unreachable",
    "messages_missing",
    "segments_deleted",
    "log_end",
    "verdict",
)
LOSSES: Final = ("loss", "topic", "messages", "first_store_time", "last_store_time")
STEPS: Final = ("step", "path", "physical_offset", "count", "message")
QUEUES: Final = (
    "topic",
    "queue_id",
    "min_queue_offset",
    "next_queue_offset",
    "units_now",
    "units_cut",
    "units_added",
    "units_shifted",
    "readable",
    "files_deleted",
    "files_created",
    "queue_kind",
)
_SHOWN_VERDICT: Final = (
    "recovery",
    "messages_lost",
    "messages_unreachable",
    "messages_missing",
    "segments_deleted",
    "log_end",
    "starts",
    "first_lost_time",
    "last_lost_time",
    "is_proven",
)
_SHOWN_LOSSES: Final = ("messages", "topic", "loss", "first_store_time", "last_store_time")
_SHOWN_STEPS: Final = ("step", "message")
_SHOWN_QUEUES: Final = (
    "topic",
    "queue_id",
    "next_queue_offset",
    "units_now",
    "units_cut",
    "units_added",
    "readable",
    "min_queue_offset",
    "units_shifted",
    "files_deleted",
    "files_created",
    "queue_kind",
)


def report(prediction: Prediction, *, all_queues: bool = False) -> list[Rows]:
    """Give the sections, the verdict first; an empty one is left out.

    Args:
        prediction: what would happen.
        all_queues: queues that nothing happens to, too.
    """
    queues = [queue for queue in prediction.queues if all_queues or queue.changes]
    sections = [
        Rows(VERDICT, [[_verdict(prediction)]], _SHOWN_VERDICT, "verdict"),
        Rows(LOSSES, [list(_losses(prediction))], _SHOWN_LOSSES, "losses"),
        Rows(STEPS, [list(steps(prediction))], _SHOWN_STEPS, "steps", below=("message",)),
        Rows(QUEUES, [[_queue(queue) for queue in queues]], _SHOWN_QUEUES, "queues"),
    ]
    return [rows for rows in sections if any(rows.chunks)]


def _verdict(prediction: Prediction) -> Row:
    return {
        "broker_version": prediction.version,
        "is_proven": prediction.is_proven,
        "starts": prediction.starts,
        "recovery": "normal" if prediction.stopped_cleanly else "abnormal",
        "messages_lost": prediction.lost.messages,
        "first_lost_time": _time(prediction.lost.first_timestamp),
        "last_lost_time": _time(prediction.lost.last_timestamp),
        "messages_unreachable": prediction.unreachable,
        "messages_missing": prediction.missing.messages,
        "segments_deleted": len(prediction.segments_deleted),
        "log_end": prediction.log_maximum,
        "verdict": verdict(prediction),
    }


def _time(timestamp: int | None) -> str | None:
    return None if timestamp is None else iso_time(timestamp)


def _losses(prediction: Prediction) -> Iterator[Row]:
    kinds: Iterable[tuple[str, Loss]] = (
        ("lost", prediction.lost),
        ("cut", prediction.cut),
        ("unlisted", prediction.unlisted),
        ("deleted-topic", prediction.deleted_topics),
        ("missing", prediction.missing),
    )
    for kind, loss in kinds:
        for topic in loss.topics:
            yield {
                "loss": kind,
                "topic": topic.topic,
                "messages": topic.messages,
                "first_store_time": _time(topic.first_timestamp),
                "last_store_time": _time(topic.last_timestamp),
            }


def steps(prediction: Prediction) -> Iterator[Row]:
    """Yield what happens, in order; the message says it all, the other fields are for programs."""
    for refusal in prediction.refusals:
        yield _step("refuse", f"{refusal.path}: {refusal.reason}", refusal.path)
    yield from _recovery(prediction)
    for path in prediction.segments_deleted:
        yield _step("delete", path, path)
    for path in prediction.index.deleted:
        yield _step("delete", f"{path}: newer than the checkpoint, after a crash", path)
    yield from _index(prediction)
    yield from _dispatch(prediction)
    for name in prediction.not_foretold:
        yield _step("not-foretold", f"{name}: a broker starts from it, too", name)


def _recovery(prediction: Prediction) -> Iterator[Row]:
    recovered = prediction.recovered
    if recovered is None:
        return
    if not recovered.first_path:
        yield _step("destroy", "there is no log, so every queue is deleted", "consumequeue")
        return
    path, count = recovered.first_path, recovered.records
    kind = "a clean stop" if prediction.stopped_cleanly else "a crash: there is `abort`"
    yield _step("recover", f"{path} and on, {count:,} records, after {kind}", path, count=count)
    path, end = recovered.end_path, recovered.end
    reason = str(recovered.stop) if recovered.stop else "a blank closes the last file"
    yield _step("end", f"at {end}: {reason}; {path}", path, end)
    if recovered.queues_cut and (cut := sum(queue.units_cut for queue in prediction.queues)):
        yield _step("cut", f"{cut:,} units of queues", "consumequeue", end, cut)


def _index(prediction: Prediction) -> Iterator[Row]:
    index = prediction.index
    if count := index.entries_deleted:
        yield _step("delete", f"{count:,} entries of the index, with their files", count=count)
    if count := index.entries_added:
        files = f"{index.files_created} files more"
        yield _step("index", f"{count:,} entries are written, {files}", count=count)


def _dispatch(prediction: Prediction) -> Iterator[Row]:
    dispatched = prediction.dispatched
    if dispatched is None:
        return
    end, count = dispatched.end, prediction.records_dispatched
    for begin, behind in dispatched.skipped:
        message = f"dispatch cannot read {begin} and goes on at {behind}"
        yield _step("skip", message, None, begin, behind - begin)
    if dispatched.hangs_at is not None:
        message = f"dispatch never gets beyond {end}, and the broker waits for it"
        yield _step("hang", message, None, end, count)
        return
    message = f"{count:,} records are handed to queues; new ones from {end} on"
    yield _step("dispatch", message, None, end, count)
    if end > prediction.log_maximum:
        message = f"new messages reach no queue until the log has grown to {end}"
        yield _step("dispatch", message, None, end)
    if prediction.failed_topic is not None:
        message = f"topic {prediction.failed_topic!r} is no file name: queues are written no more"
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


def _queue(queue: QueueFate) -> Row:
    return {
        "topic": queue.topic,
        "queue_id": queue.queue_id,
        "min_queue_offset": queue.minimum,
        "next_queue_offset": queue.maximum,
        "units_now": queue.units_before,
        "units_cut": queue.units_cut,
        "units_added": queue.units_appended,
        "units_shifted": queue.units_shifted,
        "readable": queue.readable,
        "files_deleted": len(queue.deleted_files),
        "files_created": len(queue.created_files),
        "queue_kind": "batch" if queue.is_batch else "simple",
    }
