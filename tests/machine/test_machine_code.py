"""Kernels are linked from what an earlier process compiled, and take only what they declare."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pytest
from numba.core.errors import NumbaError

from rmqtool.machine import compiled

UInt8s = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]


@compiled.kernel(
    "UniTuple(int64, 3)(UniTuple(int64, 2), Tuple((uint8[::1], int64[:, ::1], int64)))"
)
def reach(pair: tuple[int, int], mixed: tuple[UInt8s, Int64s, int]) -> tuple[int, int, int]:
    """Touch every argument, however deep it lies."""
    window, table, number = mixed
    table[1, 2] = pair[0] - pair[1]
    return window[3] + window.size, table[0, 1] + table.shape[1], -number


@compiled.kernel("void(int64[::1], int64)")
def fill(cells: Int64s, number: int) -> None:
    """Write a number into every cell, slowly enough for threads to meet."""
    for at in range(cells.size):
        cells[at] = number


@compiled.kernel("int64(int64)")
def allocating(count: int) -> int:
    """Do what kernels must not."""
    return int(np.ones(count).sum())


@compiled.kernel("int64(int64)")
def factorial(number: int) -> int:
    """Call what only numba brings along."""
    return int(math.gamma(number + 1))


def table() -> Int64s:
    """Give an array of two dimensions."""
    return np.arange(8, dtype=np.int64).reshape(2, 4)


def test_arguments() -> None:
    """Numbers, arrays and tuples of both arrive, and what is written stays written."""
    cells, window = table(), np.arange(10, 30, dtype=np.uint8)
    assert (13 + 20, 1 + 4, 7) == reach((5, 1 << 40), (window, cells, -7))
    assert 5 - (1 << 40) == cells[1, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros(8, np.int32),
        np.zeros(8, ">i8"),
        np.zeros((2, 4), np.int64),
        np.zeros(16, np.int64)[::2],
        np.frombuffer(bytes(64), np.int64),
    ],
    ids=["narrow", "big-endian", "two dimensions", "stretched", "read-only"],
)
def test_other_arrays(wrong: Int64s) -> None:
    """An array that a kernel would misread, or must not write, is refused."""
    with pytest.raises(TypeError, match="array of int64 wanted"):
        fill(wrong, 1)


def test_counts() -> None:
    """Arguments and items of tuples are counted."""
    window = np.zeros(8, np.uint8)
    with pytest.raises(TypeError, match="wanted are 2, not 3"):
        reach((1, 2, 3), (window, table(), 1))  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ValueError, match="zip"):
        fill(np.zeros(1, np.int64))  # type: ignore[call-arg]  # that is the point


def test_array_in_place_of_another() -> None:
    """A new array at the place of one that is gone is not taken for it."""
    for size in range(1, 200):
        cells = np.zeros(size, np.int64)
        fill(cells, size)
        assert size * size == cells.sum()
        del cells


def test_threads() -> None:
    """Threads that want a kernel at the same time each get their own results."""

    def work(number: int) -> bool:
        cells = np.zeros(1 << 16, np.int64)
        fill(cells, number)
        return bool((cells == number).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(40)))


def test_allocation_is_refused() -> None:
    """A kernel that allocates memory is refused: nobody would free it."""
    with pytest.raises(NumbaError, match="No implementation of function"):
        allocating(3)


def test_run_time_library_is_refused() -> None:
    """A kernel that needs numba's run-time library is refused, before LLVM ends the process."""
    with pytest.raises(TypeError, match="needs numba_gamma, which no process has"):
        factorial(3)
