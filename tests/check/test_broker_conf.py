"""A broker.conf that is wrong is blamed itself, never the files that agree with each other."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqtool.doctor.examination import examine_store
from rmqtool.doctor.report import screen
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import Finding
from rmqtool.repair.options import RepairOptions
from rmqtool.repair.planning import make_plan
from rmqtool.rows import rows_of
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests.check.validation import run
from tests.stores import broker_conf

NAME = "rocketmq-5.3.3-traffic"
VERSION = "5.3.3"


def _conf(tmp_path: Path, **changed: str | None) -> Path:
    """Write the fixture's configuration with some keys changed, or left out."""
    lines = broker_conf(NAME).read_text().splitlines()
    kept = [line for line in lines if line.partition("=")[0] not in changed]
    kept += [f"{key}={value}" for key, value in changed.items() if value is not None]
    path = tmp_path / "broker.conf"
    path.write_text("\n".join(kept) + "\n")
    return path


def _found(store: Path, conf: Path) -> list[Finding]:
    findings, _, _ = run(store, "quick", conf, VERSION)
    return [finding for finding in findings if finding.severity is not Severity.NOTE]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("mapedFileSizeConsumeQueue", "2000", "the key is mappedFileSizeConsumeQueue"),
        ("enableLmq", "yes", "it counts as false"),
        ("commitLogRecoverMaxNum", "3", "5.4.0 brought it"),
        ("brokerId", "0 ", "the default 0 counts"),
    ],
)
def test_keys(
    key: str, value: str, words: str, tmp_path: Path, copy_of: Callable[[str], Path]
) -> None:
    """What a broker passes over is a warning, with the line, and `startup` says the same."""
    store, conf = copy_of(NAME), _conf(tmp_path, **{key: value})
    (finding,) = (
        finding for finding in run(store, "quick", conf, VERSION)[0] if finding.code == "BC-KEY"
    )
    line = len(conf.read_text().splitlines())
    severity = Severity.NOTE if "brought it" in words else Severity.WARNING
    assert (severity, f"{key}={value}") == (finding.severity, finding.actual)
    assert finding.message.startswith(f"line {line}: {key}: ")
    assert words in finding.message
    assert (finding.message,) == predict(open_store(store, conf), VERSION).ignored


def test_doctor_names_keys(tmp_path: Path, copy_of: Callable[[str], Path]) -> None:
    """The doctor has a line for each key that the release ignores, and says that more are left."""
    slips = {f"qqqqqq{number}": "1" for number in range(5)}
    conf = _conf(tmp_path, enableControler="true", BrokerName="a", **slips)
    options = RepairOptions(str(copy_of(NAME)), VERSION, str(conf))
    rows = rows_of(next(iter(screen(examine_store(options)))))
    lines = [str(row["value"]) for row in rows if row["field"] == "broker.conf"]
    assert "the nearest key is enableControllerMode" in lines[0]
    assert "the key is brokerName" in lines[1]
    assert "1 line more: --format json" == lines[-1]
    assert 7 == len(lines)


@pytest.mark.parametrize("value", [None, "1000", "4000 ", "6000"], ids=str)
@pytest.mark.parametrize(
    ("key", "wanted"), [("mappedFileSizeConsumeQueue", 2000), ("mappedFileSizeCommitLog", 131072)]
)
def test_lengths(
    key: str, wanted: int, value: str | None, tmp_path: Path, copy_of: Callable[[str], Path]
) -> None:
    """A wrong length, or none, is the configuration's fault: no broker starts, no file changes."""
    store, conf = copy_of(NAME), _conf(tmp_path, **{key: value})
    (finding,) = (finding for finding in _found(store, conf) if finding.code != "BC-KEY")
    assert ("BC-LEN", Severity.DAMAGE, f"{key}={wanted}") == (
        finding.code,
        finding.severity,
        finding.expected,
    )
    assert not predict(open_store(store, conf), VERSION).starts
    plan = make_plan(RepairOptions(str(store), VERSION, str(conf)))
    assert [] == plan.edits
    assert ["BC-LEN"] == [left.code for left in plan.left if left.code != "BC-KEY"]


def test_lengths_of_the_index(tmp_path: Path, copy_of: Callable[[str], Path]) -> None:
    """Index files that agree with each other are not made anew for other numbers."""
    store = copy_of(NAME)
    assert 1 < len(list((store / "index").iterdir()))
    conf = _conf(tmp_path, maxHashSlotNum="700", maxIndexNum="3000")
    expected = ["maxHashSlotNum=500", "maxIndexNum=2000"]
    assert expected == [finding.expected for finding in _found(store, conf)]
    assert [] == make_plan(RepairOptions(str(store), VERSION, str(conf))).edits


def test_short_file(tmp_path: Path, copy_of: Callable[[str], Path]) -> None:
    """A file that is shorter than its neighbours is not the configuration's fault."""
    store = copy_of(NAME)
    path = max((store / "commitlog").iterdir())
    os.truncate(path, 100_000)
    (finding,) = (
        finding
        for finding in _found(store, _conf(tmp_path))
        if finding.code.startswith(("FS", "BC"))
    )
    assert ("FS-LEN", f"commitlog/{path.name}") == (finding.code, finding.path)


def test_path_of_this_store(tmp_path: Path, copy_of: Callable[[str], Path]) -> None:
    """A commitlog that is configured where nothing lies is none, whatever the usual place holds."""
    store = copy_of(NAME)
    paths = f"{store}/commitlog:{tmp_path}/more"
    conf = _conf(tmp_path, storePathRootDir=str(store), storePathCommitLog=paths)
    found = {str(finding.code): finding for finding in _found(store, conf)}
    assert found["BC-PATH"].severity is Severity.DAMAGE
    assert "storePathCommitLog: commitlog:" in found["BC-PATH"].message
    assert "FS-NOLOG" in found
    prediction = predict(open_store(store, conf), VERSION)
    units = sum(queue.units_now for queue in prediction.queues)
    assert (units, units > 1000) == (prediction.missing.messages, True)
    plan = make_plan(RepairOptions(str(store), VERSION, str(conf)))
    assert [] == plan.edits
    assert {"BC-PATH", "FS-NOLOG"} <= {left.code for left in plan.left}


def test_path_of_another_machine(tmp_path: Path, copy_of: Callable[[str], Path]) -> None:
    """Of a copy the usual place is read, and that is noted."""
    store = copy_of(NAME)
    elsewhere = {"storePathRootDir": "/far/store", "storePathCommitLog": "/far/log"}
    findings, _, _ = run(store, "full", _conf(tmp_path, **elsewhere), VERSION)
    (finding,) = (finding for finding in findings if finding.code.startswith(("FS", "BC")))
    assert ("BC-PATH", Severity.NOTE) == (finding.code, finding.severity)
