"""RocksDB runs in a process that can reach nothing but the files that it was given."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.errors import DamagedDatabase, UnreadablePath, WriteFailed
from rmqtool.findings.registry_rocksdb import RD_OPEN
from rmqtool.store import rocksdb_cell
from rmqtool.store import rocksdb_database as rocksdb_files
from rmqtool.store.confinement import FILTER, LANDLOCK, spare_user
from rmqtool.store.place import Place
from rmqtool.store.rocksdb_database import Database
from rmqtool.store.rocksdb_frames import BadFrame, read_frame, rows
from rmqtool.store.syscall_filter import CALLS, CLONE, IOCTL, PRCTL, TGKILL, WRITING
from rmqtool.writing import rocksdb as writing_rocksdb
from rmqtool.writing.output import OutputDirectory
from rmqtool.writing.rocksdb import DatabaseWriter
from tests.rocksdb import fixture, rows_of

STORE: Final = "rocketmq-5.5.0-rocksdb-crash"
PATH: Final = "consumequeue"
ONLY_OWN: Final = {"lacking", "own"}
IS_ROOT: Final = os.geteuid() == 0
ONLY_ROOT: Final = pytest.mark.skipif(not IS_ROOT, reason="only root becomes another user")
NOBODY: Final = 65534
HEADER: Final = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
GENERIC: Final = Path("/usr/include/asm-generic/unistd.h")
MOST_FILES: Final = 1500


def answering(process: int) -> int:
    """Give the process that runs RocksDB for one that was started: a child of it, or itself."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return int(children[0]) if children else process


def status_of(process: int) -> dict[str, str]:
    """Give what the kernel says of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def assert_confined(process: int) -> None:
    """See that a process has no rights left."""
    found = status_of(process)
    assert ("1", "2") == (found["NoNewPrivs"], found["Seccomp"])
    assert {0} == {int(found[f"Cap{which}"], 16) for which in ("Inh", "Prm", "Eff", "Amb")}
    environment = Path(f"/proc/{process}/environ")
    if not IS_ROOT:  # nobody looks into it, not even the same user
        with pytest.raises(PermissionError):
            environment.read_bytes()
    else:
        assert b"SECRET" not in environment.read_bytes()
        assert "0" not in found["Uid"].split() + found["Gid"].split()
        assert "" == found["Groups"]
        assert 0 == int(found["CapBnd"], 16)


def test_reader_is_confined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads has no capability, no privilege to come, a filter, and no word of the user's."""
    monkeypatch.setenv("A_SECRET", "SECRET")
    with Database(Place.of(fixture(STORE, tmp_path) / PATH), PATH) as database:
        assert_confined(answering(database._served.cell.process.pid))  # noqa: SLF001


def test_writer_is_confined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So does who writes; what it leaves belongs to whoever runs this, and is read again."""
    monkeypatch.setenv("A_SECRET", "SECRET")
    wanted = [(b"%06d" % number, bytes(28)) for number in range(10_000)]
    with (
        OutputDirectory(tmp_path / "made") as tree,
        DatabaseWriter(tree, ("default", "offset")) as writer,
    ):
        writer.put("default", wanted)
        writer.put("offset", wanted[:3])
        assert_confined(answering(writer._cell.process.pid))  # noqa: SLF001
        writer.finish()
    files = [*(tmp_path / "made").iterdir()]
    assert {os.geteuid()} == {file.stat().st_uid for file in files}
    assert not {file.name for file in files} & {"LOG", "LOCK", "rocksdict-config.json"}
    assert {"default": wanted, "offset": wanted[:3]} == rows_of(tmp_path / "made", PATH)


def test_long_rows(tmp_path: Path) -> None:
    """Rows that together are longer than a frame are written, however many are put at a time."""
    wanted = [(b"%06d" % number + bytes(60_000), b"value") for number in range(500)]
    with (
        OutputDirectory(tmp_path / "made") as tree,
        DatabaseWriter(tree, ("default",)) as writer,
    ):
        writer.put("default", wanted)
        writer.finish()
    assert {"default": wanted} == rows_of(tmp_path / "made", PATH)


@pytest.mark.parametrize("how", ["killed", "full", "killed while it ends"])
def test_writer_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A process that is killed, or finds no room, is an error that says so; nothing stays."""
    if how == "full":
        monkeypatch.setattr(writing_rocksdb, "FILE_BYTES", 1 << 16)
    wanted = [(os.urandom(40), bytes(28)) for _ in range(20_000)]

    def write() -> None:
        with (
            OutputDirectory(tmp_path / "made") as tree,
            DatabaseWriter(tree, ("default", "offset")) as writer,
        ):
            writer.put("default", wanted)
            if how != "full":
                os.kill(answering(writer._cell.process.pid), signal.SIGKILL)  # noqa: SLF001
            if how == "killed":
                writer.put("offset", wanted)
            writer.finish()

    with pytest.raises(WriteFailed, match="File too large" if how == "full" else "status -9"):
        write()
    assert [] == [*tmp_path.iterdir()]


def test_nothing_else_can_be_reached(tmp_path: Path) -> None:
    """No other file, no socket, no process, no right: whatever is tried is refused."""
    own, other = tmp_path / "own", tmp_path / "other"
    for file in (own, other):
        file.write_text("text")
    words = [sys.executable, "-m", "tests.store.probes", str(own), str(other)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)  # noqa: S603
    said = json.loads(done.stdout)
    assert ONLY_OWN == {name for name, refused in said.items() if not refused}, said
    assert "text" == other.read_text()
    assert ["link"] == [path.name for path in (tmp_path / "room").iterdir()]


HOSTILE: Final = '''
"""Stands for a library that a database has taken over."""

import os, socket, subprocess

SECRET = {secret!r}


class Anything:
    def __init__(self, *_, **__): pass
    def __getattr__(self, name): return lambda *_, **__: Anything()


Options = ReadOptions = AccessType = DBRecoveryMode = Anything()


class Options(Anything):
    pass


class Rdict:
    @staticmethod
    def list_cf(path, options):
        said = []
        for what in (
            lambda: open(SECRET).read(),
            lambda: open("CURRENT").read(),
            lambda: socket.socket(),
            lambda: subprocess.run(["/bin/cat", SECRET], capture_output=True).stdout,
            lambda: os.kill(os.getppid(), 9),
        ):
            try:
                said.append(repr(what()))
            except OSError as error:
                said.append(type(error).__name__)
        raise RuntimeError(" | ".join(said))
'''


def test_hostile_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that has taken over the library is an error and a row, and has learnt nothing."""
    secret = tmp_path / "secret"
    secret.write_text("a secret of the user")
    library = tmp_path / "library"
    library.mkdir()
    (library / "rocksdict.py").write_text(textwrap.dedent(HOSTILE.format(secret=str(secret))))
    monkeypatch.syspath_prepend(str(library))
    store = fixture(STORE, tmp_path)
    with pytest.raises(DamagedDatabase) as caught:
        Database(Place.of(store / PATH), PATH)
    secrets, own, *others = caught.value.reason.split(" | ")
    assert "MANIFEST" in own
    assert ["PermissionError"] == [secrets]
    assert ["OSError"] * 3 == others
    rows = [finding for finding in validate(ValidateOptions(str(store))) if finding.path == PATH]
    assert [(RD_OPEN, f"RocksDB: {caught.value.reason}")] == [
        (row.code, row.message) for row in rows
    ]


FORGER: Final = r"""
import sys
from rmqtool.store.rocksdb_frames import message, rows
out = sys.stdout.buffer
ANSWERS = {
    "nothing": b"",
    "noise": bytes(range(256)) * 10,
    "a list": b"\0\0\0\0" + (2).to_bytes(8, "little") + bytes(8) + b"[]",
    "no families": message({"live": {}}),
    "odd families": message({"families": [1], "live": {}}),
    "odd sizes": message({"families": [], "live": {"x": "y"}}),
    "rows": b"".join(rows([b"a"], [b"b"], {})),
    "a terabyte": b"\0\0\0\0" + (1 << 40).to_bytes(8, "little") + bytes(8),
    "many rows": b"\xff\xff\xff\xff" + (1 << 40).to_bytes(8, "little") * 2,
}
OPENED = message({"families": ["default"], "live": {}, "lacking": 5})
ROWS = {
    "backwards": [([b"b"], [b""]), ([b"a"], [b""])],
    "the same": [([b"b"], [b""]), ([b"b"], [b""])],
    "too many": [([b"a", b"b", b"c"], [b""] * 3)],
    "past the end": [([b"z"], [b""])],
}
if sys.argv[1] in ANSWERS:
    out.write(ANSWERS[sys.argv[1]])
else:
    out.write(OPENED)
    for keys, values in ROWS[sys.argv[1]]:
        out.writelines(rows(keys, values, {}))
out.flush()
sys.stdin.read()
"""


@pytest.mark.parametrize(
    "answer",
    [
        *("nothing", "noise", "a list", "no families", "odd families", "odd sizes", "rows"),
        *("a terabyte", "many rows", "backwards", "the same", "too many", "past the end"),
    ],
)
def test_answers_of_a_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """Whatever the process answers, it is an error of the database, soon, and the process ends."""
    started: list[subprocess.Popen[bytes]] = []

    def forge(_: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", FORGER, answer]
        both = subprocess.PIPE
        started.append(subprocess.Popen(command, stdin=both, stdout=both, bufsize=0))  # noqa: S603
        return started[0]

    monkeypatch.setattr(rocksdb_cell, "_start", forge)
    monkeypatch.setattr(rocksdb_cell, "SILENCE_SECONDS", 2)
    store = fixture(STORE, tmp_path)

    def read() -> None:
        with Database(Place.of(store / PATH), PATH) as database:
            list(database.rows("default", b"a", b"z", 2))

    with pytest.raises(DamagedDatabase, match=r"RocksDB's process (was stopped|ended)"):
        read()
    assert started[0].poll() is not None


@pytest.mark.parametrize("without", ["", "landlock", "seccomp", "landlock,seccomp"])
def test_older_kernels(tmp_path: Path, without: str) -> None:
    """What a kernel lacks is said once, and the rows are the same, read and written."""
    store, out = fixture(STORE, tmp_path), tmp_path / "out"
    before = [sys.executable, "-m", "tests.store.old_kernel", without]
    program = [sys.executable, "-m", "rmqtool"]
    for words in (["dump", store / PATH], ["rebuild-cq", store, "--output", out]):
        command = [*before, *program, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
        said = [line for line in done.stderr.splitlines() if "cannot confine RocksDB" in line]
        assert bool(without) == len(said)
        ways = {name for name in (LANDLOCK, FILTER) if any(name in line for line in said)}
        assert len([*filter(None, without.split(","))]) == len(ways)
    assert rows_of(out / PATH, PATH)["default"]


@ONLY_ROOT
@pytest.mark.parametrize(
    ("modes", "whose"),
    [
        ((0o644, 0o644), None),
        ((0o600, 0o600), NOBODY),
        ((0o600, 0o644), NOBODY),
        ((0o640, 0o604), NOBODY),
        ((0o000, 0o644), None),
    ],
)
def test_files_of_any_mode(tmp_path: Path, modes: tuple[int, int], whose: int | None) -> None:
    """Root reads all files of a store, as the user who may; what he may not is copied for him."""
    directory = fixture(STORE, tmp_path) / PATH
    wanted = rows_of(directory, PATH)
    for number, file in enumerate(sorted(directory.iterdir())):
        os.chown(file, NOBODY, NOBODY)
        file.chmod(modes[number % 2])
    with Database(Place.of(directory), PATH) as database:
        uid = int(status_of(answering(database._served.cell.process.pid))["Uid"].split()[0])  # noqa: SLF001
        assert whose == (uid if uid == NOBODY else None)
    assert wanted == rows_of(directory, PATH)


@ONLY_ROOT
def test_files_of_two_users(tmp_path: Path) -> None:
    """Where some files are root's alone and others another user's alone, all are read."""
    directory = fixture(STORE, tmp_path) / PATH
    wanted = rows_of(directory, PATH)
    for number, file in enumerate(sorted(directory.iterdir())):
        os.chown(file, NOBODY * (number % 2), 0)
        file.chmod(0o600)
    assert wanted == rows_of(directory, PATH)


def test_spare_user_is_nobody() -> None:
    """The user without rights has no name, and many may be at work at a time."""
    found = {spare_user(number) for number in range(100)}
    assert 100 == len(found)
    assert not found & {0, os.geteuid(), NOBODY, None}


def test_more_files_than_a_process_opens(tmp_path: Path) -> None:
    """The limit of open files is raised; where it cannot be, that is said."""
    directory = fixture(STORE, tmp_path) / PATH
    wanted = rows_of(directory, PATH)
    table = next(directory.glob("*.sst"))
    for number in range(100_000, 100_000 + MOST_FILES):
        os.link(table, directory / f"{number}.sst")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        assert wanted == rows_of(directory, PATH)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    program = f"""if True:
        import resource
        from rmqtool.store.place import Place
        from rmqtool.store.rocksdb_database import Database
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 512))
        Database(Place.of({str(directory)!r}), "consumequeue")
    """
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert "files, and a process may have 512 open here: raise the limit" in done.stderr


@pytest.mark.parametrize("of", ["stranger", "self"])
def test_links_to_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str) -> None:
    """A link leads to a directory of whoever could have made it, as with brokers; to no other."""
    store = fixture(STORE, tmp_path)
    elsewhere = tmp_path / "elsewhere"
    (store / PATH).rename(elsewhere)
    (store / PATH).symlink_to(elsewhere)
    if of == "self":
        assert rows_of(store / PATH, PATH) == rows_of(elsewhere, PATH)
        database = Database(Place(str(store / PATH)), PATH)
        database.close()
        return
    monkeypatch.setattr(rocksdb_files, "_is_trusted", lambda *_: False)
    with pytest.raises(UnreadablePath, match="a directory of another user"):
        Database(Place(str(store / PATH)), PATH)


@given(st.binary(max_size=200))
def test_no_frame_of_a_stranger(raw: bytes) -> None:
    """Whatever a process answers, few bytes are asked for, and nothing but a frame is taken."""
    asked = 0

    def read(length: int) -> bytes:
        nonlocal asked
        asked = max(asked, length)
        if length > len(raw):
            raise EOFError
        return raw[:length]

    try:
        found = read_frame(read)
    except (BadFrame, EOFError):
        found = None
    assert asked <= 16 << 20
    assert found is None or isinstance(found, dict) or len(found.keys) == len(found.values)


@given(
    st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), min_size=1, max_size=20),
    st.data(),
)
def test_frames(pairs: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    """What is sent arrives; of a value that is too long, its length does."""
    keys, values = ([*column] for column in zip(*pairs, strict=True))
    numbers = data.draw(st.sets(st.integers(0, len(pairs) - 1)))
    for number in numbers:
        values[number] = b""
    raw = bytearray(b"".join(rows(keys, values, dict.fromkeys(numbers, 1 << 40))))

    def read(length: int) -> bytes:
        found = bytes(raw[:length])
        del raw[:length]
        return found

    batch = read_frame(read, 4096)
    assert not isinstance(batch, dict)
    assert not raw
    assert [*zip(keys, values, strict=True)] == [*batch.items()]
    assert numbers == {*batch.long_values}
    wanted = "this value is too long: 1,099,511,627,776 bytes; at most 4,096 are read"
    assert all(wanted == value.reason for value in batch.long_values.values())


@pytest.mark.skipif(not (HEADER.exists() and GENERIC.exists()), reason="needs the kernel's headers")
def test_numbers_of_calls() -> None:
    """They are those of the kernel, for both processors."""
    texts = HEADER.read_text(), GENERIC.read_text()
    pattern = re.compile(r"#define __NR(?:3264)?_(\w+)\s+(\d+)")
    amd, arm = ({name: int(number) for name, number in pattern.findall(text)} for text in texts)
    arm["newfstatat"], arm["fstat"] = arm["fstatat"], arm["fstat"]
    others = {"clone": CLONE, "tgkill": TGKILL, "prctl": PRCTL, "ioctl": IOCTL}
    for name, (of_amd, of_arm) in {**CALLS, **WRITING, **others}.items():
        assert amd[name] == of_amd, name
        assert arm.get(name, -1) == of_arm, name
