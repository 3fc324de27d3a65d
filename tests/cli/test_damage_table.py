"""What `validate` calls damage, no command that reads it calls fine: damage table by commands.

Each damage is done to a store. `validate` says in which files it is. Whatever table is then read
from these files, there is a row that says so, the exit code is 1 or 3, and an export has no
`_SUCCESS`. A table of other files is not concerned.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, Final

import pytest

from rmqtool.store.tree import open_store
from rmqtool.tables.inputs import views_of
from tests import inflict
from tests.cli.run import rmqtool
from tests.damage import DAMAGES
from tests.damaged import NAMES, READ_FROM, SAMPLE, damage_in, damaged_store, in_files, validated
from tests.plain_store import segments
from tests.stores import broker_conf, fixture_names, fixture_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.run import Run

SAYS: Final = frozenset({1, 3})
NOTHING: Final = "nothing found"
LOG_WORDS: Final = ("commitlog", "dledger")
TABLES: Final = {
    "messages": "log",
    "segments": "log",
    "queue_units": "consume-queue",
    "index_entries": "index",
    "pending_timers": "pending-timers",
    "pop_in_flight": "pop-in-flight",
    "traces": "traces",
}
REFUSED: Final = ("has no commitlog", "no commitlog here", "nothing was written: ")
# Fields of the row of a summary that say that something is damaged or missing.
SUMMARIES: Final = ("damaged", "gaps", "source_defects", "misnumbered")


def rows_of(run: Run) -> list[dict[str, Any]]:
    """Give what a command wrote."""
    return [json.loads(line) for line in run.lines]


def codes_of(rows: list[dict[str, Any]]) -> set[str]:
    """Give the codes in rows."""
    return {row["code"] for row in rows if row.get("code")} | {
        "FS-READ" for row in rows if row.get("unread")
    }


def words_of(store: Path) -> list[str]:
    """Give what there is to dump: the words of `READ_FROM`."""
    words = [view.word for view in views_of(open_store(str(store), None), "all")]
    there = {"log" if word in LOG_WORDS else word for word in words}
    if "index" in there:
        there |= {"index-slot", "index-header"}
    if "dledger" in words:
        there.add("dledger-entry")
    if "log" in there:
        there |= {"undecided-transactions", "pending-timers", "traces"}
    if "rocksdb" in there:
        there.add("pop-in-flight")
    return sorted(there & READ_FROM.keys())


class Commands:
    """Runs the commands that read a store.

    Args:
        store: which one.
        conf: its broker.conf.
        into: where output goes.
    """

    def __init__(self, store: Path, conf: Path, into: Path) -> None:
        self.store, self._conf, self._into = store, ("--broker-conf", conf), into
        into.mkdir()
        self.log = next(view.word for view in views_of(open_store(str(store), None), "all")
                        if view.word in LOG_WORDS)  # fmt: skip

    def dump(self, word: str) -> tuple[Run, set[str]]:
        """Dump a table; give the codes of its rows."""
        kind = self.log if word == "log" else word
        run = rmqtool("dump", self.store, "--as", kind, "--format", "jsonl", *self._conf)
        return run, codes_of(rows_of(run))

    def export(self, table: str) -> tuple[Run, set[str]]:
        """Export a table; give the codes of its rows."""
        output = self._into / table
        given = ("--table", table, "--output", output, "--format", "jsonl", "--engine", "local")
        run = rmqtool("export", self.store, *given, *self._conf)
        assert (run.code == 0) == (output / "_SUCCESS").exists()
        raw = b"".join(path.read_bytes() for path in output.rglob("*.jsonl"))
        return run, codes_of([json.loads(line) for line in raw.splitlines()])

    def extract(self) -> Run:
        """Write all messages."""
        return rmqtool("extract", self.store, "--output", self._into / "sent.jsonl", *self._conf)

    def rebuild_log(self) -> Run:
        """Write a new log."""
        return rmqtool("rebuild-log", self.store, "--output", self._into / "log", *self._conf)


def says(what: str, run: Run, codes: set[str], damage: set[str]) -> None:
    """Ask that a command says what is damaged: by its exit code, and in a row."""
    told = what, sorted(damage), run.code, sorted(codes), run.err[-300:]
    assert run.code in SAYS or (run.code == 2 and "FS-READ" in codes), told
    assert codes & {*damage, "FS-READ"} or (codes and what == "export segments"), told


def says_in_summary(what: str, run: Run, damage: set[str]) -> None:
    """Ask that a command that writes messages says it: by its exit code, and in its row."""
    told = what, sorted(damage), run.code, run.lines, run.err[-300:]
    assert run.code in SAYS or any(reason in run.err for reason in REFUSED), told
    assert run.code == 2 or any(row.get(name) for row in rows_of(run) for name in SUMMARIES), told


def judge(store: Path, conf: Path, into: Path) -> None:
    """Run each command that reads a file that `validate` calls damaged, and one that does not."""
    found = validated(store, conf)
    commands = Commands(store, conf, into)
    words = words_of(store)
    for word in words:
        if damage := damage_in(word, found):
            says(f"dump {word}", *commands.dump(word), damage)
    for table, word in TABLES.items():
        if damage := damage_in(word, found) if word in words else set():
            says(f"export {table}", *commands.export(table), damage)
    if damage := damage_in("log", found):
        says_in_summary("extract", commands.extract(), damage)
        says_in_summary("rebuild-log", commands.rebuild_log(), damage)
    for word in words:
        is_elsewhere = all(one.code != "FS-READ" for one in found)  # which every command names
        if is_elsewhere and not any(in_files(word, found)):
            run, codes = commands.dump(word)
            assert (run.code, codes) == (0, set()) or NOTHING in run.err, (word, run.code, codes)
            break


@pytest.mark.parametrize("name", SAMPLE)
def test_damage(name: str, tmp_path: Path) -> None:
    """A damage of the table is said by every command that reads the files that have it."""
    judge(*damaged_store(name, tmp_path), tmp_path / "out")


@pytest.mark.all_variants
@pytest.mark.parametrize("name", [name for name in NAMES if name not in SAMPLE])
def test_every_damage(name: str, tmp_path: Path) -> None:
    """The same holds for all damages that have the same codes."""
    judge(*damaged_store(name, tmp_path), tmp_path / "out")


@pytest.mark.parametrize("number", [0, 1, -1])
def test_segment_emptied(number: int, tmp_path: Path) -> None:
    """A log file without a byte is a gap of its whole length, wherever it lies in the log.

    Source: a middle commitlog file of 0 bytes in a store after a crash.
    """
    store = fixture_store("rocketmq-5.3.3-crash", tmp_path)
    files = segments(store)
    length = files[number].stat().st_size
    inflict.resize(files[number], 0)
    conf = broker_conf("rocketmq-5.3.3-crash")
    judge(store, conf, tmp_path / "out")
    rows = rows_of(rmqtool("dump", store, "--format", "jsonl", "--broker-conf", conf))
    (gap,) = (row for row in rows if row["code"] == "FS-LEN")
    place = (int(files[number].name), length, f"commitlog/{files[number].name}")
    assert place == (gap["physical_offset"], gap["size"], gap["segment"])


@pytest.mark.parametrize("body", ["text", "redacted"])
def test_false_compression(body: str, tmp_path: Path) -> None:
    """Who shows bodies says which ones cannot be decompressed."""
    store = fixture_store("rocketmq-4.9.3-traffic", tmp_path)
    DAMAGES["false-compression"].inflict(store)
    run = rmqtool("dump", store, "--body", body, "--format", "jsonl")
    assert (1, {"CL-DECOMP"}) == (run.code, codes_of(rows_of(run)))


@pytest.mark.parametrize("name", fixture_names())
def test_sound_store(name: str, tmp_path: Path, *, is_whole: bool) -> None:
    """What `validate` calls sound, no command calls damaged.

    Each fixture takes half of the words and tables; `--all-variants` takes all.
    """
    store = fixture_store(name, tmp_path)
    conf = broker_conf(name)
    if validated(store, conf):
        pytest.skip("the fixture has warnings")
    commands = Commands(store, conf, tmp_path / "out")
    first, step = (0, 1) if is_whole else (zlib.crc32(name.encode()) % 2, 2)
    for word in words_of(store)[first::step]:
        run, codes = commands.dump(word)
        assert (run.code, codes) == (0, set()) or NOTHING in run.err, (word, run.code, codes)
    for table in [*TABLES][first::step]:
        run, codes = commands.export(table)
        assert (run.code, codes) == (0, set()), (table, run.err)
    assert 0 == commands.extract().code
    assert 0 == commands.rebuild_log().code
