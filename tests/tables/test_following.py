"""`dump --follow`: each message once, when it is whole, through a cut log and an expired one."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rmqtool.cli.main import main
from rmqtool.cli.signals import Terminated
from rmqtool.rows import Rows
from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump
from rmqtool.tables.follow import TORN_LOOKS
from tests.stores import fixture_store, held_by_another

Doing = Callable[[], object]
LATER = 3  # after one for the columns, and the first


class Broker:
    """Writes what a real broker has written, a piece at each pause; then the pause ends all."""

    def __init__(self, store: Path) -> None:
        self.files = sorted((store / "commitlog").iterdir())
        self.contents = [file.read_bytes() for file in self.files]
        self.doings: list[Doing] = []

    def write(self, end: int) -> None:
        """Make the log end at a physical offset, be it in a record; files are made when needed."""
        for file, content in zip(self.files, self.contents, strict=True):
            start = int(file.name)
            kept = content[: max(end - start, 0)]
            if kept:
                file.write_bytes(kept.ljust(len(content), b"\0"))
            else:
                file.unlink(missing_ok=True)

    def sleep(self, _: float) -> None:
        """Do the next thing."""
        if not self.doings:
            raise Terminated
        self.doings.pop(0)()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Give a store of two log files."""
    return fixture_store("rocketmq-5.3.3-traffic", tmp_path)


@pytest.fixture
def offsets(store: Path, capfd: pytest.CaptureFixture[str]) -> list[int]:
    """Give where its records begin, and where the last one ends."""
    assert 0 == main(["dump", str(store), "--columns", "physical_offset,size", "--format", "jsonl"])
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    return [row["physical_offset"] for row in rows] + [
        rows[-1]["physical_offset"] + rows[-1]["size"]
    ]


@pytest.fixture
def broker(store: Path, monkeypatch: pytest.MonkeyPatch) -> Broker:
    """Give what writes the log meanwhile."""
    broker = Broker(store)
    monkeypatch.setattr("rmqtool.tables.follow.sleep", broker.sleep)
    return broker


def follow(
    store: Path, capfd: pytest.CaptureFixture[str], *more: str
) -> tuple[int, list[int], list[str]]:
    """Follow until nothing comes any more; give exit code, physical offsets and sentences."""
    command = ["dump", str(store), "--follow", "--columns", "physical_offset", "--format", "jsonl"]
    code = main([*command, *more])
    out, said = capfd.readouterr()
    return (
        code,
        [json.loads(line)["physical_offset"] for line in out.splitlines()],
        [line for line in said.splitlines() if "rmqtool" in line],
    )


def nothing() -> None:
    """Let a look go by."""


def test_each_once(
    store: Path, broker: Broker, offsets: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    """Records that come one by one, by halves, and over the border of two files are shown once."""
    ends = [offsets[300], offsets[301], offsets[301] + 60, offsets[302], offsets[-400], offsets[-1]]
    broker.write(offsets[100])
    broker.doings = [nothing, *[lambda end=end: broker.write(end) for end in ends], nothing]
    code, seen, said = follow(store, capfd)
    assert (0, offsets[:-1], []) == (code, seen, said)


def test_torn(
    store: Path, broker: Broker, offsets: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    """A record that the broker goes on writing looks later is no damage, and is shown then."""
    torn = [offsets[101] - 5, offsets[301] - 1, offsets[303] - 150]
    broker.write(torn[0])
    broker.doings = [nothing] * 5
    for end in (offsets[200], *torn[1:], offsets[-1]):
        broker.doings += [partial(broker.write, end), *[nothing] * 5]
    assert (0, offsets[:-1], []) == follow(store, capfd)


def test_damaged(
    store: Path, broker: Broker, offsets: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    """A last record that stays as it is is shown at last, as damage."""
    broker.write(offsets[101] - 5)
    broker.doings = [nothing] * (TORN_LOOKS - 1)
    code, seen, _ = follow(store, capfd)
    assert (0, offsets[:100]) == (code, seen)
    broker.doings = [nothing] * (TORN_LOOKS + 3)
    code, seen, _ = follow(store, capfd)
    assert offsets[:101] == seen


def test_tail(
    store: Path, broker: Broker, offsets: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    """The last ones first, then what comes, up to a limit or a signal."""
    broker.write(offsets[-10])
    broker.doings = [nothing, lambda: broker.write(offsets[-1]), nothing, nothing]
    assert (0, offsets[-13:-1], []) == follow(store, capfd, "--tail", "3")
    broker.doings = [nothing] * 3
    assert (0, offsets[:5], []) == follow(store, capfd, "--limit", "5")


def test_cut_back(
    store: Path, broker: Broker, offsets: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    """A broker that starts again cuts the log: what it writes then is shown, and it is said."""
    broker.write(offsets[200])
    broker.doings = [
        nothing,
        lambda: broker.write(offsets[220]),
        nothing,
        lambda: broker.write(offsets[200]),
        nothing,
        lambda: broker.write(offsets[210]),
        nothing,
    ]
    code, seen, said = follow(store, capfd)
    assert (0, offsets[:220] + offsets[200:210]) == (code, seen)
    assert [f"rmqtool: the log was cut back from {offsets[220]} to {offsets[200]}"] == said


def test_expired(
    store: Path, broker: Broker, offsets: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    """What expires before it was shown is named."""
    border = int(broker.files[1].name)

    def expire() -> None:
        broker.write(offsets[-1])
        broker.files[0].unlink()

    broker.write(offsets[100])
    broker.doings = [nothing, expire, nothing, nothing]
    code, seen, said = follow(store, capfd)
    assert 0 == code
    assert offsets[:100] + [offset for offset in offsets[:-1] if offset >= border] == seen
    assert [f"rmqtool: the log from {offsets[100]} to {border} expired before it was shown"] == said


@pytest.mark.parametrize("is_listed", [False, True])
def test_expired_after_look(
    store: Path,
    broker: Broker,
    offsets: list[int],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_listed: bool,
) -> None:
    """What expires between the look that finds it and the reading of it is named, too."""
    border = int(broker.files[1].name)
    calls = []

    def dumped(options: DumpOptions, outcome: DumpOutcome) -> list[Rows]:
        calls.append(options)
        if len(calls) == LATER and not is_listed:
            broker.files[0].unlink()
        found = dump(options, outcome)
        if len(calls) == LATER and is_listed:
            broker.files[0].unlink()
        return found

    monkeypatch.setattr("rmqtool.tables.follow.dump", dumped)
    broker.write(offsets[100])
    broker.doings = [nothing, lambda: broker.write(offsets[-1]), nothing, nothing]
    with held_by_another(store):
        code, seen, said = follow(store, capfd)
    assert 0 == code
    assert offsets[:100] + [offset for offset in offsets[:-1] if offset >= border] == seen
    told = f"rmqtool: the log from {offsets[100]} to {border} expired before it was shown"
    more = ["rmqtool: 1 file expired meanwhile: a running broker deleted them"] if is_listed else []
    assert [told, *more] == said


@pytest.mark.parametrize(
    "more",
    [
        ("--as", "index"),
        ("--hex",),
        ("--offsets", ":1000"),
        ("--format", "json"),
        ("--engine", "spark"),
    ],
)
def test_refused(store: Path, capfd: pytest.CaptureFixture[str], more: tuple[str, ...]) -> None:
    """What cannot be followed is refused, and nothing is waited for."""
    assert 2 == main(["dump", str(store), "--follow", *more])
    assert "--follow" in capfd.readouterr().err
