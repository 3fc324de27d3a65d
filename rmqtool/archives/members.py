"""Which names of an archive count: what is refused is said, and makes the archive incomplete."""

from __future__ import annotations

from typing import Final

from rmqtool.budget import OverBudget, ParseBudget
from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.store.archive import Archive, Member
from rmqtool.store.entry import EntryKind, printable

MOST_MEMBERS: Final = 1_000_000  # some 370 MiB of memory and 13 s of CPU
MEMBER_STEPS: Final = 400  # commands open each file, some of them several times
MOST_DEPTH: Final = 64
LONGEST_PATH: Final = 4096  # as Linux has it
TROUBLES_NAMED: Final = 20


class Members:
    """Collects the members of an archive.

    Attributes:
        archive: what is collected into.
        count: members and directories so far.

    Args:
        archive: takes them.
        archive_bytes: of the archive as it is on the disk, compressed or not.
    """

    def __init__(self, archive: Archive, archive_bytes: int) -> None:
        self.archive, self.count = archive, 0
        self._budget = ParseBudget("its members and their headers", archive_bytes)
        self._unnamed = 0

    def spend(self, steps: int) -> None:
        """Pay for what was read of a header, or kept of it.

        Raises:
            UnreadablePath: all of them cost too much.
        """
        try:
            self._budget.spend(steps)
        except OverBudget as error:
            reason = f"{error}: unpack it if you trust it"
            raise UnreadablePath(
                path=self.archive.location, reason=reason, trouble=Trouble.EXPLAINED
            ) from error

    def add(self, name: str, member: Member) -> None:
        """Take a member under its name, as the archive spells it.

        Raises:
            UnreadablePath: there are too many.
        """
        path = self.path_of(name)
        if not path:
            return
        above, _, last = path.rpartition("/")
        directory = self._directory(above)
        if directory is None:
            self.trouble(path, "lies below a file or link of the same archive: left out")
            return
        before = directory.get(last)
        if before is not None:
            if member.kind is EntryKind.DIRECTORY is before.kind:
                directory[last] = member
                return
            self.trouble(path, "comes more than once: the last one is read")
            if before.kind is EntryKind.DIRECTORY:
                self._drop(path)
        else:
            self._grow()
        directory[last] = member
        if member.kind is EntryKind.DIRECTORY:
            self.archive.directories.setdefault(path, {})

    def path_of(self, name: str) -> str:
        """Give the path that a name means inside of the archive; empty for the top, or refused."""
        parts = [part for part in name.split("/") if part not in {"", "."}]
        reason = ""
        if ".." in parts:
            reason = "'..' in its name: left out"
        elif "\0" in name:
            reason = "a NUL in its name: left out"
        elif len(parts) > MOST_DEPTH or len(name) > LONGEST_PATH:
            reason = "its name is too long: left out"
        if reason:
            self.trouble(name[:LONGEST_PATH], reason)
            return ""
        return "/".join(parts)

    def trouble(self, path: str, reason: str) -> None:
        """Note that something of the archive is not read, or not to be relied on."""
        troubles, shown = self.archive.troubles, printable(path)
        if shown in troubles or len(troubles) < TROUBLES_NAMED:
            troubles.setdefault(shown, reason)
            return
        self._unnamed += 1
        troubles["…"] = f"{self._unnamed:,} more members are like these"

    def cut(self, reason: str) -> None:
        """Note that the archive itself is not whole."""
        self.archive.troubles.setdefault("", reason)

    def _directory(self, path: str) -> dict[str, Member] | None:
        """Give a directory, made where the archive only implies it; None below a file."""
        members = self.archive.directories.get(path)
        if members is not None:
            return members
        above, _, last = path.rpartition("/")
        parent = self._directory(above)
        if parent is None or last in parent:
            return None
        self._grow()
        parent[last] = Member(EntryKind.DIRECTORY)
        return self.archive.directories.setdefault(path, {})

    def _drop(self, path: str) -> None:
        """Forget a directory whose name is now another thing's, and those below it."""
        waiting = [path]
        while waiting:
            above = waiting.pop()
            for name, member in self.archive.directories.pop(above, {}).items():
                if member.kind is EntryKind.DIRECTORY:
                    waiting.append(f"{above}/{name}")

    def _grow(self) -> None:
        self.count += 1
        self.spend(MEMBER_STEPS)
        if self.count > MOST_MEMBERS:
            raise UnreadablePath(
                path=self.archive.location,
                reason=f"more than {MOST_MEMBERS:,} members: unpack it if you trust it",
                trouble=Trouble.EXPLAINED,
            )
