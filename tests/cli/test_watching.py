"""`validate --every`: each finding once, only what is new is read, and a signal is a good end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from rmqtool.cli.main import main
from rmqtool.cli.signals import Terminated
from rmqtool.store.entry import EntryKind
from rmqtool.store.place import Pace, Place, pace, paced
from tests import inflict
from tests.stores import fixture_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Give a store of several log files."""
    return fixture_store("rocketmq-5.3.3-traffic", tmp_path)


class Rounds:
    """Stands in for the pauses: does something in each, and ends the watch after the last."""

    def __init__(self, *doings: Callable[[], object]) -> None:
        self.doings = [*doings]
        self.waits: list[float] = []

    def sleep(self, seconds: float) -> None:
        """Do the next thing."""
        self.waits.append(seconds)
        if not self.doings:
            raise Terminated
        self.doings.pop(0)()


def records_read(said: str) -> int:
    """Give how many records the sentence of a round counts."""
    return int(said.split(", ")[1].split(maxsplit=1)[0].replace(",", ""))


def watch(
    rounds: Rounds, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *more: str
) -> tuple[int, list[dict[str, object]], list[str]]:
    """Watch; give the exit code, the rows and the sentences."""
    monkeypatch.setattr("rmqtool.cli.watching.sleep", rounds.sleep)
    code = main(["validate", *more, "--every", "10m", "--format", "jsonl"])
    out, said = capfd.readouterr()
    return code, [json.loads(line) for line in out.splitlines()], said.splitlines()


def test_rounds(
    store: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage of a later round is shown once, and sealed files are not read twice."""
    rounds = Rounds(
        lambda: None, partial(inflict.flip_field("body", where=0.99), store), lambda: None
    )
    code, rows, said = watch(rounds, capfd, monkeypatch, str(store))
    assert 1 == code
    keys = [(row["code"], row["path"], row["position"]) for row in rows]
    assert keys == list(dict.fromkeys(keys))
    assert "CL-CRC" in {row["code"] for row in rows}
    whole, *later = [
        int(line.split(", ")[1].split()[0].replace(",", "")) for line in said if " read, " in line
    ]
    assert 3 == len(later)
    assert all(0 < records < whole for records in later)
    assert "nothing new" in said[0]
    assert "stopped after 4 whole rounds" in said[-1]
    assert all(0 < wait <= 600 for wait in rounds.waits)


def test_known_damage(
    store: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage of the first round does not make later ones read all, and the watch ends with 1."""
    inflict.flip_field("body")(store)
    code, rows, said = watch(Rounds(lambda: None), capfd, monkeypatch, str(store))
    assert 1 == code
    assert "CL-CRC" in {row["code"] for row in rows}
    assert "1 damage" in said[-1]
    whole, later = [
        int(line.split(", ")[1].split()[0].replace(",", "")) for line in said if " read, " in line
    ]
    assert 0 < later < whole


def test_gone(
    store: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that is not there any more ends the watch with an error."""
    code, _, said = watch(Rounds(lambda: shutil.rmtree(store)), capfd, monkeypatch, str(store))
    assert 2 == code
    assert "store" in said[-2]


@pytest.mark.parametrize(
    "more",
    [
        ("--every", "soon"),
        ("--every", "0s"),
        ("--every", "1m", "--recursive"),
        ("--every", "1m", "--manifest", "m.json"),
        ("--every", "1m", "--format", "csv"),
        ("--max-rate", "fast"),
        ("--max-rate", "4KB/s"),
        ("--max-rate", "2MB", "--engine", "spark"),
    ],
)
def test_refused(store: Path, capfd: pytest.CaptureFixture[str], more: tuple[str, ...]) -> None:
    """What has no meaning is refused before anything is read."""
    assert 2 == main(["validate", str(store), *more])
    assert more[-2 if more[-1] != "--recursive" else -1] in (said := capfd.readouterr().err) or (
        "--every" in said
    )


def _sleep(clock: list[float], wait: float) -> None:
    clock[0] += wait


def test_pace(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads are held to a rate, together, and what was read does not stay in the page cache."""
    clock, dropped = [0.0], []
    place = Place.of(store / "commitlog")
    name = next(entry.name for entry in place.entries() if entry.kind is EntryKind.FILE)
    sleep = partial(_sleep, clock)
    monkeypatch.setattr(
        "rmqtool.store.place.time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep)
    )
    monkeypatch.setattr(
        "rmqtool.store.place.os.posix_fadvise", lambda *what: dropped.append(what[1:3])
    )
    with paced(1000), place.child(name).open() as file:
        for start in range(0, 4000, 500):
            file.read_at(start, 500)
        buffer = bytearray(1000)
        assert 1000 == file.read_into(buffer, 4000)
    assert pytest.approx(5.0, abs=0.2) == clock[0]
    assert (4000, 1000) == dropped[-1]
    assert pace() is None


def test_pace_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a pause only a tenth of a second of reading comes at once."""
    clock = [0.0]
    sleep = partial(_sleep, clock)
    monkeypatch.setattr(
        "rmqtool.store.place.time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep)
    )
    slow = Pace(1000)
    with Path("/dev/null").open("rb") as file:
        clock[0] = 100.0
        slow.took(file.fileno(), 0, 1100)
    assert pytest.approx(101.0) == clock[0]
