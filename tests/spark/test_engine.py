"""Spark gives the same bytes as this process, whatever the parts are, and whatever breaks."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeAlias, TypeVar

import pytest

from rmqtool import engine, rebuild
from rmqtool.errors import NotAStore, UnreadablePath, UnsupportedStore
from rmqtool.rebuild.shuffled import Gather, Spread
from rmqtool.scan.join import Joinable, PerPart, run_joined
from rmqtool.spark.engine import TASKS_A_CORE, SparkEngine
from rmqtool.spark.jobs import cores
from rmqtool.spark.tasks import TO_ALL
from rmqtool.store.segment import Segment, SegmentPart
from tests.spark import results
from tests.spark.results import PER_PART
from tests.spark.variants import Variant, name_of, task_bytes, variant_store, variants
from tests.stores import fixture_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SMALL, WHOLE = 64 << 10, 1 << 40
KEY = "X-early-0"
RECORDS = 1383  # of the traffic fixture of 5.3.3
Given = ParamSpec("Given")
Done = TypeVar("Done")
RunJoined: TypeAlias = Callable[..., Iterator[tuple[SegmentPart, Joinable]]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Take a sample of stores, or all of them."""
    if "variant" in metafunc.fixturenames:
        chosen = variants(is_all=metafunc.config.getoption("--all-variants"))
        metafunc.parametrize("variant", chosen, ids=name_of)


@pytest.fixture
def on_spark(spark: SparkSession) -> SparkEngine:
    """Give an engine on the session of all tests."""
    return SparkEngine.on(spark)


def everything(store: Path, output: Path, part_bytes: int) -> dict[str, object]:
    """Give what all commands give; errors are results, too."""
    output.mkdir()
    commands: dict[str, Callable[[], object]] = {
        "validate": lambda: results.validated(store, part_bytes),
        "dump": lambda: results.dumped(store),
        "rebuild-cq": lambda: results.rebuilt_queues(store, output / "queues"),
        "rebuild-index": lambda: results.rebuilt_index(store, output / "index"),
        "query": lambda: results.searched(store, KEY),
    }
    return {name: outcome(command) for name, command in commands.items()}


def outcome(command: Callable[[], object]) -> object:
    """Give a result, or what was raised on purpose."""
    try:
        return command()
    except (UnreadablePath, NotAStore, UnsupportedStore) as error:
        return repr(error), str(error)


def test_same_bytes(
    variant: Variant,
    on_spark: SparkEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Results are those of this process, byte for byte, with parts of 64 KiB and of a segment."""
    store = variant_store(variant, tmp_path)
    if store is None:
        pytest.skip("nothing to damage here")
    trees = []
    for part_bytes in (SMALL, WHOLE):
        for module in PER_PART:
            monkeypatch.setattr(f"{module}.PART_BYTES", part_bytes)
        # On other machines, tasks write the queues, and leave out what they have proven.
        monkeypatch.setattr(SparkEngine, "results_travel", part_bytes == SMALL)
        each = task_bytes(store, part_bytes)
        monkeypatch.setattr("rmqtool.spark.tasks.TASK_BYTES", each)
        expected = everything(store, tmp_path / f"local-{part_bytes}", part_bytes)
        trees.append(results.files(tmp_path / f"local-{part_bytes}"))
        with engine.using(on_spark):
            found = everything(store, tmp_path / f"spark-{part_bytes}", part_bytes)
        assert expected == found
    assert trees[0] == trees[1]


@dataclass(frozen=True)
class KillOnce:
    """A per-part function whose process dies in the middle of the first part that it sees.

    Attributes:
        function: what to do else.
        marker: a file that says that it has happened.
    """

    function: PerPart[Joinable]
    marker: Path

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> Joinable:
        """Die, or work."""
        try:
            self.marker.touch(exist_ok=False)
        except FileExistsError:
            return self.function(part, start=start)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def wrapping(wrap: Callable[[PerPart[Joinable]], PerPart[Joinable]]) -> RunJoined:
    """Give a `run_joined` whose function is another one."""

    def run(
        function: PerPart[Joinable], parts: Iterable[SegmentPart], *, jobs: int | None = None
    ) -> Iterator[tuple[SegmentPart, Joinable]]:
        return run_joined(wrap(function), parts, jobs=jobs)

    return run


def test_killed_worker(
    on_spark: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python worker that is killed in the middle of a job costs nothing but time."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    expected = results.validated(store, SMALL)
    marker = tmp_path / "killed"
    monkeypatch.setattr(
        "rmqtool.check.log.commitlog.run_joined", wrapping(lambda one: KillOnce(one, marker))
    )
    with engine.using(on_spark):
        found = results.validated(store, SMALL)
    assert marker.exists()
    assert expected == found


def test_killed_writer(
    on_spark: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that is killed leaves nothing behind, and its queues are written by the next one."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    expected = results.rebuilt_queues(store, tmp_path / "local")
    marker = tmp_path / "killed"
    shuffle = SparkEngine.shuffle

    def killing(
        self: SparkEngine,
        spread: Spread,
        segments: Sequence[Segment],
        gather: Gather,
        advance: Callable[[int], None],
    ) -> tuple[list[bytes], list[bytes]]:
        return shuffle(self, spread, segments, KillAfter(gather, marker), advance)

    monkeypatch.setattr(SparkEngine, "shuffle", killing)
    monkeypatch.setattr(SparkEngine, "results_travel", True)
    with engine.using(on_spark):
        found = results.rebuilt_queues(store, tmp_path / "spark")
    assert marker.exists()
    assert expected == found
    assert [] == [path.name for path in tmp_path.rglob(".*")]


@dataclass(frozen=True)
class KillAfter:
    """A writer whose process dies when it has written everything, the first time."""

    gather: Gather
    marker: Path

    def __call__(self, blobs: Iterable[bytes]) -> bytes:
        """Write, and die or report."""
        report = self.gather(blobs)
        try:
            self.marker.touch(exist_ok=False)
        except FileExistsError:
            return report
        os.kill(os.getpid(), signal.SIGKILL)
        return b""


def after(first: Callable[[], None], method: Callable[Given, Done]) -> Callable[Given, Done]:
    """Give a method that does something else first: the segments are listed by then."""

    def both(*arguments: Given.args, **named: Given.kwargs) -> Done:
        first()
        return method(*arguments, **named)

    return both


def test_unreadable_segment(
    on_spark: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment that no executor can open is named, the result incomplete, the rest done."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    lost = sorted((store / "commitlog").iterdir())[1]
    whole = rebuild.consume_queues(store, tmp_path / "whole")
    monkeypatch.setattr(SparkEngine, "shuffle", after(lost.unlink, SparkEngine.shuffle))
    monkeypatch.setattr(SparkEngine, "results_travel", True)
    with engine.using(on_spark):
        result = rebuild.consume_queues(store, tmp_path / "queues")
    assert ["unreadable"] == [lost.code for lost in result.lost]
    assert not result.is_complete
    assert 0 < result.records < whole.records
    queues = {(queue.topic, queue.queue_id) for queue in result.queues}
    assert {(queue.topic, queue.queue_id) for queue in whole.queues} > queues


def test_unreadable_while_validated(
    on_spark: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with validate: exit code 3, and all other records are judged."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    lost = sorted((store / "commitlog").iterdir())[1]
    monkeypatch.setattr(SparkEngine, "run", after(lost.unlink, SparkEngine.run))
    with engine.using(on_spark):
        found = results.validated(store, WHOLE)
    assert (3, 1) == (found.exit_code, len(found.unread))
    assert 0 < found.records < RECORDS


@dataclass(frozen=True)
class Refuse:
    """A per-part function that raises an error of ours."""

    function: PerPart[Joinable]

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> Joinable:  # noqa: ARG002
        """Refuse."""
        raise UnreadablePath(path=part.segment.path, reason="refused")


def test_error_travels(
    on_spark: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that is raised on purpose comes back as itself, and nothing is written."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    monkeypatch.setattr("rmqtool.rebuild.work.run_joined", wrapping(Refuse))
    with (
        engine.using(on_spark),
        pytest.raises(UnreadablePath, match="refused"),
    ):
        rebuild.index(store, tmp_path / "index")
    assert ["store"] == [path.name for path in tmp_path.iterdir()]


def test_stopping_early(on_spark: SparkEngine) -> None:
    """Who stops reading stops the job: no further wave is begun."""
    with engine.using(on_spark):
        rows = engine.run(abs, range(-100_000, 0))
        assert 100_000 == next(rows)
        rows.close()  # type: ignore[attr-defined]  # a generator
    assert on_spark.traffic.waves <= 3


@pytest.mark.parametrize("is_spooled", [True, False])
def test_bounded_waves(
    on_spark: SparkEngine, monkeypatch: pytest.MonkeyPatch, *, is_spooled: bool
) -> None:
    """The driver holds no more of the results than was allowed, however many parts there are."""
    monkeypatch.setattr("rmqtool.spark.engine.WAVE_BYTES", 1 << 20)
    monkeypatch.setattr("rmqtool.spark.engine.SPOOLED_BYTES", 1 << 20)
    monkeypatch.setattr("rmqtool.spark.engine.is_on_this_machine", lambda _: is_spooled)
    with engine.using(on_spark):
        found = sum(len(one) for one in engine.run(os.urandom, [100_000] * 60))
    assert 6_000_000 == found
    # Small parts of a task come together: of a wave of a MiB, four tasks get ten parts.
    assert on_spark.traffic.largest_in_memory < (310_000 if is_spooled else 4 << 20)
    assert on_spark.traffic.waves > 3


@pytest.mark.parametrize("is_spooled", [True, False])
def test_order(on_spark: SparkEngine, monkeypatch: pytest.MonkeyPatch, *, is_spooled: bool) -> None:
    """Results come in the order of the parts, whatever waves and tasks there are; None is one."""
    monkeypatch.setattr("rmqtool.spark.engine.is_on_this_machine", lambda _: is_spooled)
    monkeypatch.setattr("rmqtool.spark.tasks.TASK_BYTES", 5 << 16)
    with engine.using(on_spark):
        assert [None, *range(1, 99)] == list(engine.run(none_for_zero, range(99)))
        assert [] == list(engine.run(none_for_zero, []))
    assert on_spark.traffic.waves > 2


def none_for_zero(number: int) -> int | None:
    """Give a number; None for 0."""
    return number or None


@dataclass(frozen=True)
class Gate:
    """Spreads nothing; the second segment waits until somebody opens the gate."""

    gate: Path

    def __call__(self, segments: Sequence[int], writers: int) -> Iterator[list[tuple[int, bytes]]]:
        """Wait, where it is to be waited."""
        (segment,) = segments
        while segment == 2 and not self.gate.exists():
            time.sleep(0.02)
        yield [(0, b"%d/%d" % (segment, writers))]


def test_progress(on_spark: SparkEngine, tmp_path: Path) -> None:
    """Spark's status tracker tells how far a shuffle is while it runs, and all of it at the end."""
    gate = tmp_path / "gate"
    told: list[int] = []

    def advance(done: int) -> None:
        told.append(done)
        if sum(told):
            gate.touch()  # only when the first half was told does the second one begin

    half = 1 << 16  # what a segment counts that does not say how long it is
    heads, written = on_spark.shuffle(Gate(gate), [1, 2], b",".join, advance)
    assert ([], [b"1/4,2/4"]) == (heads, written)
    assert 2 * half == sum(told)
    assert 1 < sum(one > 0 for one in told)


def told_back(segments: Sequence[int], writers: int) -> Iterator[list[tuple[int, bytes]]]:
    """Let the driver know which segments came together."""
    assert writers
    yield [(TO_ALL, b"%d-%d" % (segments[0], segments[-1]))]


def test_small_segments_together(on_spark: SparkEngine) -> None:
    """Small segments share the tasks of a shuffle, in their order; each is in one of them."""
    heads, written = on_spark.shuffle(told_back, range(1000), b"".join, lambda _: None)
    tasks = TASKS_A_CORE * cores(on_spark.spark)
    edges = [[int(edge) for edge in head.split(b"-")] for head in heads]
    assert [] == written
    assert tasks == len(edges)
    assert [0, 999] == [edges[0][0], edges[-1][1]]
    assert all(end + 1 == begin for (_, end), (begin, _) in pairwise(edges))
