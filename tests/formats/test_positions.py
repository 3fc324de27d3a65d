"""Where a byte lies is said by the declarations in formats/, and nowhere else.

What can be told from the source is told here: integers taken out of bytes by hand, structures of
the `struct` module, and slices, fields and positions in kernels that are given as numbers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import pytest

from tests.imports import modules

Rule: TypeAlias = Callable[[ast.AST], bool]

# Modules with binary formats that no broker of RocketMQ writes or reads, and other exceptions.
EXCUSED: Final = {
    "rmqtool.archives.tarred": "headers of tar, declared there",
    "rmqtool.archives.zipped": "headers of zip, declared there",
    "rmqtool.judge.message_fields": "addresses, which have their own order of bytes",
    "rmqtool.check.log.range_checksum": "the length that a broker writes into what it sums up",
    "rmqtool.queues.span": "a `struct` made of the field's own position and size",
    "rmqtool.rebuild.comparing": "a digest of pairs, of our own",
    "rmqtool.rebuild.ext": "whole units, packed by their layout",
    "rmqtool.sending.remoting": "frames of the remoting protocol, declared there",
    "rmqtool.store.confinement": "the system's own rules",
    "rmqtool.store.tree": "the system's own lock structure",
    "rmqtool.store.rocksdb_manifest": "RocksDB's own log, declared there",
    "rmqtool.store.rocksdb_frames": "frames between two of our processes",
    "rmqtool.store.rocksdb_blocks": "RocksDB's own blocks, declared there",
    "rmqtool.store.rocksdb_table": "RocksDB's own tables, declared there",
    "rmqtool.store.syscall_filter": "the system's own instructions",
    "rmqtool.writing.task_results": "results on their way to the driver",
}
BY_HAND: Final = {"from_bytes", "to_bytes", "Struct", "pack_into"}
KERNEL: Final = re.compile(r"(load|store)_[iu][1248]")
NUMPY: Final = re.compile(r"[<>]i[1248]")
# Names of things that are bytes of a store, as the code has them.
BYTES: Final = re.compile(
    r"(^|\.|_)(raw|head|window|record|units?|packed|body|middle|prefix|key|value|rest|wanted)$"
)
SIZES: Final = {4, 8, 12, 16, 20, 28, 32, 36, 40, 46, 48, 52}


def name_of(node: ast.AST) -> str:
    """Give the last word of what is called; empty for what is no call."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def is_size(node: ast.AST | None) -> bool:
    """Say whether an expression has a number in it that is the size of some field."""
    return node is not None and any(
        isinstance(one, ast.Constant) and type(one.value) is int and abs(one.value) in SIZES
        for one in ast.walk(node)
    )


def by_hand(node: ast.AST) -> bool:
    """Integers are read and written by a `Field`, a `Layout`, or `big_endian`."""
    return name_of(node) in BY_HAND


def cut(node: ast.AST) -> bool:
    """No bytes are cut at the size or the position of a field that is given as a number."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Slice)
        and bool(BYTES.search(ast.unparse(node.value)))
        and (is_size(node.slice.lower) or is_size(node.slice.upper))
    )


def by_number(node: ast.AST) -> bool:
    """What a layout unpacks is taken by name or all at once, never by the number of a field."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and "unpack" in name_of(node.value)
    )


def in_kernel(node: ast.AST) -> bool:
    """A kernel loads and stores at positions that have names."""
    return (
        isinstance(node, ast.Call)
        and bool(KERNEL.fullmatch(name_of(node)))
        and len(node.args) > 1
        and is_size(node.args[1])
    )


def as_array(node: ast.AST) -> bool:
    """Arrays of bytes become arrays of integers by a layout's dtype or a field's."""
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and bool(NUMPY.fullmatch(text))


RULES: Final[tuple[Rule, ...]] = (by_hand, cut, by_number, in_kernel, as_array)


def offences(rule: Rule) -> Iterator[tuple[str, str]]:
    """Yield module and place of all that a rule refuses, where stores are read or written."""
    for name, tree in modules():
        room = name.split(".")[1] if "." in name else ""
        if room in {"formats", "cli", "render", "report"}:
            continue
        for node in ast.walk(tree):
            if rule(node):
                yield name, f"{name}:{getattr(node, 'lineno', 0)} {ast.unparse(node)}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(rule: Rule) -> None:
    """No byte position of a format stands outside of formats/."""
    assert [] == [place for name, place in offences(rule) if name not in EXCUSED], rule.__doc__


def test_excuses() -> None:
    """A module that is excused needs it."""
    assert {name for rule in RULES for name, _ in offences(rule)} == EXCUSED.keys()


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        (by_hand, "int.from_bytes(wanted[:8], 'big', signed=True)"),
        (by_hand, "value.to_bytes(8, 'big', signed=True)"),
        (cut, "wanted[:8]"),
        (cut, "raw[position + 28 : position + 36]"),
        (by_number, "CQ_UNIT.packer.unpack(raw)[0]"),
        (in_kernel, "store_i8(packed_into, other + 8, value)"),
        (as_array, "raw.view('>i4')"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_lines_that_were_there(rule: Rule, line: str) -> None:
    """Each rule finds what it is for."""
    assert any(map(rule, ast.walk(ast.parse(line))))
