"""What the machine code of a kernel was made from, as one digest.

Machine code of another source, of a Layout whose fields lay elsewhere, or for another processor
would misread evidence in silence. So what is kept of a kernel is found under the digest of all
that goes into it:

1. the source of its module, and of every module of rmqtool that this one imports, on whatever way;
   of the whole of `formats`, where every Layout and constant of RocketMQ is; of the compiler;
2. its own bytecode and that of all its pieces, with the value of each name in them, as it is in
   this process: numba freezes these values;
3. processor, LLVM, numba, Python, and what numba is told by the environment.
"""

from __future__ import annotations

import enum
import hashlib
import importlib.util
import os
import re
import sys
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from rmqtool.machine.pieces import Instruction, KernelPiece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGE: Final = Path(__file__).parents[1]
NAME: Final = PACKAGE.name
WHOLE: Final = ("formats", "machine")  # folders of which every module counts
COMPILERS: Final = ("numba", "llvmlite")
# An import at the left margin: what is imported in a function serves no kernel.
IMPORT: Final = re.compile(
    rf"^(?:from ({NAME}(?:\.\w+)*) import (\([^)]*\)|[^\n]*)|import ({NAME}(?:\.\w+)*))".encode(),
    re.MULTILINE,
)
WORD: Final = re.compile(rb"\w+")


def stamp(function: Callable[..., object], signature: str, level: str = "") -> bytes:
    """Give the SHA-256 of what a kernel is compiled from, by what, and for which processors.

    Raises:
        TypeError: it names something of which nobody can say what it will be in a later process.
    """
    digest = hashlib.sha256(_surroundings(level))
    digest.update(repr((function.__module__, function.__qualname__, signature)).encode())
    digest.update(_contents(Path(function.__code__.co_filename)))
    digest.update(frozen(function))
    return digest.digest()


@cache
def sources(module: Path) -> frozenset[Path]:
    """Give the files that count for the kernels of a module.

    Args:
        module: its file.
    """
    paths = {module, *_whole()}
    waiting = [*paths]
    while waiting:
        new = _imported(waiting.pop()) - paths
        paths |= new
        waiting += new
    return frozenset(paths)


@cache
def _whole() -> frozenset[Path]:
    """Give the files of the folders of which every module counts."""
    return frozenset(
        path
        for folder in WHOLE
        for path in (PACKAGE / folder).iterdir()
        if path.name.endswith(".py")
    )


@cache
def _contents(module: Path) -> bytes:
    """Give the digest of all files that count for the kernels of a module."""
    return hashlib.sha256(b"".join(map(_content, sorted(sources(module))))).digest()


@cache
def _content(source: Path) -> bytes:
    """Give the digest of a file and of its place in the package."""
    inside = source.relative_to(PACKAGE) if PACKAGE in source.parents else ""
    return hashlib.sha256(f"{inside}\0".encode() + _read(source)).digest()


@cache
def _read(source: Path) -> bytes:
    try:
        return source.read_bytes()
    except OSError:  # there is only bytecode, of which `frozen` knows more than the source
        return b""


@cache
def _imported(source: Path) -> frozenset[Path]:
    """Give the files of the modules of rmqtool that a module imports."""
    modules = set()
    for parent, names, whole in IMPORT.findall(_read(source)):
        path = PACKAGE.joinpath(*(parent or whole).decode().split(".")[1:])
        if not path.is_dir():
            modules.add(path.with_name(f"{path.name}.py"))
            continue
        modules.add(path / "__init__.py")
        inside = (path / f"{name.decode()}.py" for name in WORD.findall(names))
        modules |= {module for module in inside if module.is_file()}
    return frozenset(modules)


@cache
def _surroundings(level: str) -> bytes:
    """Tell what compiles, and for what."""
    from rmqtool.machine.machine_code import target

    settings = sorted(
        item
        for item in os.environ.items()
        if item[0].startswith("NUMBA_") and item[0] != "NUMBA_CACHE_DIR"
    )
    installed = tuple(map(_installed, COMPILERS))
    # The compiler sees bytecode, which is the same in all releases that share its magic number.
    python = sys.implementation.cache_tag, importlib.util.MAGIC_NUMBER
    return repr((target(level), python, installed, settings)).encode()


def _installed(name: str) -> tuple[object, ...]:
    """Say what is installed of a package, without loading it: the same wherever that lies."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return (name,)
    source = Path(spec.origin)
    for record in source.parents[1].glob(f"{name}-*.dist-info/RECORD"):
        own = [line for line in _read(record).splitlines() if line.startswith(f"{name}/".encode())]
        hashed = sorted(line for line in own if b",sha256=" in line)  # bytecode has no digest
        if hashed:
            return name, record.parent.name, hashlib.sha256(b"\n".join(hashed)).hexdigest()
    facts = source.stat()
    return name, spec.origin, facts.st_size, facts.st_mtime_ns


@cache
def frozen(function: Callable[..., object]) -> bytes:
    """Give the digest of what numba freezes of a function: its code, and the values it names.

    Raises:
        TypeError: see `stamp`.
    """
    digest = hashlib.sha256(repr((*_code(function.__code__), function.__defaults__)).encode())
    for name, value in _values(function):
        if isinstance(value, KernelPiece):
            digest.update(f"{name} {value.forceinline}".encode() + frozen(value.function))
        else:
            digest.update(repr((name, _fact(name, value))).encode())
    return digest.digest()


def _code(code: CodeType) -> Iterator[object]:
    """Yield what a function does, not where it is written."""
    yield code.co_code, code.co_names, code.co_varnames, code.co_argcount, code.co_flags
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield constant


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that a function looks up, in its module or as attributes."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _values(function: Callable[..., object]) -> Iterator[tuple[str, Any]]:
    """Yield what a function takes from around it, and from the modules and classes it names."""
    names = dict.fromkeys(_names(function.__code__))  # each once, in order
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    known = function.__globals__ | {name: cell.cell_contents for name, cell in cells}
    for name in [*names, *function.__code__.co_freevars]:
        if name not in known:
            continue  # an attribute, or one of Python's own
        value = known[name]
        if not isinstance(value, ModuleType):
            yield name, value
        if isinstance(value, ModuleType | type):
            inside = [inner for inner in names if hasattr(value, inner)]
            yield from ((f"{name}.{inner}", getattr(value, inner)) for inner in inside)


def _fact(name: str, value: Any) -> object:  # noqa: ANN401 - whatever stands in a module
    """Give what is the same in each process in which a value is the same.

    Raises:
        TypeError: nothing is known to be.
    """
    if isinstance(value, enum.Enum):
        return repr(value.value)
    if isinstance(value, bool | int | float | str | bytes | None):
        return value
    if isinstance(value, tuple):
        return tuple(_fact(name, item) for item in value)
    if isinstance(value, Instruction):
        return value.module, value.name
    if hasattr(value, "tobytes") and not isinstance(value, type):  # an array or number of numpy's
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, type) or (callable(value) and not _is_of_package(value)):
        return str(getattr(value, "__module__", "")), value.__name__  # numba knows it by that
    message = f"{name} is {value!r}: a kernel can only take numbers, tuples, arrays and pieces"
    raise TypeError(message)


def _is_of_package(value: object) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] == NAME
