"""Chinese says what English says: no code lacks a text, no command or number is changed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from rmqtool.cli.main import main
from rmqtool.findings.registry import CODES
from rmqtool.languages import LOCALES, Language, Sentences, chosen, codes, sentences
from rmqtool.render.emit import cell_length, wrapped_wide

ROOT: Final = Path(__file__).parents[1]
SCREENS: Final = ROOT / "tests/doctor/screens"
NUMBER: Final = re.compile(r"\d+(?:,\d{3})*")
CHINESE: Final = re.compile(r"[\u4e00-\u9fff]")
# What stays: paths, options, codes, names of RocketMQ's own things, keys of configuration.
NAMES: Final = re.compile(
    r"\S*[/=_.-]\S*|[A-Z]{2}-[A-Z-]+|\b[a-z]+[A-Z]\w*"
    r"|broker|commitlog|checkpoint|timerwheel|timerlog|abort|DLedger|RocksDB|rmqtool|Key|FILE"
    r"|root|nobody|dmesg|json|send|JSON"
)


def wide_lines() -> list[tuple[str, str]]:
    """Give label and sentence of each line of doctor's screens that is not broken."""
    found = set()
    for path in SCREENS.glob("*.txt"):
        wide = path.read_text(encoding="utf-8").rpartition("\nfield")[2]
        found |= set(re.findall(r"^(\w[\w. ]*?)  +(\S.*)$", wide, re.MULTILINE))
    return sorted(found)


def test_codes() -> None:
    """Each code has meaning, consequence and remedy in Chinese, and a rule where it needs one."""
    known = codes(Language.CHINESE)
    assert {*known} == {str(code) for code in CODES.values()}
    for code in CODES.values():
        texts = known[code.name]
        assert (4 if code.when else 3) == len(texts), code.name
        assert all(CHINESE.search(text) for text in texts), code.name
        options = re.findall(r"--[a-z-]+", code.remedy)
        assert options == re.findall(r"--[a-z-]+", texts[2]), code.name


def test_screens() -> None:
    """No English is left on doctor's screens, and numbers and paths are all there."""
    say = sentences(Language.CHINESE).of
    lines = wide_lines()
    assert len(lines) > 80
    for label, text in lines:
        if label in {"next", "store"}:
            continue
        spoken = say(text)
        assert not re.search(r"[A-Za-z]{3,}", NAMES.sub("", spoken)), (text, spoken)
        is_finding = re.search(r"\b[A-Z]{2}-[A-Z]|^\S+: ", text)
        numbers = [] if is_finding else re.findall(r"\d+(?:,\d{3})*", text)
        assert sorted(numbers) == sorted(
            [] if is_finding else re.findall(r"\d+(?:,\d{3})*", spoken)
        )


def test_wide() -> None:
    """Long Chinese sentences are broken within the room that there is, and lose nothing."""
    text = sentences(Language.CHINESE).of(
        "starting it now costs: 820 messages cut off the log, 120 messages out of reach of "
        "consumers, 1 commitlog file deleted"
    )
    assert not re.search(r"[A-Za-z]{3,}", NAMES.sub("", text))
    for room in (20, 40, 80):
        lines = wrapped_wide(text, room)
        assert all(cell_length(line) <= room for line in lines)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_unknown() -> None:
    """A sentence without a translation stays as it is, also beside one that has one."""
    say = Sentences(Language.CHINESE, {}).of
    assert "no such sentence" == say("no such sentence")
    assert say("nothing is damaged") + "\uff1bno such sentence" == say(
        "nothing is damaged; no such sentence"
    )


@pytest.mark.parametrize(
    ("locale", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "de_DE.UTF-8", "LC_MESSAGES": "zh_TW"}, "zh"),
    ],
)
def test_locale(locale: dict[str, str], language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an option the locale counts, its stronger variable first."""
    for name in LOCALES:
        monkeypatch.delenv(name, raising=False)
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    assert language == chosen()
    assert Language.ENGLISH is chosen(Language.ENGLISH)


def test_help(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`help` of a code speaks Chinese by option and by environment; the command stays."""
    assert 0 == main(["help", "CL-CRC", "--lang", "zh"])
    shown = capfd.readouterr().out
    assert codes(Language.CHINESE)["CL-CRC"][0] in shown
    assert CODES["CL-CRC"].command in shown
    monkeypatch.setenv("RMQTOOL_LANG", "zh")
    assert 0 == main(["help", "findings"])
    every = capfd.readouterr().out
    assert [] == [code for code in CODES if f"{code} (" not in every]


@pytest.mark.parametrize(
    ("name", "translated"),
    [("README.md", "README.zh-CN.md"), ("docs/tour.md", "docs/zh/tour.md")],
)
def test_pages(name: str, translated: str) -> None:
    """Commands and outputs of a Chinese page are those of the English one, which tests run."""
    blocks = re.compile(r"```(?:console|sh)\n.*?```\n", re.DOTALL)
    english, chinese = [(ROOT / page).read_text(encoding="utf-8") for page in (name, translated)]
    assert blocks.findall(english) == blocks.findall(chinese)
    table = re.compile(r"^\|[^|]*\| (`.*) \|$", re.MULTILINE)
    said = [set(re.findall("`[^`]+`", row)) for row in table.findall(english)]
    assert said == [set(re.findall("`[^`]+`", row)) for row in table.findall(chinese)]
    for link in re.findall(r"\]\(([^)#]+)", chinese):
        assert ((ROOT / translated).parent / link).exists(), link
