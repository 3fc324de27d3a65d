"""Build rmqtool in one file: Python, its packages without Spark, the C library, compiled kernels.

    python packaging/bundle/build.py [--output rmqtool-linux-x86_64]

It takes the Python that runs it, and the packages that pip finds for it. The machine needs gcc and
libzstd-dev, and its C library goes along: the file then runs on any Linux 3.2 or newer. What it
does when it starts is in `launcher.c`.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
MAGIC: Final = b"rmqtool1"
COMPRESS: Final = """
import sys, zstandard
parameters = zstandard.ZstdCompressionParameters.from_level(
    int(sys.argv[1]), window_log=27, write_checksum=True, threads=-1)
made = zstandard.ZstdCompressor(compression_params=parameters)
sys.stdout.buffer.write(made.compress(sys.stdin.buffer.read()))
"""
LEVELS: Final = {"x86_64": ("x86-64", "x86-64-v2", "x86-64-v3"), "aarch64": ("generic",)}
# Parts of Python that no command loads.
NO_STDLIB: Final = {
    *("test", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "pydoc_data"),
    *("site-packages", "turtle.py"),
}
UNUSED: Final = re.compile(r"^(__pycache__|tests?|config-.*|_tkinter.*|_(xx|test|ctypes_test).*)$")
# Parts of packages that no command loads: other engines, headers, their own tests.
NO_PACKAGES: Final = re.compile(
    r"(^|/)(pip|setuptools|pkg_resources|_distutils_hack|pip-[^/]*|setuptools-[^/]*)(/|$)"
    r"|distutils-precedence|/__pycache__/|(^|/)tests?/|\.(pxd|pyx|pxi|pyi|h|hpp|a)$"
    r"|^pyarrow/(include|includes|src)/|^pyarrow/(_flight|_substrait|_pyarrow_cpp|libarrow_flight)"
    r"|^pyarrow/libarrow_python_flight"
    r"|^numpy/(f2py|_core/include|_core/lib)/|^zstandard/(_cffi|backend_cffi)"
)
FOR_LEVEL: Final = "import sys; from rmqtool.machine.warm_up import *; for_level(sys.argv[1])"
FLAGS: Final = ("-static", "-Os", "-s", "-Wall", "-Wextra")


def run(*words: str | Path, **options: str) -> str:
    """Run a program; give what it writes."""
    done = subprocess.run(  # noqa: S603 - our own words
        list(map(str, words)), stdout=subprocess.PIPE, text=True, check=True,
        env={**os.environ, **options},
    )  # fmt: skip
    return done.stdout


def packages(place: Path) -> Path:
    """Install rmqtool and what it stands on, and nothing else; give where that is."""
    run(sys.executable, "-m", "venv", place)
    pip = place / "bin" / "pip"
    wanted = (f"{ROOT}[browse,sql]", "tzdata")
    run(pip, "install", "-q", "--disable-pip-version-check", "--no-compile", *wanted)
    return place / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"


def libraries(files: list[Path]) -> Iterator[Path]:
    """Give the libraries of the system that programs and libraries ask for."""
    found: dict[str, Path] = {}
    for file in files:
        for name, path in re.findall(r"(\S+) => (/\S+)", run("ldd", file)):
            found.setdefault(name, Path(path))
    known = {file.name for file in files}
    return (path for name, path in sorted(found.items()) if name not in known)


def loader(program: Path) -> Path:
    """Give the loader that a program asks for."""
    return Path(re.findall(r"^\s*(/\S+ld\S+) ", run("ldd", program), re.MULTILINE)[0])


def is_native(path: Path) -> bool:
    """Say whether a file is a program or a library."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def lay_out(tree: Path, built: Path) -> None:
    """Put together what is unpacked where the file is started."""
    inside = tree / "lib" / f"python3.{sys.version_info.minor}"
    (tree / "bin").mkdir(parents=True)
    stdlib = Path(sysconfig.get_path("stdlib"))

    def unwanted(directory: str, names: list[str]) -> list[str]:
        is_top = Path(directory) == stdlib
        return [one for one in names if UNUSED.search(one) or (is_top and one in NO_STDLIB)]

    shutil.copytree(stdlib, inside, ignore=unwanted)
    source = packages(built)
    for path in sorted(source.rglob("*")):
        name = str(path.relative_to(source))
        if not path.is_dir() and not NO_PACKAGES.search(name):
            target = inside / "site-packages" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
    interpreter = Path(sys.executable).resolve()
    shutil.copy2(interpreter, tree / "bin" / "python")
    shutil.copy2(loader(interpreter), tree / "lib" / "ld.so")
    natives = [one for one in tree.rglob("*") if one.is_file() and is_native(one)]
    for library in libraries([interpreter, *natives]):
        shutil.copy2(library, tree / "lib" / library.name)
    shutil.copytree(ROOT / "man", tree / "share" / "man")
    for library in [*natives, *(tree / "lib").glob("lib*.so*")]:
        if (
            library.parent.name != "numpy.libs"
        ):  # theirs were changed in ways that strip cannot read
            run("strip", "--strip-unneeded", library)


def compile_all(tree: Path) -> None:
    """Compile modules to bytecode, and kernels for each level of processors."""
    python = tree / "bin" / "python3"
    everything = tree / "lib" / f"python3.{sys.version_info.minor}"
    # Not by times: they are those of the unpacking.
    words = ("-q", "-j", "0", "--invalidation-mode", "unchecked-hash", everything)
    run(python, "-I", "-m", "compileall", *words)
    for level in LEVELS[platform.machine()]:
        run(python, "-I", "-c", FOR_LEVEL, level)


def packed(tree: Path) -> bytes:
    """Give the tree as one tar, the same for the same content."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(tree.rglob("*")):
            facts = archive.gettarinfo(path, str(path.relative_to(tree)))
            facts.uid = facts.gid = facts.mtime = 0
            facts.uname = facts.gname = ""
            facts.mode = 0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644
            with path.open("rb") if facts.isreg() else io.BytesIO() as file:
                archive.addfile(facts, file)
    return content.getvalue()


def compressed(content: bytes, python: Path, level: int) -> bytes:
    """Compress the payload, with a checksum, by the library that is packed."""
    words = [str(python), "-I", "-c", COMPRESS, str(level)]
    return subprocess.run(words, input=content, stdout=subprocess.PIPE, check=True).stdout  # noqa: S603


def write(output: IO[bytes], launcher: bytes, content: bytes, payload: bytes) -> None:
    """Write the file: launcher, payload, and what the launcher has to know of it."""
    name = hashlib.sha256(launcher + content).hexdigest()[:32]
    output.write(launcher)
    output.write(payload)
    output.write(MAGIC + f"{len(payload):016x}{len(content):016x}{name}".encode())


def main() -> None:
    """Build the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    usual = f"rmqtool-linux-{platform.machine()}"
    parser.add_argument("--output", type=Path, default=Path(usual))
    parser.add_argument("--level", type=int, default=19, help="of zstd: 12 takes a tenth as long")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rmqtool-bundle-") as directory:
        tree, launcher = Path(directory, "tree"), Path(directory, "launcher")
        run("gcc", *FLAGS, "-o", launcher, HERE / "launcher.c", "-lzstd")
        lay_out(tree, Path(directory, "packages"))
        shutil.copy2(launcher, tree / "bin" / "python3")
        compile_all(tree)
        with given.output.open("wb") as file:
            content = packed(tree)
            payload = compressed(content, tree / "bin" / "python3", given.level)
            write(file, launcher.read_bytes(), content, payload)
    given.output.chmod(0o755)
    print(f"{given.output}: {given.output.stat().st_size:,} bytes")  # noqa: T201


if __name__ == "__main__":
    main()
