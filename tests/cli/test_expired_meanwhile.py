"""A segment that a running broker deletes while a command reads: no error, and no damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from rmqtool.cli.main import main
from rmqtool.store.place import OpenFile, Place
from tests.stores import OPENS, fixture_store, held_by_another

NAME: Final = "rocketmq-4.9.3-traffic"
COMMANDS: Final = {
    "validate": "validate STORE --level deep --format jsonl",
    "report": "report STORE --output NEW.html",
    "rebuild-log": "rebuild-log STORE --output NEW",
    "diff": "diff STORE STORE",
    "time": "query STORE --topic traffic-orders --time 2026-11-21T02:51:48Z",
    "key": "query STORE --key ORDER-13",
    "keys": "query STORE --key ORDER-13 --key ORDER-14",
    "info": "info STORE",
    "startup": "startup STORE",
    "doctor": "doctor STORE",
    "extract": "extract STORE --output NEW.jsonl",
    "rebuild-cq": "rebuild-cq STORE --check",
    "rebuild-index": "rebuild-index STORE --check",
}
FOUND_BEFORE: Final = {"key", "keys"}  # the message may have been in the segment that is gone


class Expiring:
    """Deletes a file before it is opened for the n-th time, and counts how often it is."""

    def __init__(self, gone: Path, number: int) -> None:
        self.gone, self.number, self.count = gone, number, 0

    def hook(self, opened: Callable[[Place], OpenFile]) -> Callable[[Place], OpenFile]:
        """Give what stands for `Place.open`."""

        def touch(place: Place) -> OpenFile:
            if str(place) == str(self.gone):
                self.count += 1
                if self.count == self.number:
                    self.gone.unlink()
            return opened(place)

        return touch


@pytest.mark.parametrize("command", COMMANDS)
def test_expires(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Before the first time that it is opened, before the last, and at times between them."""
    opened, often, number = Place.open, 1, 0
    while number <= often:
        place = tmp_path / str(number)
        place.mkdir()
        store = fixture_store(NAME, place)
        expiring = Expiring(min((store / "commitlog").iterdir()), number)
        for name in OPENS:
            monkeypatch.setattr(Place, name, expiring.hook(opened))
        words = COMMANDS[command].replace("STORE", str(store)).replace("NEW", str(place / "new"))
        with held_by_another(store):
            code = main(words.split())
        said = "".join(capfd.readouterr())
        assert code in ({0, 1} if command in FOUND_BEFORE else {0}), said
        assert "no such file" not in said
        if not number:
            often = expiring.count
        else:
            assert not expiring.gone.exists()
        number += max(often // 3, 1)
    assert often
