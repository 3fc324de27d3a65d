"""Machine code is kept for the next run, and run only if it is whole and the user's own or root's.

Each refusal has a twin that shows that the same file is run where it may be: `THRICE` in place of
`twice`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from rmqtool.machine import cache
from rmqtool.machine import cache as cache_place
from rmqtool.machine.cache import CacheDirectory, KernelCode, KernelKey, own, places
from rmqtool.writing.private_place import Untrusted

ROOT = Path(__file__).parents[2]
NOBODY = 65534
ORDINARY = None if os.geteuid() else NOBODY
# The interpreter may lie where only root may read: another user may read all, and write nothing.
READS = ("--clear-groups", "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
KEY = KernelKey("some.kernel", bytes(range(32)))
CODE = KernelCode("symbol", b"object \0 code" * 99)
# A kernel; `plant DIRECTORY` makes a file that passes for its machine code, and computes 3 * n.
PROGRAM = """
import os, sys
from rmqtool.machine import announce, cache
from rmqtool.machine.compiled import kernel
announce.listen(lambda sentence: print(sentence, file=sys.stderr))
@kernel("int64(int64)")
def twice(number):
    return 2 * number
@kernel("int64(int64)")
def thrice(number):
    return 3 * number
if sys.argv[1:]:
    from rmqtool.writing.private_place import put
    place = os.open(sys.argv[1], os.O_DIRECTORY)
    put(place, twice.key.file, cache._encode(twice.key.stamp, thrice.compile()), 0o644)
else:
    print(twice(21), "numba" in sys.modules)
"""
RIGHT, KEPT = "42 True", "42 False"  # compiled again, or not
THRICE = "63"


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a directory that every user can reach, of whoever runs the test."""
    path = Path(tempfile.mkdtemp(prefix="rmqtool-cache-"))
    path.chmod(0o755)
    (path / "program.py").write_text(PROGRAM)
    yield path
    shutil.rmtree(path)


def run(
    place: Path,
    variables: Mapping[str, object],
    *arguments: object,
    user: int | None = None,
    said: list[str] | None = None,
) -> str:
    """Run the program, in a directory that is not its own; give what it printed.

    Args:
        place: where it lies.
        variables: of its environment, which is empty but for them.
        *arguments: of the program.
        user: who runs it; None is whoever runs the test.
        said: takes what it said to whoever waits.
    """
    cwd = place / "cwd"
    cwd.mkdir(exist_ok=True)
    before = [] if user is None else ["setpriv", f"--reuid={user}", f"--regid={user}", *READS]
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [*before, sys.executable, str(place / "program.py"), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        | {name: str(value) for name, value in variables.items()},
    )
    if said is not None:
        said += done.stderr.splitlines()
    return done.stdout.strip()


def directory(path: Path, user: int | None = None, mode: int = 0o700) -> Path:
    """Make a directory of a user, and those above it."""
    path.mkdir(parents=True)
    path.chmod(mode)
    if user is not None:
        os.chown(path, user, user)
    return path


def test_kept(place: Path) -> None:
    """The second process does without numba, and its file is the user's alone."""
    home = directory(place / "home")
    assert RIGHT == run(place, {"HOME": home})
    assert KEPT == run(place, {"HOME": home})
    kept = home / ".cache" / "rmqtool"
    assert {0o40700} == {path.stat().st_mode for path in (kept, kept.parent)}
    assert {0o100600} == {path.stat().st_mode for path in kept.iterdir()}


@pytest.mark.parametrize("at", [0, 16, 17, 48, 49, 80, 81, 200, -1])
def test_flipped(place: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """One bit that differs, wherever it lies, and nothing of the file is used."""
    file = keep(place, monkeypatch)
    assert cache.find(KEY, places()) == CODE
    raw = bytearray(file.read_bytes())
    raw[at] ^= 1
    file.write_bytes(raw)
    assert cache.find(KEY, places()) is None


@pytest.mark.parametrize("size", [0, 1, 17, 48, 49, 81, -1])
def test_cut(place: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """A file that was not written to its end is not used."""
    file = keep(place, monkeypatch)
    file.write_bytes(file.read_bytes()[:size])
    assert cache.find(KEY, places()) is None


def test_foreign(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole file under another's name is not used: it holds what it was made from."""
    file = keep(place, monkeypatch)
    other = KernelKey(KEY.name, KEY.stamp[:16] + bytes(16))
    assert file.name == other.file
    assert cache.find(other, places()) is None


def keep(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep some code; give its file."""
    for name in ("NUMBA_CACHE_DIR", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    assert cache.keep(KEY, CODE, own()) == own()[0]
    (file,) = (place / "rmqtool").iterdir()
    return file


def of_nobody(file: Path) -> None:
    """Give a file to another user."""
    os.chown(file, NOBODY, NOBODY)


def for_all(file: Path) -> None:
    """Let every user write to a file."""
    file.chmod(0o666)


def directory_for_group(file: Path) -> None:
    """Let a group write to the directory."""
    file.parent.chmod(0o770)


def directory_for_all(file: Path) -> None:
    """Let every user write to the directory, though none may remove what is another's."""
    file.parent.chmod(0o1777)


def linked(file: Path) -> None:
    """Put a link to the same file in its place."""
    file.symlink_to(file.rename(file.with_name("elsewhere")))


def piped(file: Path) -> None:
    """Put a pipe in its place, which nobody writes to."""
    file.unlink()
    os.mkfifo(file)


HARMS = [for_all, directory_for_group, directory_for_all, linked, piped]


@pytest.mark.parametrize("harm", [*HARMS, of_nobody])
def test_others_may_write(
    place: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], None]
) -> None:
    """What another user may have written is not used."""
    if harm is of_nobody and os.geteuid():
        pytest.skip("only root gives files away")
    file = keep(place, monkeypatch)
    harm(file)
    assert cache.find(KEY, places()) is None


def test_ways_that_lead_there(place: Path) -> None:
    """Who may write above a directory may put another in its place: it is not taken."""
    for mode, is_taken in ((0o755, True), (0o777, False), (0o1777, True)):
        above = directory(place / oct(mode), mode=mode)
        inner = directory(above / "inner")
        assert is_taken is opens(inner), oct(mode)


def opens(path: Path) -> bool:
    """Say whether machine code may lie in a directory."""
    try:
        with cache_place.opened(CacheDirectory(str(path))):
            return True
    except Untrusted:
        return False


def test_order(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user names comes first; what is relative, or a tilde, is nowhere."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(place / "numba"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "xdg"))
    monkeypatch.setenv("HOME", str(place / "home"))
    *named, last = own()
    wanted = ["numba", "xdg/rmqtool", "home/.cache/rmqtool"]
    assert named == [CacheDirectory(f"{place}/{one}", 0o700, 0o600) for one in wanted]
    monkeypatch.setenv("NUMBA_CACHE_DIR", ".")
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", "~")
    assert [last] == own()


def test_unused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that nobody has read for a month goes, and nothing else that lies there."""
    file = keep(place, monkeypatch)
    ages = {
        file.name: 99,
        f"some.kernel-{'0' * 32}.kernel": 31,
        f"some.kernel-{'1' * 32}.kernel": 29,
        f"some.kernel-{'2' * 32}.kernel.{'3' * 16}": 31,  # whoever wrote it was killed
        "photograph": 99,
    }
    for name, days in ages.items():
        (file.parent / name).touch()
        os.utime(file.parent / name, (time.time() - days * 24 * 3600,) * 2)
    assert cache.keep(KEY, CODE, own()) == own()[0]
    left = {path.name for path in file.parent.iterdir()}
    assert left == {file.name, f"some.kernel-{'1' * 32}.kernel", "photograph"}


def test_planted(place: Path) -> None:
    """What lies in `./~/.cache` of the current directory is not run where there is no home."""
    ways = ("~/.cache/rmqtool", ".cache/rmqtool", "rmqtool")
    for planted in (directory(place / "cwd" / way) for way in ways):
        assert "" == run(place, {"HOME": place}, planted)
    relative = {"HOME": "~", "XDG_CACHE_HOME": ".", "NUMBA_CACHE_DIR": "~/.cache/rmqtool"}
    variables: Mapping[str, str]
    for variables in ({}, relative):
        assert RIGHT == run(place, variables, user=ORDINARY), variables
    # Which shows that the file would run.
    assert run(place, {"NUMBA_CACHE_DIR": place / "cwd" / ways[0]}).startswith(THRICE)


@pytest.mark.skipif(os.geteuid() != 0, reason="takes the part of several users")
@pytest.mark.parametrize("name", ["HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"])
def test_root_in_the_home_of_another(place: Path, name: str) -> None:
    """Root runs nothing of a user, whose home `sudo` may have kept."""
    home = directory(place / "home", NOBODY)
    ways = {"HOME": ".cache/rmqtool", "XDG_CACHE_HOME": "rmqtool", "NUMBA_CACHE_DIR": ""}
    planted = home / ways[name]
    while not planted.is_dir():
        directory(planted)
    subprocess.run(["/bin/chown", "-R", str(NOBODY), home], check=True)  # noqa: S603 - our own
    assert "" == run(place, {"HOME": home}, planted, user=NOBODY)
    assert run(place, {name: home}, user=NOBODY).startswith(THRICE)
    before = sorted(home.rglob("*"))
    other = "XDG_CACHE_HOME" if name == "NUMBA_CACHE_DIR" else "NUMBA_CACHE_DIR"
    assert RIGHT == run(place, {name: home, other: place / "root"})
    assert before == sorted(home.rglob("*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="takes the part of several users")
def test_beside_an_installation(place: Path) -> None:
    """What root keeps beside the modules every user may read; no user's serves root."""
    installed = CacheDirectory(str(place / "lib" / "kernels"), 0o755, 0o644)
    previous = os.umask(0o077)
    try:
        directory(place / "lib", mode=0o755)
        assert cache.keep(KEY, CODE, [installed]) == installed
    finally:
        os.umask(previous)
    assert cache.find(KEY, [installed]) == CODE
    assert 0o40755 == Path(installed.path).stat().st_mode
    assert {0o100644} == {path.stat().st_mode for path in Path(installed.path).iterdir()}
    os.chown(place / "lib", NOBODY, NOBODY)
    assert cache.find(KEY, [installed]) is None
    with pytest.raises(cache.NotKept, match="lib belongs to another user"):
        cache.keep(KEY, CODE, [installed])


@pytest.mark.skipif(os.geteuid() != 0, reason="takes the part of another user")
def test_nowhere(place: Path) -> None:
    """Who has no place is told so once, with the remedy, and gets right answers."""
    said: list[str] = []
    assert RIGHT == run(place, {"HOME": "/nonexistent"}, user=NOBODY, said=said)
    compiling, not_kept = said
    assert compiling.startswith("compiling native code")
    assert "each run compiles again: /nonexistent/.cache/rmqtool: Permission denied" in not_kept
    assert "XDG_CACHE_HOME" in not_kept
    assert "rmqtool warm-up" in not_kept
