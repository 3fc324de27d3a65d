"""rmqtool on aarch64, from a machine of another kind: by qemu-user, in Debian 12 of arm64.

    python -m tests.packaging.arm64 [--rooms tests/scan …] [--keep DIRECTORY]

1. Each locked package has a wheel for aarch64 (`test_supply.py`).
2. debootstrap fetches Debian's Python for arm64, as root, and pip the wheels. Nothing of it is
   installed here, and no kind of program is made known to the kernel: a script starts Python in
   qemu, with the directories of this machine mounted where qemu looks, in a namespace of its own.
3. All kernels are compiled there, and their probe must be right.
4. Commands must give what they give here, byte for byte, of sound stores and of damaged ones.
5. The quick tests of some rooms pass; `--rooms` alone leaves them out.

What is absent on this machine is named, and the exit code is 2.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from tests.inflict import flip_field
from tests.packaging.bare import remove
from tests.stores import fixture_store

ROOT: Final = Path(__file__).parents[2]
QEMU: Final = "qemu-aarch64-static"
NEEDED: Final = {
    QEMU: "qemu-user-static",
    "debootstrap": "debootstrap",
    "dpkg-deb": "dpkg",
    "unshare": "util-linux",
}
# What is opened from `/` on, part by part, is looked up below the root of arm64.
START: Final = """#!/bin/sh
exec unshare --mount --propagation private sh -c '
for name in {names}; do mount --rbind "/$name" "{root}/$name" || exit; done
exec {qemu} -L {root} -0 {program} -E PYTHONHOME={root}/usr {root}/usr/bin/python{python} "$@"
' python "$@"
"""
GLIBC: Final = ("2_17", "2_28")
PYTHON: Final = "3.11"  # Debian 12 has it
OF_TESTS: Final = {"pytest", "pytest-xdist", "hypothesis", "py4j", "jsonschema", "pyyaml", "pillow"}
ROOMS: Final = ("tests/scan", "tests/derive", "tests/machine", "tests/formats")
FIXTURES: Final = (
    "rocketmq-4.9.3-traffic",
    "rocketmq-5.5.0-traffic",
    "rocketmq-5.3.3-batch-queue",
    "rocketmq-5.5.0-rocksdb",
)
ROWS: Final = ("--format", "jsonl", "--quiet")
COMMANDS: Final = (
    ("validate", "STORE", *ROWS),
    ("dump", "STORE", *ROWS),
    ("hash", "STORE", *ROWS),
    ("rebuild", "STORE", "--check", *ROWS),
    ("rebuild", "STORE", "--output", "OUTPUT", "--quiet"),
)
OF_A_RUN: Final = "rocksdb"  # the files of a database, also of two runs on one machine, differ


def absent() -> list[str]:
    """Name what this machine lacks."""
    missing = [package for tool, package in NEEDED.items() if shutil.which(tool) is None]
    return [*missing, *(["root's rights"] if os.geteuid() else [])]


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201


def python_of(place: Path) -> Path:
    """Give a program that is Python of arm64: what it needs is fetched into a directory."""
    root, program = place / "root", place / "python3"
    if not (root / "usr/bin").exists():
        words = ["--foreign", "--arch=arm64", "--variant=minbase", "--include=python3", "bookworm"]
        subprocess.run(["debootstrap", *words, root], check=True, stdout=subprocess.DEVNULL)  # noqa: S603, S607
        for package in sorted((root / "var/cache/apt/archives").glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, root], check=True)  # noqa: S603, S607
    names = {"proc", "dev", "tmp", *(path.parts[1] for path in (place, ROOT, Path.home()))}
    for name in names:
        there = root / name
        if there.is_symlink():
            there.unlink()
        there.mkdir(exist_ok=True)
    start = {"names": " ".join(sorted(names)), "root": root, "program": program, "qemu": QEMU}
    program.write_text(START.format(**start, python=PYTHON), encoding="utf-8")
    program.chmod(0o755)
    return program


def wheels(place: Path) -> Path:
    """Fetch the wheels of the base, and what the tests need, for arm64; give where they are."""
    there = place / "packages"
    if there.exists():
        return there
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    more = project["optional-dependencies"]
    tests = [line for line in more["dev"] if Requirement(line).name in OF_TESTS]
    wanted = [*project["dependencies"], *more["browse"], *tests]
    kinds = [f"--platform=manylinux_{version}_aarch64" for version in GLIBC]
    words = ["--only-binary=:all:", "--python-version", PYTHON, "--target", str(there), *kinds]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, *words, *wanted], check=True)  # noqa: S603
    return there


def environment(tree: Path, packages: Path | None) -> Mapping[str, str]:
    """Give the variables of a Python that has a tree, and packages beside its own."""
    paths = [tree] if packages is None else [tree, packages]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}


def content(directory: Path) -> dict[str, str]:
    """Give a digest of each file below a directory."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def answers(python: Path, variables: Mapping[str, str], stores: list[Path]) -> list[object]:
    """Give exit code, rows and written files of each command and store."""
    found: list[object] = []
    for store in stores:
        for command in COMMANDS:
            with tempfile.TemporaryDirectory() as directory:
                output = Path(directory, "output")
                given = {"STORE": str(store), "OUTPUT": str(output)}
                words = [given.get(word, word) for word in command]
                run = [str(python), "-m", "rmqtool", *words]
                done = subprocess.run(run, env=variables, check=False, capture_output=True)  # noqa: S603
                name = command[0], store.parent.name
                written = {} if OF_A_RUN in store.parent.name else content(output)
                found.append((*name, done.returncode, done.stdout, written))
    return found


def stores_in(place: Path) -> list[Path]:
    """Give sound stores, and the same with a bit of a record changed."""
    found = []
    for name in FIXTURES:
        for kind in ("sound", "damaged"):
            (above := place / f"{name}-{kind}").mkdir(parents=True)
            found.append(fixture_store(name, above))
        flip_field("body")(found[-1])
    return found


def compared(python: Path, variables: Mapping[str, str], tree: Path, place: Path) -> int:
    """Say how many answers differ from those of this machine."""
    shutil.rmtree(place / "stores", ignore_errors=True)
    stores = stores_in(place / "stores")
    here = answers(Path(sys.executable), environment(tree, None), stores)
    there = answers(python, variables, stores)
    differ = [one[:2] for one, two in zip(here, there, strict=True) if one != two]  # type: ignore[index]
    say(f"answers: {len(here) - len(differ)} of {len(here)} the same, byte for byte")
    for name, store in differ:
        say(f"  {name} of {store} differs")
    return len(differ)


def timed(python: Path, words: list[str], tree: Path, variables: Mapping[str, str]) -> int:
    """Run a module there, and say what came of it."""
    begin = time.monotonic()
    done = subprocess.run([python, "-m", *words], cwd=tree, env=variables, check=False)  # noqa: S603
    say(f"{' '.join(words)}: exit {done.returncode}, {time.monotonic() - begin:.0f} s")
    return done.returncode


def main() -> int:
    """Do all of it, and say what each step took."""
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.arm64", description=__doc__)
    parser.add_argument("--rooms", nargs="*", default=ROOMS, help="whose quick tests run there")
    parser.add_argument("--keep", type=Path, help="what is fetched goes there, or is there")
    given = parser.parse_args()
    words = ["--all-variants", "-q", "tests/packaging/test_supply.py", "-k", "wheels and aarch64"]
    wheel = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, check=False)  # noqa: S603
    if missing := absent():
        say(f"not run: this machine lacks {', '.join(missing)}")
        return 2
    place = (given.keep or Path(tempfile.mkdtemp(prefix="rmqtool-arm64-"))).absolute()
    place.mkdir(exist_ok=True)
    try:
        tree = place / "rmqtool"
        shutil.rmtree(tree, ignore_errors=True)
        subprocess.run(["git", "clone", "-q", ROOT, tree], check=True)  # noqa: S603, S607
        python = python_of(place)
        variables = environment(tree, wheels(place))
        failed = wheel.returncode
        failed += timed(python, ["rmqtool", "warm-up"], tree, variables)
        failed += compared(python, variables, tree, place)
        if given.rooms:
            words = ["pytest", "-q", "-m", "quick", "-p", "no:cacheprovider", *given.rooms]
            failed += timed(python, words, tree, variables)
        return int(bool(failed))
    finally:
        if not given.keep:
            remove(place)


if __name__ == "__main__":
    sys.exit(main())
