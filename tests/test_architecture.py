"""ARCHITECTURE.md names every room of the house, and nothing that is not there."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "rmqtool"
PAGE: Final = ROOT / "ARCHITECTURE.md"
NAMED: Final = re.compile(r"`([\w/]+(?:/|\.py))(?:: \w+)?`")
# What makes numbers of bytes outside of `formats`, and why it may.
NO_FORMAT: Final = {
    "rmqtool.archives.tarred",  # headers of tar
    "rmqtool.archives.zipped",  # headers of zip
    "rmqtool.judge.message_fields",  # counts bits in which two addresses differ
    "rmqtool.check.log.range_checksum",  # the checksum has another length in its place
    "rmqtool.store.rocksdb_blocks",  # RocksDB's own blocks, little endian
    "rmqtool.writing.task_results",  # our own file
}
CLASS: Final = re.compile(r"^ *class (\w+)[(:\[]", re.MULTILINE)
NUMBERS: Final = re.compile(r"\.(from|to)_bytes\b")
LONGEST: Final = 600  # lines of a module
SHORTEST: Final = 40
# What is shorter, and why it is a module; each format and each command is one in any case.
SHORT: Final = {
    "findings/registry.py": "the only place that knows all registries",
    "judge/bridge.py": "records of a repair, for who judges nothing else",
    "machine/intrinsics.py": "loaded by every kernel; what makes the code only by the compiler",
    "machine/pieces.py": "compiler, stamp and kernels know pieces without knowing each other",
    "sql/dialect.py": "for the manual, too, which does not load duckdb",
    "plural.py": "numbers of things in words, for every room",
}


def test_rooms_are_named() -> None:
    """Each folder of the package stands in the page, a folder of a room in the room's row."""
    text = PAGE.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]  # the house comes first
    for room in sorted(path.parent for path in PACKAGE.glob("*/__init__.py")):
        row = next((row for row in rows if f"`{room.name}/`" in row), "")
        assert row, f"{room.name}/ is in no row of the table"
        for inner in sorted(path.parent for path in room.glob("*/__init__.py")):
            assert f"`{inner.name}/`" in row, f"{room.name}/{inner.name}/ is not in its row"


def test_names_exist() -> None:
    """Each folder and file that the page names is there."""
    folders = [path for path in (ROOT, PACKAGE, *PACKAGE.glob("*/")) if path.is_dir()]
    missing = {
        name
        for name in NAMED.findall(PAGE.read_text(encoding="utf-8"))
        if not any((folder / name).exists() for folder in folders)
    }
    assert set() == missing


def test_walks_exist() -> None:
    """Each file that a walk opens is there; `…` and capitals stand for any."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:rmqtool|tests)/[\w/*.…]+)`", text)
    patterns = {re.sub("…|[A-Z]{2,}", "*", pattern) for pattern in named}
    assert patterns
    assert set() == {pattern for pattern in patterns if not [*ROOT.glob(pattern.rstrip("/"))]}


def test_class_names_are_single() -> None:
    """No two classes have one name: a name that is searched for leads to one place."""
    places = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for found in CLASS.findall(path.read_text(encoding="utf-8")):
            places[found].append(path)
    assert "Layout" in places
    assert {} == {name: paths for name, paths in places.items() if len(paths) > 1}


def test_bytes_are_taken_apart_in_formats() -> None:
    """Numbers of RocketMQ's files are made from bytes, and bytes from them, in `formats` only."""
    found = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if NUMBERS.search(path.read_text(encoding="utf-8"))
    }
    assert NO_FORMAT == {name for name in found if not name.startswith("rmqtool.formats.")}


def test_modules_have_a_size() -> None:
    """No module is longer than a person reads in one go, none so short that it is no room."""
    lengths = {
        str(path.relative_to(PACKAGE)): len(path.read_bytes().splitlines())
        for path in PACKAGE.rglob("*.py")
        if path.name not in {"__init__.py", "__main__.py"}
    }
    assert {} == {name: length for name, length in lengths.items() if length > LONGEST}
    short = {name for name, length in lengths.items() if length < SHORTEST}
    alone = {name for name in short if not name.startswith(("formats/", "cli/commands/"))}
    assert set(SHORT) == alone


def test_options_are_declared_once() -> None:
    """A command makes the options of the library by `options_of`; it copies no field of its own."""
    copied = [
        f"{path.name}: {keyword.arg}"
        for path in (PACKAGE / "cli").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("Options")
        for keyword in call.keywords
        if isinstance(keyword.value, ast.Attribute) and keyword.value.attr == keyword.arg
    ]
    # The source of an export has most of what it is asked in another form.
    assert ["export.py: fillers", "export.py: table", "sql.py: broker_conf"] == sorted(copied)
