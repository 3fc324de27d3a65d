"""The stamp of machine code changes with whatever a kernel takes: sources, layouts, constants."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rmqtool.formats import registry
from rmqtool.machine import stamp
from rmqtool.machine.compiled import Kernel
from rmqtool.machine.warm_up import kernels
from tests.imports import PACKAGE, imports
from tests.machine.kernels import constants, functions

KERNELS = {kernel.key.name: kernel for kernel in kernels()}
WITHOUT = {  # which name no constant
    "rmqtool.machine.probe.probe",
    "rmqtool.queues.lone_kernels.list_queues",
    "rmqtool.scan.kernels_walk.zero_run",
    "rmqtool.tables.text_kernels.gather",
    "rmqtool.tables.text_kernels.match_text",
    "rmqtool.tables.text_kernels.write_hex",
}
FIELD = re.compile(r'"(\w+)"\s+/ ')
MODULES = sorted({Path(kernel.function.__code__.co_filename) for kernel in KERNELS.values()})


@pytest.fixture(autouse=True)
def _forgetful() -> Iterator[None]:
    """Let each test ask anew: nobody but these tests changes values or sources at run time."""
    forget()
    yield
    forget()


def forget() -> None:
    """Forget what was asked of values and sources."""
    known = (stamp.frozen, stamp.sources)
    hidden = (stamp._whole, stamp._contents, stamp._content, stamp._read, stamp._imported)  # noqa: SLF001
    for one in (*known, *hidden):
        one.cache_clear()


def stamp_of(kernel: Kernel) -> bytes:
    """Give the stamp of a kernel as it is now."""
    stamp.frozen.cache_clear()
    return stamp.stamp(kernel.function, kernel.signature)


def changed(value: object) -> object:
    """Give another value of the same kind; None for what is no constant."""
    if isinstance(value, int):
        return value + 1
    if isinstance(value, tuple):
        return next(
            ((*value[:at], other, *value[at + 1 :]) for at, one in enumerate(value)
             if (other := changed(one)) is not None), None
        )  # fmt: skip
    if isinstance(value, np.ndarray):
        other = value.copy()
        other.flat[-1] += 1
        return other
    return None


@pytest.mark.parametrize("name", KERNELS)
def test_constants(name: str) -> None:
    """Each constant that a kernel uses, in whichever of its functions, changes the stamp."""
    kernel = KERNELS[name]
    before, count = stamp_of(kernel), 0
    for constant in [used for function in functions(kernel) for used in constants(function)]:
        if (other := changed(constant.value)) is None:
            continue
        constant.names[constant.name] = other
        try:
            assert before != stamp_of(kernel), constant.name
        finally:
            constant.names[constant.name] = constant.value
        count += 1
    assert before == stamp_of(kernel)
    assert count or name in WITHOUT


def test_layouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moving any field of any Layout changes the stamp of every kernel."""
    copy = tmp_path / "rmqtool"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(stamp, "PACKAGE", copy)
    before = contents(copy)
    moved: set[str] = set()
    for path in sorted((copy / "formats").glob("*.py")):
        source = path.read_text()
        for field in FIELD.finditer(source):
            one_more = f'"one_more" / Int8sb, {field[0]}'
            path.write_text(source[: field.start()] + one_more + source[field.end() :])
            assert not contents(copy) & before, field[0]
            moved.add(field[1])
        path.write_text(source)
    assert before == contents(copy)
    fields = {field.name for layout in registry.LAYOUTS.values() for field in layout.fields}
    assert set() == fields - moved


def contents(package: Path) -> set[bytes]:
    """Give the digests of the sources of each kernel as they are now in a copy of the package."""
    forget()
    copies = (package / module.relative_to(PACKAGE) for module in MODULES)
    return {stamp._contents(copy) for copy in copies}  # noqa: SLF001 - a copy is not imported


def test_sources() -> None:
    """All that a kernel's module imports counts, by whatever way, as another reader sees it."""
    known: dict[str, set[str]] = {}
    for file in imports():
        if file.imported.startswith("rmqtool") and not file.is_lazy:
            known.setdefault(file.importer, set()).add(file.imported)
    for path in MODULES:
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        reached, waiting = {name}, [name]
        while waiting:
            new = known.get(waiting.pop(), set()) - reached
            reached |= new
            waiting += new
        files = {PACKAGE.parent.joinpath(*file.split(".")).with_suffix(".py") for file in reached}
        assert set() == {file for file in files if file.is_file()} - stamp.sources(path)


PROGRAM = """
import sys
from rmqtool.formats.consume_queue_ext import EXT_UNIT
EXT_UNIT.positions["tags_code"] = int(sys.argv[1])
from rmqtool.ledger.kernels_extension import walk
print(walk.key.stamp.hex())
"""


def test_layout_in_memory() -> None:
    """A position that differs in this process alone counts, too: it is what numba would freeze."""
    stamps = [
        subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", PROGRAM, position], capture_output=True, text=True, check=True
        ).stdout
        for position in ("2", "10", "2")
    ]
    assert stamps[0] != stamps[1]
    assert stamps[0] == stamps[2]


def test_unknown_value() -> None:
    """What may be another value in the next process is refused, not guessed."""
    unknown = object()

    def kernel() -> object:
        return unknown

    with pytest.raises(TypeError, match="unknown is <object"):
        stamp.stamp(kernel, "void()")


CORE = "numba/core.py,sha256=AA,9"
RECORDS = {
    "by pip": [CORE, "numba/__pycache__/core.cpython-311.pyc,,", "../../../bin/numba,sha256=BB,1"],
    "by uv": ["../../../bin/numba,sha256=CC,1", CORE, "numba-1.dist-info/INSTALLER,sha256=DD,2"],
    "another": ["numba/core.py,sha256=EE,9"],
}


def test_installers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts of a compiler is what it is, and not who installed it."""
    digests = set()
    for name, lines in RECORDS.items():
        place = tmp_path / name
        (place / "numba").mkdir(parents=True)
        (place / "numba-1.dist-info").mkdir()
        (place / "numba" / "__init__.py").touch()
        (place / "numba-1.dist-info" / "RECORD").write_text("\n".join(lines))
        monkeypatch.setattr(
            "importlib.util.find_spec",
            lambda _, place=place: SimpleNamespace(origin=str(place / "numba" / "__init__.py")),
        )
        digests.add(stamp._installed("numba"))  # noqa: SLF001 - asked of this process' own, else
    assert 2 == len(digests)
