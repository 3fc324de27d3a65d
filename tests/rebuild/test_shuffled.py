"""Queues that several writers made are put together, with what each of them says."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from rmqtool import engine, rebuild
from rmqtool.rebuild.shuffled import Gather, Spread
from rmqtool.store.segment import Segment
from tests.spark import results
from tests.stores import fixture_store

Part = TypeVar("Part")
Result = TypeVar("Result")
WRITERS = 3
SLOW_SECONDS = 1000.0


class InOneProcess:
    """A cluster of one: the second of its writers waits long for its disk."""

    results_travel = True

    def run(self, function: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        """Work on the parts."""
        yield from map(function, parts)

    def shuffle(
        self,
        spread: Spread,
        segments: Sequence[Segment],
        gather: Gather,
        advance: Callable[[int], None],  # noqa: ARG002
    ) -> tuple[list[bytes], list[bytes]]:
        """Spread and gather."""
        blobs: dict[int, list[bytes]] = defaultdict(list)
        for task in (segments[:1], segments[1:]):
            for some in spread(task, WRITERS):
                for number, blob in some:
                    blobs[number].append(blob)
        heads = blobs.pop(-1)
        said = [pickle.loads(gather(some)) for _, some in sorted(blobs.items())]  # noqa: S301
        said[1] = said[1]._replace(fsync_seconds=SLOW_SECONDS)
        return heads, [pickle.dumps(one) for one in said]


@pytest.fixture(params=["rocketmq-5.3.3-traffic", "rocketmq-5.3.3-batch-queue"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Give a store with more queues than writers."""
    return fixture_store(request.param, tmp_path)


def test_same_bytes(store: Path, tmp_path: Path) -> None:
    """Files, directories and what is said of them are those of one process."""
    expected = results.rebuilt_queues(store, tmp_path / "local")
    with engine.using(InOneProcess()):
        found = results.rebuilt_queues(store, tmp_path / "cluster")
    assert expected == found


def test_waiting_for_the_disk(store: Path, tmp_path: Path) -> None:
    """The longest wait of a writer for its disk counts as such, beside that of the tree."""
    with engine.using(InOneProcess()):
        result = rebuild.consume_queues(store, tmp_path / "queues")
    assert SLOW_SECONDS <= result.fsync_seconds < 2 * SLOW_SECONDS
