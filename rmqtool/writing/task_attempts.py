"""Parts of an output tree that other processes write: as often as it takes, and one of them counts.

A cluster tries a task again when its machine is lost, or only slow, so two of them may write the
same files. Each writes into a directory of its own inside of the staged tree; the one that is
reported as done is adopted, the others are removed. Nothing of it is seen before the tree is.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from rmqtool.errors import WriteFailed
from rmqtool.writing.directory import Directory
from rmqtool.writing.output_tree import OutputTree
from rmqtool.writing.staging import DiskSync, write_errors

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX: Final = ".attempt-"


def attempt(top: str) -> OutputTree:
    """Begin a tree inside of a staged one, maybe on another machine; close its `top` in the end.

    Args:
        top: of the staged tree, on a file system that all machines share.

    Raises:
        WriteFailed: the system refused, or the staged tree cannot be seen from here.
    """
    try:
        staged = Directory.at(top)
    except (FileNotFoundError, NotADirectoryError) as error:
        reason = "cannot be seen from this executor: all of them must share the output's disk"
        raise WriteFailed(path=top, reason=reason) from error
    except OSError as error:
        raise WriteFailed.of(top, error) from error
    with staged, write_errors(top):
        return OutputTree(staged.own(f"{PREFIX}{uuid.uuid4().hex}"), DiskSync())


def adopt(tree: OutputTree, name: str, directories: Iterable[str]) -> None:
    """Take what an attempt has written, complete and on the disk, into the tree.

    Args:
        tree: the staged tree.
        name: of the attempt's directory in it.
        directories: relative paths that hold all files of the attempt; no other attempt that is
            adopted has them.

    Raises:
        WriteFailed: the system refused.
    """
    for path in directories:
        tree.adopt(f"{name}/{path}", path)


def clear(tree: OutputTree) -> None:
    """Remove all attempts that are left. Raises WriteFailed: the system refused."""
    with write_errors(tree):
        for name in tree.top.names():
            if name.startswith(PREFIX):
                tree.top.remove(name)
