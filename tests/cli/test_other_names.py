"""What people type who know other tools is understood, or answered with the line that does it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from rmqtool.cli import plain, typed
from rmqtool.cli.commands import OTHER_LINES, OTHER_OPTIONS
from rmqtool.cli.main import main
from rmqtool.query.requests import ById, pasted
from rmqtool.times import zone_of
from tests.tour import TOUR

ID = "C000020265084E0E2F2A679C81110204"


@pytest.mark.parametrize("name", OTHER_LINES)
def test_commands(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A name of another tool is answered with a line that this one reads."""
    assert 2 == main([name, "some/store"])
    line = capfd.readouterr().err.rpartition("try: rmqtool ")[2].strip()
    assert "some/store" in line or line == "--version"
    assert (plain.read(line.split()) or typed.read(line.split())) is not None


@pytest.mark.parametrize("option", OTHER_OPTIONS)
def test_options(option: str, capfd: pytest.CaptureFixture[str]) -> None:
    """An option of another tool is answered with the one that does it."""
    assert 2 == main(["startup", str(TOUR), option.replace("-q", "--no-such")])
    if option != "-q":
        assert f"try: {OTHER_OPTIONS[option]}" in capfd.readouterr().err


def test_sections(capfd: pytest.CaptureFixture[str]) -> None:
    """Sections may be given at once."""
    line = ["info", str(TOUR), "--section", "store,segments", "--format", "json"]
    assert 0 == main(line)
    assert ["store", "segments"] == [*json.loads(capfd.readouterr().out)]


@pytest.mark.parametrize("text", [ID, f"msgId={ID}", f"{ID},", f'"msgId": "{ID}",', f"[{ID}]"])
def test_pasted(text: str) -> None:
    """An ID is one with what a log or a console has around it."""
    assert ById(ID) == pasted(text)


@pytest.mark.parametrize(
    ("name", "hours"),
    [("UTC+8", 8), ("+08:00", 8), ("GMT+0530", 5.5), ("-03", -3), ("UTC-9:30", -9.5)],
)
def test_zones(name: str, hours: float) -> None:
    """A zone may be an offset from UTC."""
    assert timedelta(hours=hours) == zone_of(name).utcoffset(None)


def test_ambiguous_zone() -> None:
    """A short name of more zones than one is refused, and they are named."""
    with pytest.raises(ValueError, match="CST may be Asia/Shanghai or America/Chicago"):
        zone_of("CST")


def test_help_of_an_option(capfd: pytest.CaptureFixture[str]) -> None:
    """`help --option` says what it does, and which commands have it."""
    assert 0 == main(["help", "--unpack-limit"])
    shown = " ".join(capfd.readouterr().out.split())
    assert "Bytes that an archive may take" in shown
    assert "Of: doctor, browse, info, dump" in shown or "Of: doctor, info, dump" in shown
    assert 2 == main(["help", "--no-such"])


def test_around(capfd: pytest.CaptureFixture[str]) -> None:
    """Of more messages than are shown around a time, the nearest are."""
    line = ["query", str(TOUR), "--around", "2026-11-21T02:52:18Z", "--columns", "store_time"]
    assert 0 == main([*line, "--format", "csv"])
    told = capfd.readouterr()
    times = told.out.split()[1:]
    assert 1000 == len(times)
    assert times == sorted(times)
    assert times[499] < "2026-11-21T02:52:18" <= times[500]
    assert "the nearest 1,000" in told.err
    assert 0 == main([*line[:3], "2026-11-21T02:52:18Z±1s", *line[4:], "--format", "csv"])
    near = capfd.readouterr().out.split()[1:]
    assert near == [time for time in times if "02:52:17" <= time[11:] < "02:52:19"]


def test_name_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The name servers may come from -n, and from the variable of RocketMQ's own clients."""
    file = str(tmp_path / "messages.jsonl")
    short = plain.read(["send", file, "-n", "10.0.0.1:9876"])
    assert short == plain.read(["send", file, "--name-server", "10.0.0.1:9876"])
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.1:9876")
    assert short == plain.read(["send", file])
