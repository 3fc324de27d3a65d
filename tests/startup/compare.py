"""A prediction against what a real message store did: the list of differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqtool.startup import Prediction
    from tests.startup.oracle import Observation
    from tests.startup.rocks_oracle import RocksSeen

JAVA_THREW = -1  # a minimum that cannot be read
_COMPARED: tuple[str, ...] = ("commitlog", "consumequeue", "batchconsumequeue")


def differences(
    prediction: Prediction, files_before: dict[str, set[str]], seen: Observation
) -> list[str]:
    """Give one sentence for each difference."""
    return list(_differences(prediction, files_before, seen))


def rocks_differences(
    prediction: Prediction, seen: RocksSeen, settings: Mapping[str, object]
) -> Iterator[str]:
    """Yield what a real store with queues in RocksDB did otherwise than was foretold.

    Args:
        prediction: of the start.
        seen: of all its queues.
        settings: of the broker.
    """
    yield from _equal("loads", prediction.refusals == (), seen.loaded)
    if not seen.loaded or prediction.refusals:
        return
    yield from _equal("log", (prediction.log_minimum, prediction.log_maximum), seen.log)
    is_combined = "rocksdbCQDoubleWriteEnable" in settings
    is_file_read = is_combined and "combineCQPreferCQType" not in settings
    outcomes = {
        (queue.topic, queue.queue_id, queue.in_rocksdb): queue for queue in prediction.queues
    }
    for key, (minimum, maximum, delivered) in seen.queues.items():
        if read := outcomes.get((*key, not is_file_read)):
            yield from _equal(str(key), (read.maximum, read.readable), (maximum, delivered))
            if minimum != JAVA_THREW:
                yield from _equal(f"minimum of {key}", read.minimum, minimum)
        if is_combined and (second := outcomes.get((*key, True))):
            ends = second.minimum, second.maximum
            yield from _equal(f"second store, {key}", ends, seen.second[key])


def _differences(
    prediction: Prediction, files_before: dict[str, set[str]], seen: Observation
) -> Iterator[str]:
    if seen.loaded is bool(prediction.refusals):
        yield f"loads: predicted {prediction.refusals or 'yes'}, was {seen.loaded}"
    yield from _files(prediction, files_before, seen)
    yield from _index(prediction, files_before.get("index", set()), seen)
    if not seen.loaded or prediction.refusals:
        return
    hangs = prediction.dispatched is not None and prediction.dispatched.hangs_at is not None
    yield from _equal("hangs", hangs, seen.hangs)
    yield from _equal("log", (prediction.log_minimum, prediction.log_maximum), seen.log)
    assert prediction.dispatched is not None
    yield from _equal("dispatch goes on at", prediction.dispatched.end, seen.dispatch_position)
    yield from _offsets(prediction, seen)
    if not hangs:
        yield from _delivered(prediction, seen)


def _equal(what: str, predicted: object, was: object) -> Iterator[str]:
    if predicted != was:
        yield f"{what}: predicted {predicted}, was {was}"


def _files(
    prediction: Prediction, files_before: dict[str, set[str]], seen: Observation
) -> Iterator[str]:
    gone = {*prediction.segments_deleted}
    created = set()
    for queue in prediction.queues:
        gone |= {*queue.deleted_files}
        created |= {*queue.created_files}
    for directory in _COMPARED:
        new = {path for path in created if path.startswith(f"{directory}/")}
        expected = (files_before.get(directory, set()) - gone) | new
        was = seen.files.get(directory, set())
        for path in sorted(expected - was):
            yield f"{path}: predicted to stay, was deleted"
        # In which order queues are loaded is the file system's: what comes after the one that is
        # refused stays as it is.
        after = gone if not seen.loaded and prediction.refusals else set()
        for path in sorted(was - expected - after):
            yield f"{path}: predicted to go, stayed"


def _index(prediction: Prediction, before: set[str], seen: Observation) -> Iterator[str]:
    was = seen.files.get("index", set())
    for path in prediction.index.kept:
        if path not in was:
            yield f"{path}: predicted to stay, was deleted"
    for path in prediction.index.deleted:
        if path in was:
            yield f"{path}: predicted to go, stayed"
    new = was - before
    made = prediction.index.files_created
    # A file is named by the millisecond in which it is made: those of one millisecond are one.
    if not min(made, 1) <= len(new) <= made:
        yield f"index files made: predicted {made}, was {len(new)}"
    elif len(new) == made:
        entries = prediction.index.entries_kept + prediction.index.entries_added
        was_entries = sum(
            seen.index_entries.get(path, 0) for path in {*prediction.index.kept} | new
        )
        yield from _equal("index entries", entries, was_entries)


def _offsets(prediction: Prediction, seen: Observation) -> Iterator[str]:
    predicted = {(queue.topic, queue.queue_id): queue for queue in prediction.queues}
    for key in sorted({*predicted, *seen.queues}):
        queue = predicted.get(key)
        expected = (queue.minimum, queue.maximum) if queue else (0, 0)
        yield from _equal(f"offsets of {key}", expected, seen.queues.get(key, (0, 0)))


def _delivered(prediction: Prediction, seen: Observation) -> Iterator[str]:
    for queue in prediction.queues:
        key = queue.topic, queue.queue_id
        was = seen.delivered.get(key, 0)
        yield from _equal(f"messages delivered of {key}", queue.readable, was)
