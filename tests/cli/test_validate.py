"""`rmqtool validate` as a process: reports, signals, what cannot be read, and nothing written."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from rmqtool.findings.registry import CODES
from tests import inflict
from tests.cli.run import CLEAN, COMMAND, PATIENCE, rmqtool
from tests.evidence import Evidence
from tests.render.sarif_schema import LOG
from tests.stores import fixture_store


@pytest.fixture
def store(tmp_path: Path, evidence: Evidence) -> Path:
    """Give a store of a real broker."""
    return evidence.keep(fixture_store("rocketmq-5.3.3-lmq", tmp_path))


@pytest.fixture
def damaged(tmp_path: Path, evidence: Evidence) -> Path:
    """Give a store with a flipped bit in a body."""
    root = fixture_store("rocketmq-5.3.3-lmq", tmp_path)
    inflict.flip_field("body")(root)
    return evidence.keep(root)


def reports(store: Path, *options: str) -> tuple[int, dict[str, Any], ET.Element]:
    """Validate; give exit code, SARIF run and JUnit suite."""
    sarif, junit = store.parent / "found.sarif", store.parent / "found.xml"
    done = rmqtool("validate", store, "--sarif", sarif, "--junit", junit, *options)
    document = json.loads(sarif.read_text())
    jsonschema.validate(document, LOG)
    (suite,) = ET.fromstring(junit.read_text())  # noqa: S314 - our own output
    return done.code, document["runs"][0], suite


def test_reports(damaged: Path) -> None:
    """Both reports name the damage; all that was not found has passed."""
    code, run, suite = reports(damaged)
    assert (1, ["CL-CRC"]) == (code, [one["ruleId"] for one in run["results"]])
    assert run["invocations"][0]["executionSuccessful"]
    assert ("1", "0", "0") == tuple(map(suite.get, ("failures", "errors", "skipped")))


def test_reports_of_a_quick_look(damaged: Path) -> None:
    """A quick look has not passed what it did not look for."""
    code, run, suite = reports(damaged, "--level", "quick")
    cases = {case.get("name"): [one.tag for one in case] for case in suite}
    assert (0, ["skipped"], []) == (code, cases["CL-CRC"], cases["FS-LEN"])
    (said,) = run["invocations"][0]["toolExecutionNotifications"]
    assert "records, units and entries" in said["message"]["text"]


def test_reports_of_some_codes(damaged: Path) -> None:
    """A report has a case for each code that was asked for, and none for any other."""
    _, _, suite = reports(damaged, "--only", "CL-CRC", "--only", "index", "--ignore", "IX-KEY")
    wanted = {code for code, one in CODES.items() if one.area == "index"}
    found = {str(case.get("name")) for case in suite}
    assert wanted - {"IX-KEY"} | {"CL-CRC"} == found & CODES.keys()


@pytest.mark.parametrize("name", ["checkpoint", "index"])
def test_unreadable(name: str, tmp_path: Path) -> None:
    """What is no file where one must be makes exit 3; all the rest is checked and told."""
    store = fixture_store("rocketmq-5.3.3-lmq", tmp_path)
    inflict.flip_field("body")(store)
    target = store / name
    target.rename(store.parent / "away")
    target.symlink_to(target.name)  # a loop
    done = rmqtool("validate", store)
    codes = {json.loads(line)["code"] for line in done.lines}
    assert 3 == done.code
    assert {"CL-CRC", "FS-READ"} <= codes
    assert "incomplete" in done.err
    assert f"could not be read: {name}" in done.err


@pytest.mark.parametrize("part", ["", "commitlog", "commitlog/00000000000000000000"])
def test_commands_can_be_pasted(part: str, tmp_path: Path) -> None:
    """The command of each row runs as it stands, also when a part of the store was asked for."""
    store = fixture_store("rocketmq-5.3.3-lmq", tmp_path / "it's here")
    inflict.flip_field("body")(store)
    inflict.flip_field("sys_flag", byte=0, bit=5, where=0.2)(store)
    (store / "abort").touch()
    rows = [json.loads(line) for line in rmqtool("validate", store / part).lines]
    commands = {row["code"]: shlex.split(row["repair"].rpartition("; ")[2]) for row in rows}
    assert {"CL-CRC", "CL-SYSFLAG"} <= commands.keys()
    assert bool(part) != ("AB-PRESENT" in commands)
    for code, (name, *words) in commands.items():
        assert "rmqtool" == name
        assert rmqtool(*words).code in {0, 1}, code


def test_targets(store: Path) -> None:
    """A report never goes into the store, and what is there already is found out at once."""
    before = sorted(store.rglob("*"))
    taken = store.parent / "taken"
    taken.touch()
    for target in (store / "abort", taken, store.parent / "none" / "x"):
        for option in ("--sarif", "--junit", "--output"):
            done = rmqtool("validate", store, option, target)
            assert (2, b"") == (done.code, done.out)
            assert str(target) in done.err
    assert before == sorted(store.rglob("*"))


def interrupted(store: Path, number: signal.Signals, *options: str) -> tuple[int, str, str]:
    """Start a validation that waits for its reader, send a signal, give code, stdout, stderr."""
    process = subprocess.Popen(  # noqa: S603 - our own program
        [*COMMAND, "validate", str(store), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=CLEAN,
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()  # something has been found: it is at work
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, first + out, err


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_signal(number: signal.Signals, code: int, tmp_path: Path, evidence: Evidence) -> None:
    """What was found gets out, the reports too, and nobody reads that the store is sound."""
    root = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    big = root / "commitlog"
    log = min(big.iterdir())
    log.write_bytes(log.read_bytes()[:100] + bytes(4) + log.read_bytes()[104:])
    last = max(big.iterdir())
    size = log.stat().st_size
    for number_of in range(1, 400):  # a long way to go behind the first finding
        (big / f"{int(last.name) + number_of * size:020}").hardlink_to(log)
    evidence.keep(root)
    junit = tmp_path / "found.xml"
    done, out, err = interrupted(root, number, "--junit", str(junit), "--jobs", "1")
    if done != code:
        pytest.skip("it was quicker than the signal")
    assert all(json.loads(line) for line in out.splitlines())
    assert "interrupted" in err
    assert "not checked: everything after the interruption" in err
    assert "sound" not in err
    assert "1" == ET.fromstring(junit.read_text())[0].get("errors")  # noqa: S314 - our own output


def test_progress(store: Path) -> None:
    """On a terminal, and only there, a bar shows how far it is."""
    terminal, process_side = pty.openpty()
    process = subprocess.Popen(  # noqa: S603 - our own program
        [*COMMAND, "validate", str(store)],
        stdout=subprocess.DEVNULL,
        stderr=process_side,
        env={**CLEAN, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(process_side)
    said = bytearray()
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            said += os.read(terminal, 1 << 16)
        except OSError:
            break
    os.close(terminal)
    assert 0 == process.wait(PATIENCE)
    assert b"validate" in said
    assert b"validate" not in rmqtool("validate", store).err.encode()
