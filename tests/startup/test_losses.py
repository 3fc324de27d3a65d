"""What is lost, counted on stores of real brokers against a plain reading of them."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from rmqtool.startup import Loss, Prediction, losses, predict
from rmqtool.startup.report import steps, verdict
from rmqtool.store.tree import open_store
from tests import inflict, plain_store
from tests.evidence import Evidence
from tests.startup import harm
from tests.startup.test_against_stores import ALWAYS
from tests.startup.test_against_stores import predicted as foretell_with
from tests.stores import broker_conf, fixture_names, fixture_store, manifest

NAME = "rocketmq-5.3.3-traffic"
QUEUED = (0x0, 0x8)
VERSIONS = ("4.9.3", "5.1.4", "5.2.0", "5.3.3", "5.5.0")


def predicted(root: Path, version: str, name: str = NAME) -> Prediction:
    """Foretell by a fixture's own configuration."""
    return predict(open_store(root, broker_conf(name)), version)


def counts(loss: Loss) -> dict[str, int]:
    """Give the messages by topic."""
    return {topic.topic: topic.messages for topic in loss.topics}


def topics(records: list[plain_store.Record]) -> dict[str, int]:
    """Count what belongs into queues by topic."""
    return dict(Counter(record.topic for record in records if record.transaction in QUEUED))


@pytest.mark.parametrize("name", fixture_names(scenario="traffic"))
@pytest.mark.parametrize("version", VERSIONS)
def test_sound_store_loses_nothing(
    version: str, name: str, tmp_path: Path, evidence: Evidence
) -> None:
    """No version loses a message of its own or an older broker's store."""
    root = evidence.keep(fixture_store(name, tmp_path))
    prediction = predicted(root, version, name)
    has_long_topics = version == "4.9.3" and not name.startswith("rocketmq-4")
    assert prediction.starts
    assert has_long_topics == prediction.loses


@pytest.mark.parametrize("version", VERSIONS)
def test_damage_loses_what_follows(version: str, tmp_path: Path) -> None:
    """Each whole message behind the damage, by topic, and neither the damaged nor older ones."""
    root = fixture_store("rocketmq-4.9.3-traffic", tmp_path)
    log = plain_store.records(root)
    damaged = plain_store.nth(root, 0.97)
    inflict.flip_field("body", where=0.97)(root)
    prediction = predicted(root, version, "rocketmq-4.9.3-traffic")
    behind = [record for record in log if record.physical_offset > damaged.physical_offset]
    times = [record.integer("store_timestamp") for record in behind if record.transaction in QUEUED]
    assert topics(behind) == counts(prediction.lost)
    assert (min(times), max(times)) == (
        prediction.lost.first_store_timestamp,
        prediction.lost.last_store_timestamp,
    )
    assert damaged.physical_offset == prediction.log_maximum
    assert 0 == prediction.unreachable


def test_dispatch_begins_where_queues_end(tmp_path: Path) -> None:
    """Within a file, too: 4.9 hands over each record from there on, and none before, once."""
    name = "rocketmq-4.9.3-traffic"
    root = fixture_store(name, tmp_path)
    log = plain_store.records(root)
    number = len(log) // 2
    begin = log[number].physical_offset
    assert log[number].position
    for directory in plain_store.queue_directories(root):
        for unit in plain_store.units(directory):
            if unit.physical_offset >= begin:
                inflict.write_at(unit.path, unit.position, bytes(plain_store.UNIT.size))
    prediction = predicted(root, "4.9.3", name)
    assert prediction.dispatched is not None
    assert (begin, len(log) - number) == (
        prediction.dispatched.begin,
        prediction.records_dispatched,
    )


def test_queues_gone_without_rebuild(tmp_path: Path) -> None:
    """5.1 after a clean stop rebuilds nothing: all messages stay, and reach nobody."""
    root = fixture_store(NAME, tmp_path)
    log = plain_store.records(root)
    harm.remove("consumequeue")(root)
    prediction = predicted(root, "5.1.4")
    assert topics(log) == counts(prediction.unlisted)
    assert 0 == prediction.records_dispatched
    assert not predicted(root, "5.3.3").loses


def test_unit_that_cuts_its_queue(tmp_path: Path) -> None:
    """A negative offset takes the rest of its queue away; the records stay in the log."""
    root = fixture_store(NAME, tmp_path)
    harm.write_units(-5, [(-1, 200, 0)], "traffic-orders/0")(root)
    for version in ("5.1.4", "5.3.3", "5.5.0"):
        prediction = predicted(root, version)
        # The unit itself pointed nowhere already.
        assert {"traffic-orders": 4} == counts(prediction.cut)
        assert {"traffic-orders": 1} == counts(prediction.unlisted)


def test_old_records_behind_the_tail_are_no_loss(tmp_path: Path) -> None:
    """What an earlier cut left behind has been lost long ago."""
    root = fixture_store(NAME, tmp_path)
    inflict.stale_tail(root)
    assert not predicted(root, "5.3.3").loses


@pytest.mark.parametrize("name", fixture_names(scenario="expired"))
def test_deleted_topic_is_no_loss(name: str, tmp_path: Path) -> None:
    """Messages of a topic that is configured no more, and has no queue, are not missed."""
    root = fixture_store(name, tmp_path)
    queue = plain_store.busiest_queue(root)
    harm.remove(f"consumequeue/{queue.parent.name}")(root)
    assert predicted(root, "5.1.4", name).unlisted.messages
    inflict.edit_text(
        "config/topics.json", lambda text: text.replace(queue.parent.name, "another")
    )(root)
    prediction = predicted(root, "5.1.4", name)
    assert 0 == prediction.unreachable
    assert {queue.parent.name} == {*counts(prediction.deleted_topics)}


def test_refused_store_loses_nothing(tmp_path: Path) -> None:
    """A broker that refuses at once has touched nothing."""
    root = fixture_store(NAME, tmp_path)
    inflict.cut_segment(-1, lambda size: size // 2)(root)
    prediction = predicted(root, "5.3.3")
    assert ["commitlog"] == [refusal.path.split("/")[0] for refusal in prediction.refusals]
    assert not prediction.loses
    assert not prediction.segments_deleted


def test_missing_segment(tmp_path: Path) -> None:
    """Messages that queues point to and no file holds are missing, not part of what is lost."""
    root = fixture_store(NAME, tmp_path)
    gone = plain_store.segments(root)[1]
    lost = [record for record in plain_store.records(root) if record.path == gone]
    there = {(record.topic, record.integer("queue_offset")) for record in lost}
    assert len(there) > 100
    units = {
        unit.physical_offset
        for directory in plain_store.queue_directories(root)
        for unit in plain_store.units(directory)
    }
    expected = sum(record.physical_offset in units for record in lost)
    gone.unlink()
    prediction = predicted(root, "5.3.3")
    assert expected == prediction.missing.messages
    assert not prediction.loses
    assert not prediction.is_whole
    said = f"starting it loses nothing, {expected:,} messages were lost earlier"
    assert verdict(prediction).endswith(said)


def test_no_log(tmp_path: Path) -> None:
    """Without a commitlog every message is missing, and the verdict says what happens to queues."""
    root = fixture_store(NAME, tmp_path)
    inflict.remove_log(root)
    prediction = predicted(root, "5.3.3")
    assert sum(queue.units_now for queue in prediction.queues) == prediction.missing.messages
    assert "there is no commitlog, so every queue would be deleted" in verdict(prediction)
    assert not prediction.is_whole


def test_old_records_in_files_that_go_are_a_loss(tmp_path: Path) -> None:
    """A store time far ahead makes no message stale that has a unit, or whose file goes."""
    lost = []
    for is_ahead in (False, True):
        (tmp_path / str(is_ahead)).mkdir()
        root = fixture_store(NAME, tmp_path / str(is_ahead))
        first = plain_store.records(root)[300]
        before = plain_store.records(root)[299]
        inflict.flip_bits(first.path, first.position + 4, 1)  # the magic code: recovery ends here
        if is_ahead:
            place = before.places()["store_timestamp"][0]
            inflict.flip_bits(before.path, before.position + place + 2, 1)
        (root / "abort").touch()
        (root / "checkpoint").unlink()
        lost.append(predicted(root, "5.3.3").lost.messages)
    assert lost[0] == lost[1] > 0


def test_empty_queue_file_is_no_segment(tmp_path: Path) -> None:
    """What a broker deletes of a queue while it loads is not counted with the log."""
    root = fixture_store(NAME, tmp_path)
    queue = plain_store.busiest_queue(root)
    last = plain_store.numbered(queue)[-1]
    empty = last.with_name(f"{int(last.name) + last.stat().st_size:020}")
    empty.touch()
    prediction = predicted(root, "5.5.0")
    assert () == prediction.segments_deleted
    gone = [path for queue in prediction.queues for path in queue.deleted_files]
    assert [empty.relative_to(root).as_posix()] == gone


def test_units_that_come_again_serve_once(tmp_path: Path) -> None:
    """A batch queue with a file of zeros: units that are written anew deliver nothing twice.

    So did a store of 5.3.3: `python -m tests.repair.broker.campaign --seed 1 --only 9`.
    """
    name = "rocketmq-5.3.3-batch-queue"
    root = fixture_store(name, tmp_path)
    path = plain_store.numbered(root / "batchconsumequeue" / "batch-queue" / "1")[1]
    inflict.write_at(path, 0, bytes(path.stat().st_size))
    for path in plain_store.numbered(root / "consumequeue" / "batch-queue-ordinary" / "0"):
        kept = [unit for unit in plain_store.units(path.parent) if unit.physical_offset < 59960]
        at = len(kept) * plain_store.UNIT.size
        inflict.write_at(path, at, bytes(path.stat().st_size - at))
    (root / "abort").touch()
    settings = {**manifest(name)["settings"], **ALWAYS}
    outcomes = foretell_with(root, "5.3.3", settings).queues
    (outcome,) = (
        outcome for outcome in outcomes if (outcome.topic, outcome.queue_id) == ("batch-queue", 1)
    )
    assert (0, 176, 176) == (outcome.minimum, outcome.maximum, outcome.readable)


def test_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is lost in a file of a long log that is not read is not vouched for: zeros, here."""
    root = fixture_store(NAME, tmp_path)
    inflict.zero_sector(where=0.1)(root)
    whole = predicted(root, "5.3.3")
    assert (whole.files_unread, whole.missing.messages) == (0, 3)
    monkeypatch.setattr(losses, "READ_WHOLE", 0)
    prediction = predicted(root, "5.3.3")
    assert (prediction.files_unread, prediction.missing.messages) == (3, 0)
    assert verdict(prediction).endswith(": this start loses no message")
    assert verdict(prediction, is_validated=True).endswith(": no message lost")
    (row,) = [row for row in steps(prediction) if row["step"] == "not_read"]
    assert row["count"] == 3


def test_odd_queue_file(tmp_path: Path) -> None:
    """A queue file under an odd name is read from another place; 187 is what 5.5.0 delivered."""
    name = "rocketmq-5.5.0-expired"
    root = fixture_store(name, tmp_path)
    queue = root / "consumequeue" / "expired-orders" / "1"
    shutil.copy2(queue / f"{3000:020}", queue / f"{8096:020}")
    outcomes = {
        (queue.topic, queue.queue_id): queue for queue in predicted(root, "5.5.0", name).queues
    }
    outcome = outcomes["expired-orders", 1]
    assert (outcome.minimum, outcome.maximum, outcome.readable) == (145, 454, 187)
