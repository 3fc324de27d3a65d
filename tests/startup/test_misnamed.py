"""Files whose names are no multiples of their length: where a broker looks, and where it throws."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.startup.files import FileQueue, ModelFile
from rmqtool.startup.pull import LogExtent
from tests.startup.test_against_stores import ALWAYS, predicted
from tests.stores import fixture_store, manifest

LENGTH: Final = 131_072
TOPIC: Final = "crash-orders"


def test_log_files_that_overlap() -> None:
    """The file of a number is asked first, at the place that the offset has in a sound log.

    So did a store of 5.5.0: `python -m tests.repair.broker.campaign --seed 22 --only 99`.
    """
    files = [ModelFile(str(start), start, LENGTH, wrote_position=11_448) for start in (0, 4_096)]
    units = np.zeros(5, CQ_UNIT.dtype)
    units["physical_offset"] = (0, 10_889, 11_244, LENGTH, LENGTH + 4_096)
    units["size"] = 355
    extent = LogExtent(FileQueue("commitlog", LENGTH, files))
    assert [True, True, False, True, False] == extent.answers(units)[0].tolist()


@pytest.mark.parametrize(("version", "units", "readable"), [
    ("4.9.3", 25, 0), ("4.9.3", 60, 32), ("5.3.3", 25, 25), ("5.3.3", 60, 60),
])  # fmt: skip
def test_torn_unit(version: str, units: int, readable: int, tmp_path: Path) -> None:
    """A copy of another queue's file under number 7 ends in a unit of 7 bytes.

    Before 5.0 a pull that comes to it throws; real stores handed out these numbers.
    """
    name = f"rocketmq-{version}-crash"
    root = fixture_store(name, tmp_path)
    queues = root / "consumequeue" / TOPIC
    for path in sorted((queues / "1").iterdir())[1:]:
        path.unlink()
    first = (queues / "2" / f"{0:020}").read_bytes()
    (queues / "1" / f"{7:020}").write_bytes(first[: units * 20].ljust(len(first), b"\0"))
    (root / "abort").touch()
    settings = {**manifest(name)["settings"], **ALWAYS}
    outcomes = {
        (outcome.topic, outcome.queue_id): outcome
        for outcome in predicted(root, version, settings).queues
    }
    assert (units, readable) == (outcomes[TOPIC, 1].maximum, outcomes[TOPIC, 1].readable)


@pytest.mark.parametrize(("version", "readable"), [("4.9.3", 102), ("5.3.3", 10), ("5.5.0", 10)])
def test_between_others(version: str, readable: int, tmp_path: Path) -> None:
    """A pull looks at all units of a file until it has 32 messages; so real stores handed out.

    From 5.0 on units count from where their file begins: a consumer is sent back by those of a file
    that is found too late, and gets no further.
    """
    name = f"rocketmq-{version}-expired"
    root = fixture_store(name, tmp_path)
    queues = root / "consumequeue" / "expired-orders"
    first = min((queues / "2").iterdir())
    shutil.copyfile(first, queues / "1" / f"{int(first.name) + 7:020}")
    settings = {**manifest(name)["settings"], **ALWAYS}
    (outcome,) = (
        outcome
        for outcome in predicted(root, version, settings).queues
        if (outcome.topic, outcome.queue_id) == ("expired-orders", 1)
    )
    assert readable == outcome.readable


def test_instead_of_another(tmp_path: Path) -> None:
    """The file of a number is asked first, and then no other: a real store handed out these."""
    name = "rocketmq-5.5.0-expired"
    root = fixture_store(name, tmp_path)
    file = root / "consumequeue" / "expired-orders" / "2" / f"{4000:020}"
    file.rename(file.with_name(f"{4007:020}"))
    settings = {**manifest(name)["settings"], **ALWAYS}
    (outcome,) = (
        outcome
        for outcome in predicted(root, "5.5.0", settings).queues
        if (outcome.topic, outcome.queue_id) == ("expired-orders", 2)
    )
    assert (145, 300, 105) == (outcome.minimum, outcome.maximum, outcome.readable)


@pytest.mark.parametrize(("version", "maximum", "readable"), [
    ("4.9.3", 81, 64), ("5.3.3", 81, 64), ("5.5.0", 80, 80),
])  # fmt: skip
def test_torn_before_the_last(version: str, maximum: int, readable: int, tmp_path: Path) -> None:
    """Recovery ends the file before such a copy within a unit; so real stores handed out.

    A pull throws that comes to it and is not at the queue's end.
    """
    name = f"rocketmq-{version}-ext"
    root = fixture_store(name, tmp_path)
    queues = root / "consumequeue" / "ext-orders"
    shutil.copyfile(queues / "0" / f"{2000:020}", queues / "1" / f"{7:020}")
    settings = {**manifest(name)["settings"], **ALWAYS}
    (outcome,) = (
        outcome
        for outcome in predicted(root, version, settings).queues
        if (outcome.topic, outcome.queue_id) == ("ext-orders", 1)
    )
    assert (maximum, readable) == (outcome.maximum, outcome.readable)
