"""rmqtool in one file: what its first program does, and what the whole does where nothing is."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import zstandard

from tests import tour
from tests.stores import fixture_names, fixture_store

BUNDLE: Final = Path(__file__).parents[2] / "packaging" / "bundle"
HAS_COMPILER: Final = bool(shutil.which("gcc")) and Path("/usr/include/zstd.h").exists()
pytestmark = pytest.mark.skipif(
    not HAS_COMPILER and not os.environ.get("CI"), reason="needs the packages gcc and libzstd-dev"
)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes the part of several users")
# Stands for the loader: says with what it was started.
LOADER: Final = "#include <stdio.h>\nint main(int n, char **w) { while (*++w) puts(*w); return 7; }"
CONTENT: Final = np.random.default_rng(1).bytes(3 << 20)  # longer than what is read at once
NOBODY: Final = 65534
STARTED: Final = 7


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Give a directory that every user can reach."""
    path = Path(tempfile.mkdtemp(prefix="rmqtool-bundle-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def build() -> Any:  # noqa: ANN401 - a script
    """Load the script."""
    spec = importlib.util.spec_from_file_location("build", BUNDLE / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def launcher(place: Path, build: Any) -> Path:  # noqa: ANN401 - a script
    """Compile the first program."""
    build.run("gcc", *build.FLAGS, "-o", place / "launcher", BUNDLE / "launcher.c", "-lzstd")
    return place / "launcher"


@pytest.fixture(scope="module")
def file(place: Path, build: Any, launcher: Path) -> Path:  # noqa: ANN401 - a script
    """Give a file whose Python only says how it was started."""
    tree = place / "tree"
    (tree / "lib" / "deep").mkdir(parents=True)
    (tree / "loader.c").write_text(LOADER, encoding="utf-8")
    build.run("gcc", *build.FLAGS, "-o", tree / "lib" / "ld.so", tree / "loader.c")
    (tree / "lib" / "deep" / "content").write_bytes(CONTENT)
    (tree / "lib" / "link").symlink_to("deep/content")
    made = place / "rmqtool"
    content = build.packed(tree)
    with made.open("wb") as output:
        payload = zstandard.ZstdCompressor(write_checksum=True).compress(content)
        build.write(output, launcher.read_bytes(), content, payload)
    made.chmod(0o755)
    return made


@pytest.fixture
def home(place: Path) -> Path:
    """Give a home without anything."""
    return Path(tempfile.mkdtemp(dir=place))


def start(file: Path, *words: str, user: int | None = None, **env: object) -> tuple[int, str, str]:
    """Start the file; give exit code, and what it says."""
    done = subprocess.run(  # noqa: S603 - our own program
        [file, *words], env={name: str(value) for name, value in env.items()},
        capture_output=True, text=True, check=False, user=user,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def trees(home: Path) -> list[Path]:
    """Give what was unpacked to a home."""
    return sorted((home / ".cache" / "rmqtool").iterdir())


def test_unpacks_once(file: Path, home: Path) -> None:
    """The first start unpacks all, each start begins rmqtool with the words that were given."""
    code, out, err = start(file, "doctor", "a b", HOME=home)
    (tree,) = trees(home)
    assert (STARTED, "") == (code, err)
    assert out.splitlines() == [
        *("--inhibit-cache", "--library-path", f"{tree}/lib", "--argv0", f"{tree}/bin/python3"),
        *(f"{tree}/bin/python", "-I", "-m", "rmqtool", "doctor", "a b"),
    ]
    assert CONTENT == (tree / "lib" / "link").read_bytes()
    assert os.access(tree / "lib" / "ld.so", os.X_OK)
    before = tree.stat()
    assert (STARTED, out, "") == start(file, "doctor", "a b", HOME=home)
    assert before == tree.stat()


def test_all_at_once(file: Path, home: Path) -> None:
    """Who starts while another one unpacks starts, too."""
    command, env = [str(file), "x"], {"HOME": str(home)}
    running = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE) for _ in range(6)]  # noqa: S603
    outs = {one.communicate(timeout=60)[0] for one in running}
    assert ({STARTED}, 1, 1) == ({one.returncode for one in running}, len(outs), len(trees(home)))


def test_interpreter(launcher: Path, file: Path, home: Path) -> None:
    """In what is unpacked, the same program starts the interpreter, and nothing more."""
    start(file, HOME=home)
    (tree,) = trees(home)
    (tree / "bin").mkdir()
    shutil.copy(launcher, tree / "bin" / "python3")
    code, out, _ = start(tree / "bin" / "python3", "-c", "pass")
    assert (STARTED, [f"{tree}/bin/python", "-c", "pass"]) == (code, out.splitlines()[-3:])


def test_sweeps(file: Path, home: Path) -> None:
    """What another version has unpacked is removed, unless it is in use."""
    cache = home / ".cache" / "rmqtool"
    for name in ("used", "left", "new"):
        (cache / f"{name}.bundle" / "lib").mkdir(parents=True)
    (cache / "kernels").mkdir()
    used = os.open(cache / "used.bundle", os.O_RDONLY)
    try:
        fcntl.flock(used, fcntl.LOCK_SH)
        start(file, HOME=home)
    finally:
        os.close(used)
    names = {path.name for path in trees(home)}
    assert {"used.bundle", "kernels"} < names
    assert 3 == len(names)


def test_damaged(file: Path, home: Path) -> None:
    """A copy with a wrong byte is not started."""
    raw = bytearray(file.read_bytes())
    raw[-1 << 20] ^= 1
    copy = home / "copy"
    copy.write_bytes(raw)
    copy.chmod(0o755)
    damaged = f"rmqtool: {copy} is damaged: copy it again\n"
    assert (2, "", damaged) == start(copy, HOME=home)
    assert [] == [path for path in trees(home) if path.name != "new.bundle"]


@as_root
def test_other_users_directory(file: Path, home: Path) -> None:
    """What another user could have filled is not started; another place serves."""
    elsewhere = home / "elsewhere"
    for directory, owner, mode in (
        (home / ".cache" / "rmqtool", NOBODY, 0o755),
        (elsewhere, 0, 0o777),
    ):
        directory.mkdir(parents=True)
        directory.chmod(mode)
        os.chown(directory, owner, owner)
    code, out, _ = start(file, HOME=home, XDG_CACHE_HOME=home / "xdg")
    assert (STARTED, True) == (code, f"{home}/xdg/rmqtool" in out)
    code, _, err = start(file, RMQTOOL_UNPACK=elsewhere)
    assert (2, True) == (code, f"{elsewhere}: other users may write there" in err)
    code, _, err = start(file, RMQTOOL_UNPACK=home / ".cache" / "rmqtool")
    assert (2, True) == (code, "it belongs to another user" in err)
    code, _, err = start(file, user=NOBODY, RMQTOOL_UNPACK=home / "none" / "deep")
    assert (2, True) == (code, "set RMQTOOL_UNPACK to one of your own" in err)


@as_root
def test_noexec(file: Path, home: Path) -> None:
    """A file system without programs is named as what it is."""
    mount = f'mount -t tmpfs -o noexec,mode=700 none "{home}" && RMQTOOL_UNPACK="{home}" "{file}"'
    line = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount]
    done = subprocess.run(line, capture_output=True, text=True, check=False)  # noqa: S603
    assert 2 == done.returncode
    assert f"{home}: mounted noexec: no program may be started from there" in done.stderr


@as_root
def test_no_room(file: Path, home: Path) -> None:
    """Too little space is said before anything is written."""
    mount = f'mount -t tmpfs -o size=1M,mode=700 none "{home}" && RMQTOOL_UNPACK="{home}" "{file}"'
    line = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount]
    done = subprocess.run(line, capture_output=True, text=True, check=False)  # noqa: S603
    assert (2, True) == (done.returncode, "not enough space: " in done.stderr)


# ---- the whole ----------------------------------------------------------------------------------


class Empty:
    """A root that has the file and stores, and nothing else: no shell, no /dev, no /proc.

    Args:
        root: a directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def rmqtool(self, *words: str, first: str = "") -> tuple[int, list[Any], str]:
        """Run a command; give exit code, rows, and what it says.

        Args:
            words: of the command.
            first: lines of a shell before it, in a namespace of mounts of its own.
        """
        line = f'set -e; root="$0"; {first}\nexec chroot "$root" /rmqtool "$@"'
        done = subprocess.run(  # noqa: S603 - our own program
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", line, self.root, *words],  # noqa: S607
            env={"PATH": "/usr/sbin:/usr/bin"}, stdin=subprocess.DEVNULL, capture_output=True,
            check=False,
        )  # fmt: skip
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
        return done.returncode, rows, done.stderr.decode()


@pytest.fixture(scope="module")
def empty(place: Path) -> Empty:
    """Build the file, unless RMQTOOL_BUNDLE names one."""
    root = place / "root"
    root.mkdir()
    if known := os.environ.get("RMQTOOL_BUNDLE"):
        shutil.copy(known, root / "rmqtool")
    else:
        words = [sys.executable, BUNDLE / "build.py", "--level", "3", "--output", root / "rmqtool"]
        subprocess.run(list(map(str, words)), check=True)  # noqa: S603
    shutil.copytree(tour.TOUR, root / "tour")
    fixture_store(
        [fixture for fixture in fixture_names() if "rocksdb" in fixture][-1], root / "rocksdb"
    )
    return Empty(root)


@as_root
@pytest.mark.all_variants
def test_where_nothing_is(empty: Empty) -> None:
    """Commands give in an empty root what they give elsewhere; nothing is compiled there."""
    code, rows, said = empty.rmqtool("validate", "/tour")
    assert (1, {"CQ-GAP", "CL-MAGIC"}) == (code, {row["code"] for row in rows})
    assert "compiling" not in said
    assert 1 == empty.rmqtool("doctor", "/tour")[0]
    place = ("--topic", "traffic-orders", "--queue", "1", "--queue-offset", "3")
    code, rows, _ = empty.rmqtool("query", "/tour", *place)
    assert (0, 3) == (code, rows[0]["queue_offset"])
    code, rows, _ = empty.rmqtool("carve", "/tour/commitlog/00000000000000131072", "--output", "/c")
    assert (1, 462) == (code, rows[0]["records"])
    assert 1374 == empty.rmqtool("export", "/tour", "--output", "/exported")[1][0]["rows"]
    assert "checked again: no damage" in empty.rmqtool("repair", "/tour", "--in-place", "--yes")[2]
    assert 0 == empty.rmqtool("validate", "/tour")[0]
    assert [{"n": 1}] == empty.rmqtool("sql", "/tour", "SELECT 1 AS n")[1]
    assert "pyspark is missing" in empty.rmqtool("sql", "/tour", "SELECT 1", "--engine", "spark")[2]


@as_root
@pytest.mark.all_variants
def test_rocksdb(empty: Empty) -> None:
    """RocksDB is read where /proc, /tmp and /dev/null are; else it is said not to be."""
    code, _, said = empty.rmqtool("validate", "/rocksdb/store")
    assert (3, True) == (code, "could not be read: consumequeue" in said)
    there = 'mkdir -p "$root/proc" "$root/dev" "$root/tmp"; mount -t proc proc "$root/proc"\n'
    there += 'mount -t tmpfs none "$root/dev"; mknod -m 666 "$root/dev/null" c 1 3'
    assert 0 == empty.rmqtool("validate", "/rocksdb/store", first=there)[0]
