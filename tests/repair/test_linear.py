"""A plan takes twice as long where log and damage are twice as much, not four times.

Counted are calls of Python functions in one thread, which no other work on the machine changes;
`tests.bench.bench_repair --linear` takes the time of stores that are larger.
"""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from rmqtool import repair
from tests import inflict, plain_store
from tests.bench.store_builder import Spec, build

SEGMENT_BYTES: Final = 200_000
SEGMENTS: Final = 4
QUEUE_FILE_BYTES: Final = 2000
MOST: Final = 2.4  # times the calls, of twice the log
RECORD_BYTES: Final = 470


def exchange(store: Path) -> None:
    """Let two files of the log have changed places."""
    one, two = plain_store.segments(store)[1:3]
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)


def copy_running(store: Path) -> None:
    """Copy a store beside its broker, the log first; the disk has lost a kilobyte of it."""
    (store / "abort").touch()
    last = plain_store.segments(store)[-1]
    half = last.stat().st_size // 2
    inflict.write_at(last, half, bytes(half))
    inflict.write_at(plain_store.segments(store)[1], 100_000, bytes(1024))


def pierce(store: Path) -> None:
    """Zero a stretch of each 20,000 bytes."""
    for path in plain_store.segments(store):
        for position in range(20_000, path.stat().st_size - 20_000, 20_000):
            inflict.write_at(path, position, bytes(64))


HARMS: Final[dict[str, Callable[[Path], None]]] = {
    "two files exchanged": exchange,
    "a copy of a running broker": copy_running,
    "damage all over": pierce,
}

# For each record; they were 3,940, 1,001 and 677. What a start would parse of it is among them, 270
# calls, which no other thread makes.
CALLS: Final = {
    "two files exchanged": 1500,
    "a copy of a running broker": 600,
    "damage all over": 640,
}


def harmed(into: Path, harm: Callable[[Path], None], times: int) -> tuple[Path, Path]:
    """Build a store whose files are so many times as long, and harm it; give its broker.conf, too.

    Args:
        into: where it is built.
        harm: what is done to it.
        times: how large it is.
    """
    spec = Spec(
        total_bytes=SEGMENTS * SEGMENT_BYTES * times,
        segment_bytes=SEGMENT_BYTES * times,
        slots=5000,
        entries=SEGMENT_BYTES * times,
        queue_file_bytes=QUEUE_FILE_BYTES * times,
    )
    into.mkdir(exist_ok=True)
    store, conf = into / f"store-{times}", into / f"broker-{times}.conf"
    build(store, spec)
    harm(store)
    lengths = {
        "mappedFileSizeCommitLog": spec.segment_bytes,
        "mappedFileSizeConsumeQueue": spec.queue_file_bytes,
        "maxHashSlotNum": spec.slots,
        "maxIndexNum": spec.entries,
    }
    conf.write_text("".join(f"{key}={value}\n" for key, value in lengths.items()))
    return store, conf


def calls_of_plan(store: Path, conf: Path) -> int:
    """Count the calls that a plan takes."""
    profile = cProfile.Profile()
    profile.enable()
    repair.plan(store, broker_conf=str(conf), jobs=1)
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize("name", HARMS)
def test_linear(name: str, tmp_path: Path) -> None:
    """Twice the log with twice the damage is at most little more than twice the work.

    Nor is a neighbour read again for each record.
    """
    calls_of_plan(*harmed(tmp_path / "warm", HARMS[name], 1))  # what is loaded once
    once, twice = (calls_of_plan(*harmed(tmp_path, HARMS[name], times)) for times in (1, 2))
    assert twice / once < MOST
    assert twice < CALLS[name] * 2 * SEGMENTS * SEGMENT_BYTES / RECORD_BYTES
