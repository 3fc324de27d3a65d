"""Evidence is safe: nothing outside of the rooms that write can change a disk.

Each call of the system that changes something counts, not only the convenient ones.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.imports import modules
from tests.test_layers import layer

CHANGING_OS = {
    "chmod", "chown", "copy_file_range", "fchmod", "fchown", "ftruncate", "lchown", "link",
    "makedirs", "mkdir", "mkfifo", "mknod", "posix_fallocate", "pwrite", "pwritev", "remove",
    "removedirs", "rename", "renames", "replace", "rmdir", "sendfile", "setxattr", "symlink",
    "truncate", "unlink", "utime", "write", "writev",
}  # fmt: skip
CHANGING_METHODS = {
    "chmod", "hardlink_to", "lchmod", "mkdir", "rename", "rmdir", "symlink_to", "tofile", "touch",
    "unlink", "write_bytes", "write_text",
}  # fmt: skip
OPENING = {"O_APPEND", "O_CREAT", "O_RDWR", "O_TMPFILE", "O_TRUNC", "O_WRONLY"}
WRITERS = {"writing", "many_files"}  # the latter by machine code, in trees of the former
MODULES = {"shutil", "tempfile"}
CONNECTING = re.compile(
    r"(asyncio|ftplib|http|smtplib|socketserver|ssl|urllib\.request|urllib3|xmlrpc)\b|socket\.\*"
)
PURE_OF_SOCKET = {"AF_INET", "AF_INET6", "inet_ntop", "inet_pton"}
READING_OF_SHUTIL = {"get_terminal_size", "which", "disk_usage"}


def test_only_writers_write() -> None:
    """No other module calls, or names, what changes files."""
    found = {name: [*changing(tree)] for name, tree in modules() if layer(name) not in WRITERS}
    assert {} == {name: calls for name, calls in found.items() if calls}


def test_only_sending_connects() -> None:
    """No other room opens a connection: Spark, and stores in buckets, by their libraries alone."""
    found = {name: [*connecting(tree)] for name, tree in modules()}
    assert {"sending"} == {layer(name) for name, places in found.items() if places}


def connecting(tree: ast.Module) -> Iterator[str]:
    """Yield line and text of whatever opens a connection, as far as can be read."""
    for node in ast.walk(tree):
        names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "socket":
            names = [] if node.attr in PURE_OF_SOCKET else ["socket.*"]
        yield from (f"{node.lineno} {name}" for name in names if CONNECTING.match(name))  # type: ignore[attr-defined]


def changing(tree: ast.Module) -> Iterator[str]:
    """Yield line and text of whatever changes, or may be about to change, a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and is_changing_call(node):
            yield f"{node.lineno} {ast.unparse(node.func)}"
        if isinstance(node, ast.Attribute) and node.attr in OPENING:
            yield f"{node.lineno} {ast.unparse(node)}"


def is_changing_call(call: ast.Call) -> bool:
    """Say whether a call changes files, as far as can be read."""
    if isinstance(call.func, ast.Name):
        return call.func.id == "open" and opens_for_writing(call, 1)
    if not isinstance(call.func, ast.Attribute):
        return False
    name, of = call.func.attr, ast.unparse(call.func.value)
    if of == "os":
        return name in CHANGING_OS
    if of in MODULES:
        return name not in READING_OF_SHUTIL
    return name in CHANGING_METHODS or is_changing_method(call, name, of)


def is_changing_method(call: ast.Call, name: str, of: str) -> bool:
    """Say whether a call of a common name is one that changes files."""
    if name == "open":
        return opens_for_writing(call, 1 if of in {"io", "gzip", "tarfile"} else 0)
    # A path is replaced by one argument, a text has two, a dataclass names.
    return name == "replace" and len(call.args) == 1 and not call.keywords


def opens_for_writing(call: ast.Call, at: int) -> bool:
    """Say whether the mode, an argument at a place or by name, is not one for reading."""
    modes = [*call.args[at : at + 1], *(k.value for k in call.keywords if k.arg == "mode")]
    return any(
        not isinstance(mode, ast.Constant) or bool(set(str(mode.value)) & set("wxa+"))
        for mode in modes
    )


@pytest.mark.parametrize(
    "text",
    [
        "open(x, 'w')", "open(x, mode='r+b')", "path.open('ab')", "open(x, mode)",
        "os.rename(a, b)", "os.open(x, os.O_RDWR)", "shutil.rmtree(x)", "path.unlink()",
        "path.replace(other)",
        "tempfile.mkdtemp()", "numpy.tofile(x)", "here().write_text('x')", "os.write(1, b'')",
    ],
)  # fmt: skip
def test_sees_writing(text: str) -> None:
    """Each of these is seen, or the test above would prove nothing."""
    assert [] != list(changing(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "open(x)", "open(x, 'rb')", "path.open()", "segment.open()", "text.replace('a', 'b')",
        "os.open(x, os.O_RDONLY)", "replace(entry, name=x)", "file.write(x)", "sys.stdout.write(x)",
    ],
)  # fmt: skip
def test_lets_read(text: str) -> None:
    """Reading, and writing to a stream that somebody opened, is nothing of that."""
    assert [] == list(changing(ast.parse(text)))
