"""Whose a new file or directory is: of whoever owns what it stands for, and never open to more.

A broker is seldom root; one who repairs its store often is.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.writing.staging import write_errors

if TYPE_CHECKING:
    from rmqtool.writing.directory import Directory, Spot

_PERMISSIONS: Final = 0o777  # not the bits that let a program run as its owner
_TO_FILES: Final = 0o666


class Ownership(NamedTuple):
    """The owner and the modes that new entries get."""

    uid: int  # of the user
    gid: int  # of the group
    directory_mode: int  # of directories
    file_mode: int  # of files

    def take_file(self, handle: int) -> None:
        """Give a new file that is open to the owner."""
        if os.geteuid() == 0:
            os.fchown(handle, self.uid, self.gid)
        os.fchmod(handle, self.file_mode)

    def take_directory(self, top: Directory, path: str) -> None:
        """Give a new directory to the owner.

        Args:
            top: a tree that nobody else can enter.
            path: below it.
        """
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.gid, dir_fd=top.handle, follow_symlinks=False)
        os.chmod(path, self.directory_mode | stat.S_IRWXU, dir_fd=top.handle)


def owner_of(spot: Spot) -> Ownership:
    """Give whose what stands at a spot is, else whose the directory is that would hold it.

    A file gets the mode of the file that it replaces. The files of a tree get what all files of
    the tree before it have in common: who could not read one of them can read none now.
    """
    with write_errors(spot):
        above = os.fstat(spot.directory.handle)
        facts = spot.facts()
        if facts is None:
            files = above.st_mode & _TO_FILES
            return Ownership(above.st_uid, above.st_gid, above.st_mode & _PERMISSIONS, files)
        directories = above.st_mode
        if stat.S_ISREG(facts.st_mode):
            files = facts.st_mode
        elif stat.S_ISDIR(facts.st_mode):
            directories, files = facts.st_mode, facts.st_mode & _TO_FILES
            with spot.directory.enter(spot.name) as tree:
                files &= _common_mode(tree)
        else:
            files = above.st_mode & _TO_FILES
    return Ownership(facts.st_uid, facts.st_gid, directories & _PERMISSIONS, files & _PERMISSIONS)


def _common_mode(tree: Directory) -> int:
    """Give the permissions that all files of a tree have."""
    found = _PERMISSIONS
    for name, facts in tree.entries():
        if stat.S_ISREG(facts.st_mode):
            found &= facts.st_mode
        elif stat.S_ISDIR(facts.st_mode):
            with tree.enter(name) as below:
                found &= _common_mode(below)
    return found | stat.S_IRUSR | stat.S_IWUSR
