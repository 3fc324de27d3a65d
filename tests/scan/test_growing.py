"""A window is no snapshot: what a broker is writing while it is read is no damage."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from rmqtool.cli.main import main
from rmqtool.scan import message as scanning
from rmqtool.scan.batch import ScanOptions
from tests import plain_store
from tests.scan.segments import SMALL, dledger_bytes, extents, segment_bytes, whole, written
from tests.scan.test_walk import varied
from tests.stores import fixture_store, held_by_another

NAME: Final = "rocketmq-5.3.3-traffic"
SIZE: Final = 9000
RECORDS: Final = 12
PLAIN: Final = segment_bytes(varied(RECORDS), size=SIZE, blank=False)
ENTRIES: Final = dledger_bytes(varied(RECORDS), size=SIZE)
# What of a record is still zeros, in bytes from its begin, or from its end where negative.
MISSING: Final = {
    "begin": (0, 40),
    "length": (0, 4),
    "body": (-60, -45),
    "end": (-20, 0),
    "all but the begin": (110, 0),
}
COMMANDS: Final = (
    "validate STORE",
    "dump STORE",
    "export STORE --table messages --engine local --output NEW",
    "extract STORE --output NEW.jsonl",
    "rebuild-log STORE --output NEW",
)
TELLING: Final = ("report damage", "damage in ", "damaged stretch", "damaged: ", "hold no record")


def _without(raw: bytes, begin: int, end: int, missing: tuple[int, int]) -> bytes:
    """Put zeros where a record is not written yet."""
    first, last = missing
    start = (begin if first >= 0 else end) + first
    stop = (begin if last > 0 else end) + last
    return raw[:start] + bytes(stop - start) + raw[stop:]


@pytest.mark.parametrize("is_followed", [False, True])
@pytest.mark.parametrize("is_dledger", [False, True])
@pytest.mark.parametrize("missing", MISSING)
def test_being_written(
    missing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_dledger: bool,
    is_followed: bool,
) -> None:
    """It is read again until it is there; without a broker, and when it stays, it is as it is."""
    raw = ENTRIES if is_dledger else PLAIN
    segment = written(tmp_path, raw, is_dledger=is_dledger)
    path = Path(str(segment.place))
    for options in (ScanOptions(), SMALL):
        path.write_bytes(raw)
        sound = extents(whole(segment), options)
        records = [one for one in sound if one[0] == "record"]
        _, begin, size, _ = records[-2 if is_followed else -1]
        torn = _without(raw, begin, begin + size, MISSING[missing])
        path.write_bytes(torn)
        looks: list[float] = []

        def sleep(seconds: float, looks: list[float] = looks) -> None:
            looks.append(seconds)
            if len(looks) == 2:
                path.write_bytes(raw)

        monkeypatch.setattr(scanning, "sleep", sleep)
        seen = extents(whole(segment), options)
        assert not looks
        assert sound == extents(whole(segment._replace(grows=True)), options)
        assert [0.0, 0.05] == looks
        path.write_bytes(torn)
        monkeypatch.setattr(scanning, "sleep", looks.append)
        assert seen == extents(whole(segment._replace(grows=True)), options)
        assert [*scanning.PAUSES] == looks[2:]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No command that reads the whole log takes it for damage; damage that stays is told."""
    store = fixture_store(NAME, tmp_path)
    record = plain_store.records(store)[-2]
    sound = record.path.read_bytes()
    begin = record.position
    record.path.write_bytes(_without(sound, begin, begin + record.size, MISSING["begin"]))

    def run(name: str) -> tuple[int, bool]:
        words = command.replace("STORE", str(store)).replace("NEW", str(tmp_path / name))
        code = main(words.split())
        said = capfd.readouterr().err
        return code, any(word in said for word in TELLING)

    with held_by_another(store):
        monkeypatch.setattr(scanning, "sleep", lambda _: None)
        assert (1, True) == run("damaged")
        monkeypatch.setattr(scanning, "sleep", lambda _: record.path.write_bytes(sound))
        assert (0, False) == run("written")
