"""Results of tasks as files, where tasks and driver are on one machine.

Through Spark a result is copied seven times and passes two sockets and the heap of Java, which
takes longer than to find it. A file is written once and mapped once, from the page cache; Spark
only hears that it is there. Arrays lie in it as they are in memory: they are neither packed nor
taken apart. Where a file cannot be written, the result goes through Spark as on a cluster.
"""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from dataclasses import dataclass
from mmap import ACCESS_COPY, mmap
from typing import Any, Final

LENGTH_BYTES: Final = 8
ALIGNMENT: Final = 16  # of arrays in memory, so in files, too
NOTHING: Final = object()  # None is a result like any other


@dataclass(frozen=True, slots=True)
class Spool:
    """Results of one wave. Picklable."""

    stem: str  # what the paths of all its files begin with

    def put(self, task: int, place: int, result: object) -> bool:
        """Write a result; who reads sees all of it or nothing. Tell whether it could be written.

        Args:
            task: number in the wave.
            place: of the part in the task.
            result: what to write; a task that is tried again writes the same.
        """
        path = self._path(task, place)
        staged = f"{path}-{os.getpid()}"
        arrays: list[pickle.PickleBuffer] = []
        packed = pickle.dumps(result, pickle.HIGHEST_PROTOCOL, buffer_callback=arrays.append)
        pieces = [memoryview(array.raw()) for array in arrays]
        head = pickle.dumps((packed, [len(piece) for piece in pieces]), pickle.HIGHEST_PROTOCOL)
        try:
            with open(staged, "wb") as file:  # noqa: PTH123 - a str
                file.write(len(head).to_bytes(LENGTH_BYTES, "big"))
                file.write(bytes(-file.tell() % ALIGNMENT))
                file.write(head)
                for piece in pieces:
                    file.write(bytes(-file.tell() % ALIGNMENT))
                    file.write(piece)
            os.replace(staged, path)  # noqa: PTH105 - the same
        except OSError:
            with suppress(OSError):
                os.unlink(staged)  # noqa: PTH108 - the same
            return False
        return True

    def take(self, task: int, place: int) -> tuple[Any, int]:
        """Give a result and the bytes that it took, and drop its file; NOTHING as long as it lacks.

        Args:
            task: number in the wave.
            place: of the part in the task.
        """
        path = self._path(task, place)
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - the same
                raw = mmap(file.fileno(), 0, access=ACCESS_COPY)
            os.unlink(path)  # noqa: PTH108 - the same
        except FileNotFoundError:
            return NOTHING, 0
        return _unpacked(memoryview(raw)), len(raw)

    def _path(self, task: int, place: int) -> str:
        return f"{self.stem}-{task}-{place}"


def _unpacked(raw: memoryview) -> Any:  # noqa: ANN401 - whatever was put
    """Give a result whose arrays lie in the file, which is gone from its directory by now."""
    cursor = ALIGNMENT
    length = int.from_bytes(raw[:LENGTH_BYTES], "big")
    packed, lengths = pickle.loads(raw[cursor : cursor + length])  # noqa: S301 - our own task's
    cursor += length
    arrays: list[memoryview] = []
    for count in lengths:
        cursor += -cursor % ALIGNMENT
        arrays.append(raw[cursor : cursor + count])
        cursor += count
    return pickle.loads(packed, buffers=arrays)  # noqa: S301 - the same
