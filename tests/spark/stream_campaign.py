"""A stream beside a real broker, both killed again and again: is a record ever lost in silence?

    python -m tests.spark.stream_campaign --version 5.3.3 --minutes 30 [--seed 1] [--plain]

Producers send without a pause; files roll every few hundred messages. Spark streams the log into
Parquet files, from a checkpoint. At moments that the seed says, one of these happens: the broker is
killed; it is killed and its last pages are lost, as when power is, so that its recovery cuts the
log and writes on; the driver is killed with all its processes; both are; files expire that were
read; files expire that were not. A driver whose query has stopped because records are missing is
started again with `failOnDataLoss=false`, until it is killed next.

At the end the rows are compared with all records that were ever in the log, read from links to its
files: `tests.spark.stream_judge` says how. Wrong is a record that is there twice or missing without
a row that says so, a row of something that never was, and a query that stops for no reason. The
exit code is 1 when something was wrong. With `--plain` the reader of the stream is driven as Spark
does, by a process without Spark, which starts so much sooner that there are many more kills.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random  # noqa: TID251 - with a seed
from typing import TYPE_CHECKING, Final

from tests.spark.stream_broker import Lives
from tests.spark.stream_judge import Judgement, batches, judge
from tests.spark.stream_sink import ROWS, Follower

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# ruff: noqa: T201 - a campaign prints
SPARK, PLAIN = "tests.spark.stream_sink", "tests.spark.stream_plain"
SEGMENT: Final = 131_072
LIMITS: Final = (0, 20_000, 100_000)  # bytes of a batch
LOST_TAIL: Final = 3 * SEGMENT  # bytes at most, when power is lost
LONGEST_BLANK: Final = 4096  # at the end of a segment: no message is as long
PATIENCE: Final = 600.0  # seconds for a busy machine
CUT_SAID: Final = "the commitlog was cut after the stream had read it"
EXPIRED_SAID: Final = "commitlog files were deleted before the stream had read them"
GONE_SAID: Final = "no such file"  # a file that expired while its batch ran
NOT_STARTED: Final = "Python worker failed to connect back"  # Spark gives it 10 s, unchangeably


class Trial:
    """One broker, one stream, and what is done to them.

    Args:
        version: of RocketMQ.
        work: an empty directory.
        seed: of the moments and the lengths.
        is_plain: without Spark.

    Attributes:
        done: what was done, and how often.
        wrong: what was wrong before the end.
    """

    def __init__(self, version: str, work: Path, seed: int, *, is_plain: bool = False) -> None:
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.lives = Lives(version, work / "home", work / "kept")
        self.follower = Follower(self.lives.store, work / "stream", PLAIN if is_plain else SPARK)
        self._random = Random(seed)  # noqa: S311 - to be had again
        self._causes: set[str] = set()  # of stops, since the last row that told of one
        self._is_tolerant = False

    def begin(self) -> None:
        """Start both."""
        self.lives.start()
        self._follow()

    def broker_killed(self) -> None:
        """Kill the broker."""
        self.lives.kill()
        self._pause()
        self.lives.start()

    def power_lost(self) -> None:
        """Kill the broker, sometimes the driver first, and lose the last pages of its log."""
        self._caught_up()
        is_followed = self._random.random() < 0.6
        if not is_followed:
            self.follower.kill()
        self.lives.kill()
        lost = self.lives.log.cut(self._random.randrange(LOST_TAIL))
        self.done["records lost with their pages"] += lost
        self._causes |= {CUT_SAID, GONE_SAID}  # recovery deletes files that a batch may be reading
        self._pause()
        self.lives.start()
        if not is_followed:
            self._is_tolerant = False
            self._follow()

    def driver_killed(self) -> None:
        """Kill the driver: mostly while it runs, now and then while it starts."""
        if self._random.random() < 0.8:
            self._progress()
        self._pause()
        self.follower.kill()
        self._is_tolerant = False
        self._follow()

    def both_killed(self) -> None:
        """Kill both, the broker first or the driver."""
        self._progress()
        self._pause()
        kills = [self.lives.kill, self.follower.kill]
        self._random.shuffle(kills)
        for one in kills:
            one()
        self.lives.start()
        self._is_tolerant = False
        self._follow()

    def expired_read(self) -> None:
        """Let files expire, the newest of which the stream may be reading."""
        self._caught_up()
        self._causes |= {EXPIRED_SAID, GONE_SAID}
        self.done["files expired"] += self.lives.expire()

    def expired_unread(self) -> None:
        """Let files expire that are written while the driver is down."""
        self._caught_up()
        self.follower.kill()
        length = self._random.randrange(2, 5) * SEGMENT
        self.lives.wait_written(self.lives.log.end() + length, 60)
        self._causes |= {EXPIRED_SAID, GONE_SAID}
        self.done["files expired"] += self.lives.expire()
        self._is_tolerant = False
        self._follow()

    def rest(self) -> None:
        """Do nothing for a while."""
        self._pause()
        self._tend()

    def one(self, step: Callable[[Trial], None]) -> None:
        """Do something, and say so."""
        step(self)
        self.done[step.__name__.replace("_", " ")] += 1

    def end(self) -> Judgement:
        """Let the stream reach the end of the log, and compare."""
        self.lives.stop()
        final = self.lives.log.final()
        end = max((one.end for one in final), default=0)
        deadline = time.monotonic() + PATIENCE
        # Of a log that was cut, the stream has come too far until it has said so.
        while not 0 <= self.follower.committed()[1] - end < LONGEST_BLANK:
            self._tend()
            time.sleep(0.5)
            if time.monotonic() > deadline:
                place = self.follower.committed()[1]
                self.wrong.append(f"the stream is at {place}, the log ends at {end}")
                # What it has not come to, on a machine that starts no worker, it has not missed.
                final = {one for one in final if one.physical_offset < place}
                break
        self.follower.kill()
        ever = self.lives.log.ever
        judgement = judge(batches(self.follower.directory / ROWS), final, ever)
        offsets = {one.physical_offset for one in ever}
        unknown = [at for at in self.lives.acknowledged.values() if at not in offsets]
        judgement.check(unknown, "acknowledged messages that no kept file has")
        judgement.figures["records ever in the log"] = len(ever)
        judgement.figures["messages acknowledged"] = len(self.lives.acknowledged)
        judgement.wrong += [*self.wrong, *self.lives.errors]
        return judgement

    def close(self) -> None:
        """End both, whatever has happened."""
        self.follower.kill()
        if self.lives.is_running:
            self.lives.kill()

    def _follow(self) -> None:
        limit = self._random.choice(LIMITS)
        self.follower.start(max_bytes=limit, fail_on_data_loss=not self._is_tolerant)

    def _tend(self) -> None:
        """Start a driver again whose query has ended."""
        if self.follower.is_running:
            return
        said = self.follower.said()
        reason = next((one for one in (CUT_SAID, EXPIRED_SAID, GONE_SAID) if one in said), None)
        if reason is not None:
            self.done[f"stopped: {reason}"] += 1
            if reason not in self._causes or self._is_tolerant:
                self.wrong.append(f"stopped for no reason: {reason}")
            self._is_tolerant = True
        elif NOT_STARTED in said:
            self.done["started again: no worker within Spark's 10 s"] += 1
        else:
            self.wrong.append(f"the driver ended: {said[-1500:]}")
        self._follow()

    def _pause(self) -> None:
        time.sleep(self._random.uniform(0, 4))

    def _progress(self) -> None:
        """Wait until a batch has been committed from now on."""
        before, _ = self.follower.committed()
        self._until(lambda: self.follower.committed()[0] > before, "no batch was committed")

    def _caught_up(self) -> None:
        """Wait until the stream has read what the log has now; losses have been told then."""
        end, (before, _) = self.lives.log.end(), self.follower.committed()

        def is_read() -> bool:
            # The next batch may have been planned before: the second one knows what was lost.
            number, place = self.follower.committed()
            return number >= before + 2 and place >= end

        self._until(is_read, f"the log was not read up to {end}")
        self._causes.clear()

    def _until(self, claim: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not claim():
            self._tend()
            if time.monotonic() > deadline:
                self.wrong.append(f"within {PATIENCE} s {otherwise}")
                return
            time.sleep(0.2)


STEPS: Final[Sequence[Callable[[Trial], None]]] = (
    Trial.broker_killed,
    Trial.power_lost,
    Trial.driver_killed,
    Trial.driver_killed,
    Trial.both_killed,
    Trial.expired_read,
    Trial.expired_unread,
    Trial.rest,
)


def campaign(
    version: str,
    work: Path,
    seed: int,
    steps: Sequence[Callable[[Trial], None]] | float,
    *,
    is_plain: bool = False,
) -> tuple[Counter[str], Judgement]:
    """Run a trial; give what was done, and the judgement.

    Args:
        version: of RocketMQ.
        work: an empty directory.
        seed: of what is done when.
        steps: what is done, in order; or for how many seconds the seed chooses.
        is_plain: drive the reader of the stream as Spark does, without Spark.
    """
    trial = Trial(version, work, seed, is_plain=is_plain)
    choose = Random(seed)  # noqa: S311 - to be had again
    try:
        trial.begin()
        if isinstance(steps, float):
            end = time.monotonic() + steps
            while time.monotonic() < end:
                trial.one(choose.choice(STEPS))
        else:
            for step in steps:
                trial.one(step)
        return trial.done, trial.end()
    finally:
        trial.close()


def main() -> int:
    """Run for some minutes; print what was done, counted and wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="5.3.3", help="release of the broker")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="the reader of the stream, no Spark")
    parser.add_argument("--keep", action="store_true", help="leave the files when it is wrong")
    asked = parser.parse_args()
    logging.disable()  # py4j tells of each call that a kill has broken
    work = Path(tempfile.mkdtemp(prefix="rmqtool-stream-"))
    done, judgement = campaign(
        asked.version, work, asked.seed, asked.minutes * 60, is_plain=asked.plain
    )
    for figures in (done, judgement.figures):
        for name, count in sorted(figures.items()):
            print(f"{count:9,}  {name}")
    for what in judgement.wrong:
        print(f"wrong: {what}")
    if judgement.wrong and asked.keep:
        print(f"left: {work}")
    else:
        shutil.rmtree(work)
    return int(bool(judgement.wrong))


if __name__ == "__main__":
    sys.exit(main())
