"""A damaged store that a stranger owns, what lies outside of it, and commands as some user."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rmqtool.cli.main import main
from rmqtool.writing.directory import spot_of
from rmqtool.writing.output import OutputDirectory
from rmqtool.writing.rocksdb import DatabaseWriter
from rmqtool.writing.workplace import fingerprint
from tests.stores import fixture_store

NOBODY = 65534
FIXTURE = "rocketmq-5.3.3-crash"
IN_ROCKSDB = "rocketmq-5.3.3-rocksdb"
SEGMENT = "commitlog/00000000000000000000"
QUEUE = "consumequeue/crash-orders/0"
SECRET = b"a secret that nobody may see\n" * 40
SECONDS = 600  # before a command counts as hanging; the first one may compile kernels


class Seen(NamedTuple):
    """All that can be changed of a file or a directory, but for its access time.

    The content is a digest or, which takes less time, when the inode was last changed: whoever
    writes moves that on, and nobody can put it back.
    """

    mode: int
    owner: tuple[int, int]
    inode: int
    links: int
    mtime_ns: int
    content: str


class Answer(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Scene:
    """A stranger's store, and beside it what is nobody's business.

    Attributes:
        top: holds both; everybody may enter it.
        user: runs the commands.
    """

    top: Path
    user: int

    @property
    def store(self) -> Path:
        """The store root."""
        return self.top / "store"

    @property
    def outside(self) -> Path:
        """A directory beside the store, of the user who runs the commands."""
        return self.top / "outside"

    @property
    def work(self) -> Path:
        """Where the user may write."""
        return self.top / "work"

    def yield_to_stranger(self) -> None:
        """Give the store, with all that lies in it, to the stranger."""
        give(self.store, NOBODY)

    def run(self, *arguments: object) -> Answer:
        """Run a command as the user, in a process of its own."""
        out, err = self.top / "out", self.top / "err"
        child = os.fork()
        if not child:
            _become(self.user, out, err)
            code = 99
            try:
                code = main([str(argument) for argument in arguments])
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert not os.WIFSIGNALED(status), f"killed by {os.WTERMSIG(status)}: {arguments}"
        said = err.read_text(errors="replace")
        assert "Traceback" not in said
        return Answer(os.WEXITSTATUS(status), out.read_text(errors="replace"), said)

    def seen(self) -> dict[str, Seen]:
        """Give all that lies outside of the store."""
        return look(self.outside, reads=False)


def warm_up(made: Scene) -> None:
    """Run each command once in this process, so that its children have all that they load."""
    plan = str(made.work / "plan")
    for options in (
        ("repair", "--plan", plan),
        ("repair", "--in-place", "--yes", "--yes", "--apply", plan),
        ("repair", "--undo"),
        ("repair", "--output", str(made.work / "copy")),
        ("rebuild", "--in-place", "--yes"),
        ("rebuild", "--check"),
        ("rebuild-cq", "--in-place", "--yes", "--topic", "crash-orders"),
        ("rebuild-index", "--output", str(made.work / "rebuilt")),
        ("validate",), ("info",), ("dump",), ("query", "--key", "none"),
        ("startup", "--broker-version", "5.3.3"),
        ("report", "--output", str(made.work / "report.html")),
        ("doctor",), ("diff", str(made.store)), ("dump", "--as", "all"),
        ("extract", "--output", str(made.work / "all.jsonl")), ("dump", "--as", "config"),
    ):  # fmt: skip
        assert main([options[0], str(made.store), *options[1:], "--quiet"]) in {0, 1, 3}, options


def _become(user: int, out: Path, err: Path) -> None:
    """Turn this child into a process of a user, with a clock that ends it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS)
    for number, path in ((1, out), (2, err)):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(handle, number)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    os.environ.pop("RMQTOOL_DEBUG", None)
    if user != os.geteuid():
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)


def give(top: Path, user: int) -> None:
    """Give a directory, with all that lies in it, to a user; only root can."""
    if os.geteuid() == 0:
        for path in [top, *top.rglob("*")]:
            os.chown(path, user, user, follow_symlinks=False)


def look(top: Path, *, reads: bool = True) -> dict[str, Seen]:
    """Give what lies in a directory, links for themselves; with digests where it reads."""
    paths = [top, *sorted(top.rglob("*"))]
    return {str(path.relative_to(top)): _seen(path, reads=reads) for path in paths}


def _seen(path: Path, *, reads: bool) -> Seen:
    facts = path.lstat()
    reads |= facts.st_nlink > 1 and not path.is_dir()  # a name of it in the store may be moved
    content = "" if reads else str(facts.st_ctime_ns)
    if stat.S_ISLNK(facts.st_mode):
        content = os.readlink(path)  # noqa: PTH115
    elif reads and stat.S_ISREG(facts.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    owner = (facts.st_uid, facts.st_gid)
    return Seen(facts.st_mode, owner, facts.st_ino, facts.st_nlink, facts.st_mtime_ns, content)


@contextmanager
def scene(
    user: int, fixture: str = FIXTURE, damaging: Callable[[Path], None] | None = None
) -> Iterator[Scene]:
    """Make a store and something outside of it.

    Args:
        user: runs the commands; what is outside is his.
        fixture: name of the store; `IN_ROCKSDB` has its queues there.
        damaging: what is done to the store; None is `damage`.
    """
    memory = "/dev/shm"  # noqa: S108 - a directory of its own is made in it
    with tempfile.TemporaryDirectory(
        prefix="rmqtool-hostile-",
        dir=memory if os.access(memory, os.W_OK) else None,
        ignore_cleanup_errors=True,
    ) as top:
        Path(top).chmod(0o755)
        made = Scene(Path(top), user)
        made.work.mkdir()
        made.work.chmod(0o777)
        copied = fixture_store(fixture, Path(top) / "copied")
        copied.rename(made.store)
        (damaging or damage)(made.store)
        made.outside.mkdir()
        (made.outside / "secret").write_bytes(SECRET)
        (made.outside / "secret").chmod(0o600)
        for name in ("consumequeue", "index", "config", "commitlog"):
            shutil.copytree(made.store / name, made.outside / name)
        shutil.copy(made.store / "checkpoint", made.outside / "checkpoint")
        if fixture == IN_ROCKSDB:
            hide_secrets(made.outside)
        give(made.outside, user)  # who could be led to change it
        yield made


def damage(store: Path) -> None:
    """Damage a bit of everything, so that a repair has to change it."""
    with (store / SEGMENT).open("r+b") as file:
        file.seek(30_000)
        file.write(b"damage" * 20)
    shutil.rmtree(store / QUEUE)
    (index,) = (store / "index").iterdir()
    # A second one has the length of both: else 420 MB, the default, were put in its place.
    shutil.copy(index, index.with_name("20261121025419999"))
    index.write_bytes(index.read_bytes()[:1000])
    (store / "config/topics.json").write_text("{")
    (store / "checkpoint").write_bytes(b"\xff" * 4096)


def hide_secrets(outside: Path) -> None:
    """Put databases with a secret in the place of those that a store's can be made links to."""
    for current in [*outside.rglob("CURRENT")]:
        directory, made = current.parent, outside / "made"
        tables = [path.name for path in directory.glob("*.sst")]
        shutil.rmtree(directory)
        with OutputDirectory(made) as tree, DatabaseWriter(tree, ("default", "offset")) as writer:
            writer.put("default", [(SECRET[:30], SECRET)])
            writer.finish()
        made.rename(directory)
        for name in tables:
            shutil.copy(next(directory.glob("*.sst")), directory / name)


def damage_rocksdb(store: Path) -> None:
    """Damage the log and the queues in RocksDB, so that a repair has to write both."""
    with (store / SEGMENT).open("r+b") as file:
        file.seek(20_000)
        file.write(b"damage" * 5)
    (store / "consumequeue/CURRENT").unlink()


def spare(store: Path) -> None:
    """Damage nothing."""
    assert store.is_dir()


def forge(
    store: Path,
    name: str,
    lines: list[dict[str, object]],
    *,
    state: str,
    swaps: dict[str, tuple[Path, Path]] | None = None,
) -> Path:
    """Put an undo directory with a journal into a store, with the inodes that are to be believed.

    Args:
        store: of the stranger.
        name: of the directory.
        lines: of changes.
        state: how far the journal says the edit is.
        swaps: by number, what a journal's swap names in the store, and aside.
    """
    undo = store / name
    (undo / "aside").mkdir(parents=True)
    (undo / "aside/0001").write_bytes(b"evil")
    for saved in ("bytes.old", "bytes.new"):
        (undo / saved).write_bytes(b"evil" * 100)
    journal = undo / "journal.jsonl"
    journal.touch()
    head = {
        "journal": 1, "rmqtool": "0", "command": "repair", "time": "2026-01-01T00:00:00.000Z",
        "root_mtime_ns": 0, "lock": lock_of(store), "inode": journal.stat().st_ino,
    }  # fmt: skip
    ends: list[dict[str, object]] = [{"state": "prepared", "time": ""}]
    sides = {number: list(pair) for number, pair in (swaps or {}).items()}
    if state != "prepared":
        ends.append(
            {
                "state": "committed", "time": "", "directories": {}, "lock": lock_of(store),
                "inodes": {number: [*map(_inode, pair)] for number, pair in sides.items()},
                "fingerprints": {number: [*map(_print, pair)] for number, pair in sides.items()},
            }
        )  # fmt: skip
    if state == "done":  # then what is in the store came from aside, and the other way round
        committed = ends[-1]
        turned = {number: [*map(_print, pair[::-1])] for number, pair in sides.items()}
        committed["fingerprints"] = turned
        digest = hashlib.sha256((store / "checkpoint").read_bytes()[:4096]).hexdigest()
        ends.append({"state": state, "time": "", "lock": lock_of(store), "checkpoint": digest})
    if state == "undoing":
        ends.append({"state": state, "time": "", "lock": lock_of(store)})
    with journal.open("r+") as file:
        file.writelines(json.dumps(line) + "\n" for line in (head, *lines, *ends))
    return undo


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return None


def _print(path: Path) -> str | None:
    if not path.parent.is_dir():
        return None
    spot = spot_of(path)
    with spot.directory:
        return fingerprint(spot)


def lock_of(store: Path) -> list[int] | None:
    """Give what a journal says of the lock file."""
    try:
        facts = (store / "lock").stat()
    except FileNotFoundError:
        return None
    return [facts.st_size, facts.st_mtime_ns] if facts.st_size else None


Attack = Callable[[Scene], None]
