"""Queues that are made at once are what `Placement` makes of each by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from rmqtool import rebuild
from rmqtool.derive.queue_runs import QueueRuns
from rmqtool.formats.message import Message
from rmqtool.many_files import files as many_files
from rmqtool.rebuild import single_runs
from rmqtool.rebuild.options import RebuildResult
from rmqtool.rebuild.sinks import WritingSink
from tests.evidence import Trace, snapshot
from tests.rebuild.built import SEGMENT_BYTES, build_log, message

QUEUES: Final = 90
START: Final = 8 * SEGMENT_BYTES
TOPICS: Final = (b"plain", b"orders", b"%RETRY%g")
DOUBLE: Final = (b"bytes\xff", b"bytes\xfe")  # Java decodes both to one text


def _log() -> Iterator[Message]:
    """Give messages of many queues: most are one run, each kind of other is among them."""
    dice = np.random.default_rng(3)
    for queue_id in range(QUEUES):
        first = int(dice.choice([0, 0, 7, 299_990, 299_999, 300_000]))
        for number in range(int(dice.integers(1, 4))):
            yield message(TOPICS[queue_id % len(TOPICS)], queue_id, first + number)
    for number in (0, 1, 5, 6, 6, 2):  # a hole, a repeated one, one from before
        yield message(b"orders", 100_000, number)
    yield message(b"orders", 100_001, 1 << 40)  # more than can have been in the log
    yield message(b"orders", 100_002, -3)
    yield message(b"a/b", 0, 0)  # no name of a directory
    for number in range(4):
        yield message(DOUBLE[number % 2], 0, number)
    yield message(b"lone", 0, 0)


def _files(path: Path) -> dict[str, Trace]:
    return {name: trace for name, trace in snapshot(path).items() if trace.digest}


def _facts(result: RebuildResult) -> tuple[object, ...]:
    rows = [(*queue[:-2], str(queue.tally), queue.left_out) for queue in result.queues]
    return rows, result.units, result.is_complete, result.records


@pytest.mark.parametrize("start", [0, START])
@pytest.mark.parametrize("has_double", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"like_broker": True}, {"topic": "orders"}, {"topic": "plain", "queue_id": 9}]
)
def test_same(
    options: dict[str, Any],
    start: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_double: bool,
) -> None:
    """Files, mtimes and results are the same, where the log begins at 0 and where it has expired.

    Of a log that begins at 0 the queues that begin past it are others; where two topics are
    one queue, none is.
    """
    log = (it for it in _log() if has_double or it.topic_bytes not in DOUBLE)
    store = build_log(tmp_path / "store", log, start=start)
    counted: list[int] = []
    put_single = WritingSink.put_single

    def noted(sink: WritingSink, queues: single_runs.SingleRuns) -> None:
        counted.append(len(queues.runs))
        put_single(sink, queues)

    with monkeypatch.context() as patch:
        patch.setattr(WritingSink, "put_single", noted)
        patch.setattr(many_files, "FEW", 1)
        at_once = rebuild.consume_queues(store, tmp_path / "at once", **options)
    with monkeypatch.context() as patch:
        patch.setattr(single_runs, "_are_single", _none)
        each = rebuild.consume_queues(store, tmp_path / "each", **options)
    assert _facts(each) == _facts(at_once)
    assert _files(tmp_path / "each") == _files(tmp_path / "at once")
    assert has_double is not bool(sum(counted))


def _none(runs: QueueRuns, *_: object) -> npt.NDArray[np.bool_]:
    return np.zeros(len(runs), np.bool_)
