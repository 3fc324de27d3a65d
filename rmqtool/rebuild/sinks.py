"""Where rebuilt bytes go: into a staged tree, or nowhere; see comparing.py for a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.many_files.files import put
from rmqtool.rebuild.index_file import stretches
from rmqtool.store.segment import NAME_DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.rebuild.index_file import BuiltEntries, BuiltIndexFile
    from rmqtool.rebuild.pieces import QueueFileBytes
    from rmqtool.rebuild.single_runs import SingleRuns
    from rmqtool.writing.output_tree import OutputTree

INDEX: Final = "index"


class CountingSink:
    """Takes everything and keeps nothing."""

    def put(self, pieces: list[QueueFileBytes]) -> None:
        """Take pieces of a queue file."""

    def put_single(self, queues: SingleRuns) -> None:
        """Take queues whole."""

    def put_entries(self, built: BuiltEntries) -> None:
        """Take entries of an index file."""

    def put_index(self, built: BuiltIndexFile) -> None:
        """Take the rest of an index file."""


class WritingSink:
    """Writes queue and index files into staged trees.

    Args:
        tree: gives the tree for leading parts of a path, the same one each time.
        skipped: how many parts below the family (topic, queue id) choose the tree, too.
    """

    def __init__(self, tree: Callable[..., OutputTree], skipped: int = 0) -> None:
        self._tree_of, self._skipped = tree, skipped
        self._trees: dict[tuple[str, ...], OutputTree] = {}

    def put(self, pieces: list[QueueFileBytes]) -> None:
        """Write pieces of a queue file."""
        first = pieces[0]
        whole = (first.topic, str(first.queue_id), file_name(first.file_start))
        tree = self.tree(first.kind, *whole[: self._skipped])
        parts = whole[self._skipped :]
        data = [(piece.position, piece.data) for piece in pieces]
        file = tree.files.get("/".join(parts))
        if file is None:
            file = tree.file(*parts, size=first.file_length, pieces=data)
        else:
            with file.writing() as handle:
                for position, content in data:
                    file.put(handle, position, content)
        file.mtime_ns = pieces[-1].mtime_ms * 1_000_000

    def put_single(self, queues: SingleRuns) -> None:
        """Write queues whole."""
        if self._skipped or not put(self.tree(queues.runs.kind), queues.files()):
            for pieces in queues.pieces():
                self.put(pieces)

    def put_entries(self, built: BuiltEntries) -> None:
        """Write entries of an index file, while the log is still read."""
        tree = self.tree(INDEX)
        file = tree.files.get(built.name) or tree.file(built.name, size=built.size)
        file.write(built.position, built.data.data)

    def put_index(self, built: BuiltIndexFile) -> None:
        """Write the rest of an index file."""
        tree = self.tree(INDEX)
        file = tree.files.get(built.name) or tree.file(built.name, size=built.size)
        with file.writing() as handle:
            for position, stretch in stretches(built.head):
                file.put(handle, position, stretch)
        if stored := built.header["end_timestamp"]:
            file.mtime_ns = stored * 1_000_000

    def tree(self, *parts: str) -> OutputTree:
        """Give the tree for leading parts of a path, the same one each time."""
        if parts not in self._trees:
            self._trees[parts] = self._tree_of(*parts)
        return self._trees[parts]


def file_name(start: int) -> str:
    """Give the name of a mapped file. Source: UtilAll#offset2FileName."""
    return f"{start:0{NAME_DIGITS}}"
