"""For each kind of trouble the doctor names what is wrong and the right first command.

`screens/` has what an operator then sees, on terminals of 80 and of 200 columns.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import orjson
import pytest

from rmqtool.cli.main import main
from rmqtool.doctor.advice import AdviceStep, steps_for
from rmqtool.doctor.examination import Examination, examine_store
from rmqtool.doctor.report import exit_code, screen, summary
from rmqtool.render.emit import emit
from rmqtool.render.look import Format, Look
from rmqtool.render.sink import Sink
from rmqtool.repair.options import RepairOptions
from rmqtool.rows import rows_of
from rmqtool.startup.load import Refusal
from rmqtool.startup.prediction import Loss, TopicLoss
from tests import inflict
from tests.cli.run import rmqtool
from tests.stores import broker_conf, fixture_store, held_by_another

TRAFFIC: Final = "rocketmq-5.3.3-traffic"
CRASH: Final = "rocketmq-4.9.3-crash"
REPAIR: Final = "rmqtool repair STORE --in-place"
BRIDGE: Final = "rmqtool repair STORE --bridge-missing --in-place"
FIRST_FILE, SECOND_FILE, FAR_FILE = (f"commitlog/{start:020}" for start in (0, 131072, 1310720))
MOVES: Final = (
    f"(cd STORE && mv -n {FIRST_FILE} aside && mv -n {SECOND_FILE} {FIRST_FILE} "
    f"&& mv -n aside {SECOND_FILE})"
)
NOBODY: Final = 65534
SCREENS: Final = Path(__file__).parent / "screens"
PLACE: Final = re.compile(r"^store .*?\n(?=kind)", re.DOTALL | re.MULTILINE)
WIDTHS: Final = (80, 200)
See = Callable[..., Examination]
EARLY: Final = "3 of 4 commitlog files with 1,071 messages, 499 consumed by no group"
MOST_LINES: Final = 25  # of a terminal that nobody made larger
BLOCKS: Final = 1_000_000  # of the disk


@pytest.fixture(autouse=True)
def free_blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Put stores on a disk that is half full; what a test puts into the list is free instead."""
    free = [BLOCKS // 2]
    stated = os.statvfs

    def told(path: str) -> os.statvfs_result:
        fields = list(stated(path))
        fields[1:5] = 4096, BLOCKS, free[-1], free[-1]
        return os.statvfs_result(fields)

    monkeypatch.setattr("rmqtool.doctor.examination.os.statvfs", told)
    return free


@pytest.fixture
def see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, update_golden: bool) -> See:
    """Give a function that examines a store and compares its screens with the golden ones."""

    def examine(name: str, store: Path, conf: str | None = None) -> Examination:
        monkeypatch.chdir(tmp_path)
        seen = examine_store(RepairOptions(str(store.relative_to(tmp_path)), broker_conf=conf))
        shown = [screen_of(seen, width) for width in WIDTHS]
        assert max(one.count("\n") for one in shown) <= MOST_LINES
        golden = SCREENS / f"{name.replace(' ', '-')}.txt"
        if update_golden:
            golden.write_text("\n".join(shown), encoding="utf-8")
        assert golden.read_text(encoding="utf-8") == "\n".join(shown)
        return seen

    return examine


def screen_of(seen: Examination, width: int) -> str:
    """Give what stands on a terminal, with the remark below it."""
    out = io.BytesIO()
    emit(screen(seen), Look(Format.TABLE), Sink(out, "test", width))
    more = f"{summary(seen)}\n" if summary(seen) else ""
    return PLACE.sub("store STORE\n", out.getvalue().decode() + more)


def nothing(_: Path) -> None:
    """Leave a store as it is."""


def spoil_topics(store: Path) -> None:
    """Leave neither topics.json nor its backup in a state that can be parsed."""
    for name in ("topics.json", "topics.json.bak"):
        (store / "config" / name).write_text("{")


def exchange_segments(store: Path) -> None:
    """Give the first two commitlog files each other's name."""
    path, two = inflict.segment_at(store, 0), inflict.segment_at(store, 1)
    aside = store / "aside"
    path.rename(aside)
    two.rename(path)
    aside.rename(two)


def misname_segment(store: Path) -> None:
    """Give a commitlog file the name of a place far past the end."""
    (store / SECOND_FILE).rename(store / FAR_FILE)


def deny(store: Path) -> None:
    """Take the right to write a commitlog file from the broker's user, who is not root."""
    file = inflict.segment_at(store, 1)
    if os.geteuid() == 0:
        for path in (store, *store.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    file.chmod(0o444)


def spoil_database(store: Path) -> None:
    """Change a bit of the first data block of a RocksDB table of queues."""
    inflict.flip_bits(max(store.glob("consumequeue/*.sst")), 100, 1)


def forget_timers(store: Path) -> None:
    """Take away the wheel of a store whose oldest timers wait, too: no start finds them then."""
    inflict.edit_integer("config/timercheck", 0, 8, lambda old: old - 25_000)(store)
    (store / "timerwheel").unlink()


@dataclass(frozen=True, slots=True)
class Case:
    """A store in trouble.

    Attributes:
        name: unique.
        harm: what is done to it.
        cause: what the first step names.
        command: of the first step; STORE stands for the store.
        advice: words of it.
        code: exit code.
        fixture: which store.
        starts: whether a start is foretold to succeed; None where none is foretold.
    """

    name: str
    harm: Callable[[Path], None]
    cause: str
    command: str = ""
    advice: str = ""
    code: int = 1
    fixture: str = TRAFFIC
    starts: bool | None = True

    def __str__(self) -> str:
        return self.name


CASES: Final = (
    Case("sound", nothing, "nothing is damaged", "", "start the broker", 0),
    Case("crashed", nothing, "nothing is damaged", "", "start the broker", 0, CRASH),
    Case("zeroed sector", inflict.zero_sector(), "CL-MAGIC", REPAIR),
    Case("zeroed after a crash", inflict.zero_sector(), "CL-MAGIC", REPAIR, fixture=CRASH),
    Case("cut segment", inflict.cut_segment(0, lambda n: n // 2), "FS-LEN", REPAIR, starts=False),
    Case("missing segment", inflict.remove_segment(1), "FS-GAP", BRIDGE, "a copy"),
    Case("exchanged segments", exchange_segments, "physicalOffset", MOVES, "exchange the names"),
    Case(
        "misnamed segment", misname_segment, "physicalOffset",
        f"(cd STORE && mv -n {FAR_FILE} {SECOND_FILE})", "rename",
    ),
    Case("queues deleted", inflict.remove("consumequeue"), "CQ-GAP", REPAIR),
    Case(
        "light queue deleted", inflict.remove("consumequeue/%LMQ%home-1"), "CQ-LMQ", REPAIR,
        fixture="rocketmq-5.3.3-lmq",
    ),
    Case(
        "RocksDB broken", spoil_database, "CRC of the data block", REPAIR, "", 3,
        "rocketmq-5.3.3-rocksdb",
    ),
    Case("no log", inflict.remove_log, "no commitlog", "", "do not start a broker"),
    Case("topics spoilt twice", spoil_topics, "CF-JSON", REPAIR, starts=False),
    Case("torn tail", inflict.tear_tail, "CL-TAIL", REPAIR),
    Case("timers gone", forget_timers, "TW-LOST", REPAIR, fixture="rocketmq-5.3.3-timer"),
    Case(
        "DLedger", nothing, "cannot be predicted", "", "start the broker", 0,
        "rocketmq-5.3.3-dledger", None,
    ),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_first_step(case: Case, see: See, tmp_path: Path) -> None:
    """Cause, command and exit code fit the trouble, and a screen holds it all."""
    store = fixture_store(case.fixture, tmp_path)
    case.harm(store)
    seen = see(case.name, store)
    first = steps_for(seen)[0]
    assert case.cause in first.cause
    assert case.command == first.command.replace("store", "STORE")
    assert case.advice in first.advice
    assert case.code == exit_code(seen)
    assert case.starts == (seen.prediction and seen.prediction.starts)


def test_losses(tmp_path: Path) -> None:
    """What a start would cut off and what is lost already add up to what the log held."""
    store = fixture_store(CRASH, tmp_path)
    inflict.zero_sector()(store)
    seen = examine_store(RepairOptions(str(store)))
    lines = {row["field"]: row["value"] for chunk in screen(seen) for row in rows_of(chunk)}
    assert seen.prediction is not None
    assert str(lines["lost if started"]).startswith(f"{seen.prediction.lost.messages} messages")
    assert "3 messages of 1 topic" == lines["lost already"]


def test_wrong_lengths(see: See, tmp_path: Path) -> None:
    """A configuration whose lengths are not those of the files comes before any repair."""
    store = fixture_store(TRAFFIC, tmp_path)
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=65536\nmappedFileSizeConsumeQueue=2000")
    seen = see("wrong configuration", store, conf.name)
    first = steps_for(seen)[0]
    assert first.command.startswith("sed -i -e '$a mappedFileSizeCommitLog=131072' -e ")
    assert first.command.endswith("' broker.conf")
    assert 1 == len(steps_for(seen))
    assert 1 == exit_code(seen)
    subprocess.run(["/bin/sh", "-c", first.command], check=True, cwd=tmp_path)  # noqa: S603
    assert 0 == exit_code(examine_store(RepairOptions(str(store), broker_conf=str(conf))))


def test_wrong_owner(see: See, tmp_path: Path) -> None:
    """A file that the broker's user may not write keeps it from starting."""
    store = fixture_store(TRAFFIC, tmp_path)
    deny(store)
    is_root = os.geteuid() == 0  # the screen names the owner: not whoever tests
    seen = see("wrong owner", store) if is_root else examine_store(RepairOptions(str(store)))
    assert seen.host is not None
    assert ("commitlog/00000000000000131072",) == seen.host.denied
    first = steps_for(seen)[0]
    shown = seen.store
    assert f"chown -R {seen.host.owner}: {shown} && chmod -R u+rwX {shown}" == first.command
    assert 1 == exit_code(seen)


@pytest.mark.parametrize(
    ("name", "percent", "consequence"),
    [
        ("disk nearly full", 12, f"before their time: {EARLY}"),
        ("disk past the limit", 5, f"before their time and refuses new messages: {EARLY}"),
        ("full disk", 0, "or ends while it runs"),
    ],
)
def test_full_disk(
    name: str, percent: int, consequence: str, see: See, free_blocks: list[int], tmp_path: Path
) -> None:
    """A disk on which a broker would delete files, or not start, comes before its start."""
    free_blocks.append(percent * BLOCKS // 100)
    seen = see(name, fixture_store(TRAFFIC, tmp_path))
    (first,) = steps_for(seen)
    assert "the disk of the store is" in first.cause
    assert first.consequence.endswith(consequence)
    assert "du -xah $(findmnt -nro TARGET -T store) | sort -h | tail -n 20" == first.command
    assert "move away" in first.advice
    assert int(not percent) == exit_code(seen)


@pytest.mark.parametrize("is_fuller", [False, True])
def test_files_are_kept(free_blocks: list[int], tmp_path: Path, *, is_fuller: bool) -> None:
    """With a broker.conf the command keeps files that a broker would delete; it is said once."""
    free_blocks.append(BLOCKS * (5 if is_fuller else 12) // 100)
    store, conf = fixture_store(TRAFFIC, tmp_path), tmp_path / "broker.conf"
    shutil.copy(broker_conf(TRAFFIC), conf)

    def steps() -> list[AdviceStep]:
        return steps_for(examine_store(RepairOptions(str(store), broker_conf=str(conf))))

    *room, keep = steps()
    assert is_fuller == bool(room)
    assert f"sed -i -e '$a cleanFileForciblyEnable=false' {conf}" == keep.command
    subprocess.run(["/bin/sh", "-c", keep.command], check=True)  # noqa: S603 - our own
    commands = [step.command for step in steps()]
    assert [step.command for step in room] or [""] == commands


@pytest.mark.parametrize("is_damaged", [False, True])
def test_live(see: See, tmp_path: Path, *, is_damaged: bool) -> None:
    """Beside a running broker nothing is to be done, but for stopping it where it is damaged."""
    store = fixture_store(TRAFFIC, tmp_path)
    if is_damaged:
        inflict.zero_sector()(store)
    with ExitStack() as stack:
        stack.enter_context(held_by_another(str(store)))
        seen = see("live and damaged" if is_damaged else "live", store)
    first = steps_for(seen)[0]
    assert "a broker runs on this store" in first.cause
    assert ("sh bin/mqshutdown broker" if is_damaged else "") == first.command
    assert int(is_damaged) == exit_code(seen)


@pytest.mark.parametrize("starts", [True, False])
def test_live_and_harmful(see: See, tmp_path: Path, *, starts: bool) -> None:
    """What the death of a running broker would cost is said; a next start that fails counts."""
    store = fixture_store(TRAFFIC, tmp_path)
    with held_by_another(str(store)):
        seen = see("live", store)
    assert seen.prediction is not None
    lost = Loss((TopicLoss("orders", 5),))
    refusals = () if starts else (Refusal("config", "it is a file"),)
    prediction = replace(seen.prediction, lost=lost, refusals=refusals)
    seen = replace(seen, prediction=prediction)
    said = (
        "if it dies, starting it costs: 5 messages" if starts else "if it dies, the broker refuses"
    )
    (only,) = steps_for(seen)
    assert said in only.consequence
    assert ("" if starts else "sh bin/mqshutdown broker") == only.command
    assert int(not starts) == exit_code(seen)


def test_document(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """All of it is one JSON document."""
    store = fixture_store(TRAFFIC, tmp_path)
    inflict.zero_sector()(store)
    assert 1 == main(["doctor", str(store), "--format", "json", "--quiet"])
    document = orjson.loads(capfd.readouterr().out)
    (diagnosis,) = document["diagnosis"]
    assert (1, 3, True) == tuple(
        diagnosis[name] for name in ("damages", "messages_missing", "starts")
    )
    assert ["CL-MAGIC"] == [one["code"] for one in document["findings"]]
    assert diagnosis["next"] == document["steps"][0]["command"]
    assert 2 == diagnosis["edits"] == len(document["edits"])


def test_old_files(see: See, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are deleted in the first day are named before the start, with what keeps them."""
    store = fixture_store(TRAFFIC, tmp_path)
    monkeypatch.setenv("RMQTOOL_AT", "2026-12-01T12:00:00Z")
    seen = see("old files", store)
    first, last = steps_for(seen)
    assert "the broker deletes them each day at 04:00, or as soon as" in first.consequence
    assert "3 of 4 commitlog files" in first.cause
    assert first.command == "touch -c store/commitlog/*"
    assert (last.advice, exit_code(seen)) == ("start the broker", 0)
    subprocess.run(first.command, shell=True, check=True)  # noqa: S602 - it is to be pasted
    monkeypatch.delenv("RMQTOOL_AT")
    assert [last.advice] == [step.advice for step in steps_for(see("sound", store))]


def test_old_files_by_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a broker.conf the command appends how long files are kept, and that is enough."""
    store, conf = fixture_store(TRAFFIC, tmp_path), tmp_path / "broker.conf"
    conf.write_text(broker_conf(TRAFFIC).read_text())
    monkeypatch.setenv("RMQTOOL_AT", "2026-12-01T12:00:00Z")
    options = RepairOptions(str(store), broker_conf=str(conf))
    command = steps_for(examine_store(options))[0].command
    assert "fileReservedTime=" in command
    subprocess.run(command, shell=True, check=True)  # noqa: S602 - it is to be pasted
    (only,) = steps_for(examine_store(options))
    assert "start the broker" == only.advice
    week = 7 * 86_400_000
    later = examine_store(options, now_ms=1_796_126_400_000 + week)
    assert "fileReservedTime" in steps_for(later)[0].cause


def test_late_timers(see: See, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers due longer ago than the wheel holds are counted, and a command keeps them."""
    store = fixture_store("rocketmq-5.3.3-timer", tmp_path)
    monkeypatch.setenv("RMQTOOL_AT", "2026-12-10T12:00:00Z")
    seen = see("late timers", store)
    (only,) = steps_for(seen)
    assert "starting it now costs: 2 timer messages never delivered" == only.consequence
    assert only.command == "rmqtool extract store --pending --output waiting.jsonl"
    assert 1 == exit_code(seen)
    assert 0 == main([*only.command.split()[1:], "--quiet"])
    assert 2 == len((tmp_path / "waiting.jsonl").read_text().splitlines())


def test_late_timers_of_a_queue_that_lags(
    see: See, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash a start writes a lost queue again; no repair makes late timers wait longer."""
    store = fixture_store("rocketmq-5.3.3-timer", tmp_path)
    (store / "abort").touch()
    shutil.rmtree(store / "consumequeue/timer-orders/0")
    monkeypatch.setenv("RMQTOOL_AT", "2026-12-10T12:00:00Z")
    (only,) = steps_for(see("late timers, a queue that lags", store))
    assert "nothing is damaged" == only.cause
    assert "starting it now costs: 2 timer messages never delivered" == only.consequence
    assert only.command == "rmqtool extract store --pending --output waiting.jsonl"


def test_each_cause_has_its_own_consequence(see: See, tmp_path: Path) -> None:
    """What costs most comes first, and what a repair cannot save is not said of it."""
    store = fixture_store(TRAFFIC, tmp_path)
    newest = inflict.segment_at(store, -1)
    empty = newest.with_name(f"{int(newest.name) + newest.stat().st_size:020}")
    empty.write_bytes(b"")
    for name in ("consumerOffset.json", "consumerOffset.json.bak"):
        (store / "config" / name).write_bytes(b"")
    (store / "abort").write_bytes(b"")
    first, then, *_ = steps_for(see("empty file and offsets", store))
    assert first.cause.startswith("config/consumerOffset.json: it cannot be parsed")
    assert re.search("costs: [0-9]+ consumer groups start over", first.consequence)
    assert "rmqtool repair store --reset-config --in-place" == first.command
    assert then.cause == f"FS-LEN {empty.relative_to(store)}: the last file is empty"
    assert "group" not in then.consequence
    assert "rmqtool repair store --in-place" == then.command


def test_offsets_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an option cures it, the command has it, and it does."""
    monkeypatch.chdir(tmp_path)
    store = fixture_store(TRAFFIC, tmp_path)
    path = store / "config" / "consumerOffset.json"
    path.write_text(re.sub(r"\b(\d+):\d+", r"\1:1000000", path.read_text()))
    step = steps_for(examine_store(RepairOptions("store")))[0]
    assert "rmqtool repair store --clamp-offsets --in-place" == step.command
    assert 0 == main([*step.command.split()[1:], "--yes", "--quiet"])
    (only,) = steps_for(examine_store(RepairOptions("store")))
    assert "start the broker" == only.advice


def test_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command writes a repaired copy of what is in the archive."""
    monkeypatch.chdir(tmp_path)
    store = fixture_store(TRAFFIC, tmp_path)
    inflict.zero_sector(where=0.5)(store)
    shutil.make_archive("store", "gztar", tmp_path, "store")
    shutil.rmtree(store)
    run = rmqtool("doctor", "store.tar.gz", "--format", "json", cwd=tmp_path)
    (step,) = orjson.loads(run.out)["steps"]
    assert "rmqtool repair 'store.tar.gz!store' --output DIR" == step["command"]
    assert 0 == main([*shlex.split(step["command"])[1:], "--quiet"])
    (only,) = steps_for(examine_store(RepairOptions("DIR")))
    assert "start the broker" == only.advice


@pytest.mark.parametrize("name", ["conf/broker.conf", "broker.conf"])
def test_configuration_beside(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker.conf beside a sound store is asked for before the broker is started."""
    monkeypatch.chdir(tmp_path)
    store, conf = fixture_store(TRAFFIC, tmp_path), tmp_path / name
    (only,) = steps_for(examine_store(RepairOptions("store")))
    assert "start the broker" == only.advice
    conf.parent.mkdir(exist_ok=True)
    conf.write_text("mappedFileSizeCommitLog=1073741824\n")
    seen = examine_store(RepairOptions("store"))
    (only,) = steps_for(seen)
    assert f"rmqtool doctor store --broker-conf {conf}" == only.command
    assert f"{conf} was not looked at" in screen_of(seen, 400)
    seen = examine_store(RepairOptions("store", broker_conf=str(conf)))
    assert "mappedFileSizeCommitLog=131072" in steps_for(seen)[0].command
    assert store.is_dir()
