"""Where carved records go: one new file, or a new directory with a file for each store."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from rmqtool.carve.options import CarveFormat
from rmqtool.carve.rows import CARVED_RECORDS, record_rows
from rmqtool.writing.output import OutputDirectory, OutputFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Buffer

    from rmqtool.carve.options import CarveOptions
    from rmqtool.carve.reading import FoundRecords


class CarvedOutput:
    """Takes records store by store; a context manager. All appears when the block ends, or nothing.

    Args:
        options: what was asked.
    """

    def __init__(self, options: CarveOptions) -> None:
        self._options = options
        self._format = options.wanted_format
        self._columns = options.columns or CARVED_RECORDS.names
        self._keep = ExitStack()
        self._file_of_store = ExitStack()
        self._store = ""
        self._put: Callable[[Buffer], object] = lambda _: None

    def __enter__(self) -> Self:
        """Stage what is written.

        Raises:
            OutputExists: it is there.
            WriteFailed: the system refused.
        """
        path = self._options.output
        if self._options.by_store:
            self._tree = self._keep.enter_context(OutputDirectory(path))
        else:
            self._put = self._keep.enter_context(OutputFile(path)).binary.write
        return self

    def __exit__(self, *exception: object) -> bool | None:
        self._file_of_store.close()
        return self._keep.__exit__(*exception)  # type: ignore[arg-type]

    def begin(self, store: str) -> str:
        """Take note that the records of a store follow; give the file that they go to."""
        self._store = store
        if not self._options.by_store:
            return self._options.output
        self._file_of_store.close()
        name = f"{_file_name(store)}.{self._format}"
        file = self._tree.file(name, size=0)
        handle = self._file_of_store.enter_context(file.writing())
        self._put = lambda data: file.append(handle, data)
        return f"{self._options.output.rstrip('/')}/{name}"

    def write(self, some: FoundRecords) -> None:
        """Write records.

        Raises:
            WriteFailed: the system refused.
            UnreadablePath: the image changed.
        """
        for data in self._bytes(some):
            self._put(data)

    def _bytes(self, some: FoundRecords) -> Iterator[Buffer]:
        if self._format is CarveFormat.RMQ:
            yield from some.raw()
            return
        from rmqtool.tables.json_lines import json_lines

        yield json_lines(record_rows(some, self._store), self._columns).text


def _file_name(store: str) -> str:
    """Give a name that every file system takes: `10.0.0.1-10911`, `fe80--1-10911`."""
    return re.sub(r"[^0-9A-Za-z.]", "-", re.sub(r"[\[\]]", "", store))
