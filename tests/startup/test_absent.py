"""A store without configuration: what a start costs is what real brokers then do."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

import rmqtool
from rmqtool import repair
from rmqtool.broker.names import is_made_by_brokers
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.registry_rocksdb import RD_GONE
from rmqtool.findings.registry_state import CF_GONE
from rmqtool.formats.properties import REAL_TOPIC
from rmqtool.startup import Prediction, predict
from rmqtool.startup.report import verdict
from rmqtool.store.config_files import CONFIG_NAMES
from rmqtool.store.release import written_by
from rmqtool.store.tree import open_store
from rmqtool.tables.pending import pop_in_flight
from tests import plain_store
from tests.broker.bare_store import YEARS_IN_HOURS
from tests.broker.broker import running_broker
from tests.broker.jars import VERSIONS
from tests.broker.jvm import Jvm
from tests.check.validation import run
from tests.inflict import resize_file
from tests.startup.oracle import Oracle
from tests.startup.test_metadata import broker_settings, topics_of
from tests.startup.test_whole_broker import controller
from tests.stores import broker_conf, fixture_names, fixture_store, manifest

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO: Final = "traffic"
MOST_SECONDS: Final = 600  # on a busy machine
QUIET_SECONDS: Final = 2  # in which nothing more comes
POP: Final = "5.3.3"
SCHEDULE: Final = "SCHEDULE_TOPIC_XXXX"


@dataclass(frozen=True, slots=True)
class Absence:
    """Files of `config` that are gone.

    Attributes:
        names: patterns; none for the whole directory.
        in_sample: whether brokers are started without them in each run.
    """

    names: tuple[str, ...]
    in_sample: bool = True

    def __str__(self) -> str:
        return " ".join(self.names) or "config"

    def inflict(self, store: Path) -> None:
        """Take the files away."""
        if not self.names:
            shutil.rmtree(store / "config")
        for name in self.names:
            for path in (store / "config").glob(f"{name}*"):
                path.unlink()


ABSENCES: Final = (
    Absence(()),
    Absence(("topics.json",)),
    Absence(("consumerOffset.json", "delayOffset.json")),
    Absence(("subscriptionGroup.json",), in_sample=False),
    Absence(("consumerFilter.json", "consumerOrderInfo.json"), in_sample=False),
)


def predicted(root: Path, version: str) -> Prediction:
    """Predict a start by the configuration beside the store."""
    return predict(open_store(root, root.with_name("broker.conf")), version)


@pytest.mark.broker
@pytest.mark.parametrize("variant", ABSENCES, ids=str)
def test_start(oracle: Oracle, variant: Absence, tmp_path: Path) -> None:
    """A broker starts, and has no topic that is said to have no route, and no offset of a group."""
    if oracle.jvm.version not in VERSIONS:
        pytest.skip("no such store of this release")
    name = f"rocketmq-{oracle.jvm.version}-{SCENARIO}"
    root = fixture_store(name, tmp_path)
    variant.inflict(root)
    settings = broker_settings(name, root)
    prediction = predicted(root, oracle.jvm.version)
    assert prediction.starts
    broker = controller(oracle, settings)
    assert broker is not None
    known = {str(queue) for queue in broker.getTopicConfigManager().getTopicConfigTable().keySet()}
    topics = {queue.topic for queue in prediction.queues if not is_made_by_brokers(queue.topic)}
    assert topics - known == {loss.topic for loss in prediction.unrouted.topics}
    offsets = broker.getConsumerOffsetManager().getOffsetTable().size()
    assert (offsets == 0) == any(step.step == "start_over" for step in prediction.later_steps)
    owner = broker if oracle.jvm.is_five else broker.getMessageStore()
    delays = owner.getScheduleMessageService()
    table = delays.getClass().getDeclaredField("offsetTable")
    table.setAccessible(True)
    assert (table.get(delays).size() == 0) == any(
        step.step == "repeat" for step in prediction.later_steps
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("absence", ABSENCES, ids=str)
def test_counts(version: str, absence: Absence, tmp_path: Path) -> None:
    """What is counted is what the log has: messages without a route, copies, groups."""
    name = f"rocketmq-{version}-{SCENARIO}"
    root = fixture_store(name, tmp_path)
    shutil.copy(broker_conf(name), tmp_path / "broker.conf")
    absence.inflict(root)
    prediction = predicted(root, version)
    messages = Counter(
        record.topic
        for record in plain_store.records(root)
        if record.transaction in {0, 8} and not is_made_by_brokers(record.topic)
    )
    has_topics = absence.names in {(), ("topics.json",)}
    expected = dict(messages) if has_topics else {}
    assert expected == {loss.topic: loss.messages for loss in prediction.unrouted.topics}
    steps = {step.step: step.count for step in prediction.later_steps}
    has_offsets = absence.names == () or "delayOffset.json" in absence.names
    assert (delivered(root) if has_offsets else None) == steps.get("repeat")
    assert ("start_over" in steps) is has_offsets
    assert prediction.is_whole is not (has_topics or has_offsets)
    assert ("no message lost" in verdict(prediction)) is prediction.is_whole


def delivered(root: Path) -> int:
    """Count the delayed messages that have a copy in their own topic."""
    rows = [*rmqtool.open_store(str(root)).rows(columns=("topic", "unique_key", "properties"))]
    own = {(row["topic"], row["unique_key"]) for row in rows if row["topic"] != SCHEDULE}
    waiting = [row for row in rows if row["topic"] == SCHEDULE]
    return sum((row["properties"][REAL_TOPIC], row["unique_key"]) in own for row in waiting)


@dataclass(frozen=True, slots=True)
class Release:
    """A release whose broker is run."""

    version: str
    in_sample: bool

    def __str__(self) -> str:
        return self.version


@pytest.mark.broker
@pytest.mark.parametrize(
    "variant", [Release(version, version == POP) for version in VERSIONS], ids=str
)
def test_delivered_again(variant: Release, tmp_path: Path) -> None:
    """Without delay offsets a broker delivers as many messages again as predicted; then none."""
    name = f"rocketmq-{variant.version}-redelivered"
    root = fixture_store(name, tmp_path)
    settings = {**manifest(name)["settings"], "fileReservedTime": YEARS_IN_HOURS}
    for path in (root / "config").glob("delayOffset.json*"):
        path.unlink()
    shutil.copy(broker_conf(name), tmp_path / "broker.conf")
    (step,) = predicted(root, variant.version).later_steps
    assert (step.step, step.count) == ("repeat", delivered(root))
    before = keys(root)
    with running_broker(variant.version, tmp_path, settings) as broker:
        again = wait_for(root, before, step.count)
        broker.wait_dispatched()
    assert step.count == again
    plan = repair.plan(root, broker_version=variant.version)
    assert not [left for left in plan.left if left.code == "DO-GONE"]


@dataclass(frozen=True, slots=True)
class TimerRun:
    """A broker on a store without `timercheck`, as it is or after `repair --reset-config`."""

    version: str
    is_reset: bool
    in_sample: bool = False

    def __str__(self) -> str:
        return f"{self.version} {'reset' if self.is_reset else 'missing'}"


@pytest.mark.broker
@pytest.mark.parametrize(
    "variant",
    [
        TimerRun("5.3.3", is_reset=False),
        TimerRun("5.3.3", is_reset=True, in_sample=True),
        TimerRun("5.5.0", is_reset=False),
        TimerRun("5.5.0", is_reset=True),
    ],
    ids=str,
)
def test_timers_delivered_again(variant: TimerRun, tmp_path: Path) -> None:
    """Without timercheck each timer that was delivered comes again; a new one ends that."""
    name = f"rocketmq-{variant.version}-timer"
    root = fixture_store(name, tmp_path)
    shutil.copy(broker_conf(name), tmp_path / "broker.conf")
    store, today = open_store(root, tmp_path / "broker.conf"), time.time_ns() // 1_000_000
    known = predict(store, variant.version, now_ms=today)
    # A wheel forgets what was due some days ago. Without `timercheck` the queue is read, not it.
    waiting = known.timers - (known.timers_lost if variant.is_reset else 0)
    (root / "config/timercheck").unlink()
    (step,) = predicted(root, variant.version).later_steps
    before = keys(root)
    own = {topic for topic, _ in before} - {"rmq_sys_wheel_timer"}
    assert (step.step, step.count) == (
        "repeat",
        sum(("rmq_sys_wheel_timer", key) in before for topic, key in before if topic in own),
    )
    if variant.is_reset:
        conf = str(tmp_path / "broker.conf")
        plan = repair.plan(
            root, reset_config=True, broker_conf=conf, broker_version=variant.version
        )
        repair.apply(plan, in_place=True)
        assert predicted(root, variant.version).is_whole
    settings = {**manifest(name)["settings"], "fileReservedTime": YEARS_IN_HOURS}
    with running_broker(variant.version, tmp_path, settings) as broker:
        came = wait_for_timers(root, before, own, 0 if variant.is_reset else step.count, waiting)
        broker.wait_dispatched()
    assert (0 if variant.is_reset else step.count) == came


def wait_for_timers(
    root: Path, before: Counter[tuple[str, str]], own: set[str], again: int, first: int
) -> int:
    """Wait for timers that come again and for the first time; give how many came again."""
    end = time.monotonic() + MOST_SECONDS
    quiet_since, last = time.monotonic(), -1
    while True:
        time.sleep(0.5)
        new = {pair for pair in keys(root) - before if pair[0] in own}
        if len(new) != last:
            last, quiet_since = len(new), time.monotonic()
        came = sum(pair in before for pair in new)
        is_enough = came >= again and len(new) - came >= first
        if (is_enough and time.monotonic() - quiet_since > QUIET_SECONDS) or time.monotonic() > end:
            return came


def keys(root: Path) -> Counter[tuple[str, str]]:
    """Count the messages of each topic and unique key that are no delayed ones."""
    rows = rmqtool.open_store(str(root)).rows(columns=("topic", "unique_key"))
    found = ((row["topic"], row["unique_key"]) for row in rows if row["topic"] != SCHEDULE)
    return Counter(pair for pair in found if pair[1])


def wait_for(root: Path, before: Counter[tuple[str, str]], count: int) -> int:
    """Wait for so many second copies, and whether more come; give how many came."""
    end = time.monotonic() + MOST_SECONDS
    again, quiet_since = 0, time.monotonic()
    while time.monotonic() < end:
        time.sleep(0.5)
        now = sum((keys(root) - before)[pair] for pair in before)
        if now != again:
            again, quiet_since = now, time.monotonic()
        if again >= count and time.monotonic() - quiet_since > QUIET_SECONDS:
            break
    return again


@pytest.mark.broker
@pytest.mark.parametrize("absence", [Absence(()), Absence(("topics.json",))], ids=str)
@pytest.mark.parametrize("is_given", [True, False], ids=["told", "guessed"])
def test_reset(oracle: Oracle, absence: Absence, tmp_path: Path, *, is_given: bool) -> None:
    """What `--reset-config` writes real brokers load, whatever release it was taken to be of."""
    if oracle.jvm.version not in VERSIONS:
        pytest.skip("no such store of this release")
    name = f"rocketmq-{oracle.jvm.version}-{SCENARIO}"
    root = fixture_store(name, tmp_path)
    before = predict(open_store(root)).version
    settings = broker_settings(name, root)
    absence.inflict(root)
    version = oracle.jvm.version if is_given else None
    plan_it = partial(
        repair.plan, root, broker_conf=str(root.with_name("broker.conf")), broker_version=version
    )
    assert plan_it().left
    plan = plan_it(reset_config=True)
    assert [] == plan.left
    assert all(edit.lost for edit in plan.edits)
    guessed = predict(open_store(root)).version
    repair.apply(plan, in_place=True)
    prediction = predicted(root, oracle.jvm.version)
    assert prediction.is_whole
    assert predict(open_store(root)).version in {before, guessed}
    known = topics_of(oracle, settings)
    assert known is not None
    assert {
        queue.topic for queue in prediction.queues if not is_made_by_brokers(queue.topic)
    } <= known
    assert [] == plan_it(reset_config=True).edits


@pytest.mark.broker
@pytest.mark.parametrize("variant", [Release(POP, True), Release("5.5.0", False)], ids=str)
def test_pop_store(variant: Release, tmp_path: Path) -> None:
    """A broker that keeps pop consumption in RocksDB does not come up where that does not open."""
    name = f"rocketmq-{variant.version}-rocksdb-pop"
    root = fixture_store(name, tmp_path)
    settings = broker_settings(name, root)
    assert predicted(root, variant.version).starts
    (root / "kvStore/CURRENT").unlink()
    assert [refusal.path for refusal in predicted(root, variant.version).refusals] == ["kvStore"]
    with Jvm(variant.version, tmp_path / "jvm") as jvm:
        broker = controller(Oracle(jvm), settings)
        assert broker is not None
        with pytest.raises(Exception, match="PopConsumerStore init error"):
            broker.start()


@pytest.mark.broker
def test_pop_store_is_gone(tmp_path: Path) -> None:
    """A broker begins an empty one: what was taken and not acknowledged is not known any more."""
    name = "rocketmq-5.5.0-rocksdb-pop"
    root = fixture_store(name, tmp_path)
    settings, taken = broker_settings(name, root), [*pop_in_flight(open_store(root))]
    shutil.rmtree(root / "kvStore")
    said = {finding.code for finding in run(root, conf=broker_conf(name))[0]}
    assert RD_GONE in said
    assert predicted(root, "5.5.0").starts
    with Jvm("5.5.0", tmp_path / "jvm") as jvm:
        broker = controller(Oracle(jvm), settings)
        assert broker is not None
        broker.start()
        broker.shutdown()
    assert (len(taken), []) == (16, [*pop_in_flight(open_store(root))])
    assert RD_GONE not in {finding.code for finding in run(root, conf=broker_conf(name))[0]}


def test_groups_that_offsets_alone_tell(tmp_path: Path) -> None:
    """Lost settings of groups are said where no topic for retries is left that speaks of them."""
    root = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    for path in (root / "config").glob("subscriptionGroup.json*"):
        path.unlink()
    for path in (root / "config").glob("topics.json*"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("%RETRY%", "retry-"), encoding="utf-8")
    (gone,) = (finding for finding in run(root)[0] if finding.code == CF_GONE)
    assert (Severity.WARNING, "config/subscriptionGroup.json") == (gone.severity, gone.path)
    assert "4 groups of consumers get default settings" in gone.message


@pytest.mark.parametrize("name", fixture_names())
def test_release_is_not_guessed_from_absence(name: str, tmp_path: Path) -> None:
    """Whatever file of the configuration goes, no release is excluded that was not before."""
    root = fixture_store(name, tmp_path)

    def bounds() -> set[object]:
        return {trace[1:] for trace in written_by(open_store(root)).traces}

    before = bounds()
    for file in [*CONFIG_NAMES, "transactionMetrics"]:
        aside = tmp_path / "aside"
        aside.mkdir()
        for path in (root / "config").glob(f"{file}*"):
            path.rename(aside / path.name)
        assert bounds() <= before, file
        for path in aside.iterdir():
            path.rename(root / "config" / path.name)
        aside.rmdir()


def test_part_of_a_store(tmp_path: Path) -> None:
    """A torn file that has no copy is as good as none; an empty table is one."""
    name = f"rocketmq-5.3.3-{SCENARIO}"
    root = fixture_store(name, tmp_path)
    shutil.copy(broker_conf(name), tmp_path / "broker.conf")
    for path in (root / "config").glob("delayOffset.json*"):
        path.write_text('{"offsetTable":{}}')
    assert predicted(root, "5.3.3").is_whole
    (root / "config/delayOffset.json.bak").unlink()
    resize_file("config/delayOffset.json", lambda size: size - 4)(root)
    assert ["repeat"] == [step.step for step in predicted(root, "5.3.3").later_steps]
