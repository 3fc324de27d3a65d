"""A prediction in one sentence, for a person who has to decide now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.words import counted

if TYPE_CHECKING:
    from rmqtool.startup.prediction import Loss, Prediction


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
    return f"{when}a {prediction.version} broker would {_outcome(prediction)}"


def _outcome(prediction: Prediction) -> str:
    if prediction.refusals:
        return "refuse to start"
    if not prediction.starts:
        return "never come up"
    kind = "normal" if prediction.stopped_cleanly else "abnormal"
    return f"start after {kind} recovery"


def _cost(prediction: Prediction, *, is_validated: bool) -> str:
    """Say what it costs; of a refusal, what it is about."""
    parts = list(_losses(prediction))
    if prediction.segments_deleted:
        parts.append(f"{counted(len(prediction.segments_deleted), 'segment')} deleted")
    if prediction.refusals:
        first = prediction.refusals[0]
        more = len(prediction.refusals) - 1
        also = f", and {counted(more, 'reason')} more" if more else ""
        return "; ".join([f"{first.path}: {first.reason}{also}", *parts])
    if shifted := sum(bool(queue.units_shifted) for queue in prediction.queues):
        parts.append(f"offsets of {counted(shifted, 'queue')} shifted")
    if prediction.failed_topic is not None:
        parts.append("no queue would be written any more")
    if prediction.has_no_log and prediction.queues:
        parts.append("there is no commitlog, so every queue would be deleted")
    parts += [step.message for step in prediction.further]
    if missing := prediction.missing.messages:
        if not parts:
            parts.insert(0, "starting it loses nothing more")
        verb = "is" if missing == 1 else "are"
        parts.append(f"{counted(missing, 'message')} {verb} already missing")
    elif not prediction.costs:
        is_whole = is_validated or not prediction.files_unread
        parts.insert(0, "no message lost" if is_whole else "this start loses no message")
    return ", ".join(parts)


def _losses(prediction: Prediction) -> list[str]:
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
