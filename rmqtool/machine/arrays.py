"""Names for the arrays and tuples that kernels take, and what is done with numbers in order.

Items are `Any`: in a kernel they are machine integers, which a type checker cannot follow.
All arrays are in C order, native and writable; numba compiles again for any other kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt  # takes a millisecond to load

_LARGEST_BITS: Final = 63  # of an int64 that is not below 0
_LONG_RUN: Final = 1 << 10  # numbers
_SMALL_TABLE: Final = 1 << 16  # rows

UInt8s: TypeAlias = "npt.NDArray[Any]"
UInt32s: TypeAlias = "npt.NDArray[Any]"
Int64s: TypeAlias = "npt.NDArray[Any]"

Checksum: TypeAlias = "tuple[int, UInt32s]"  # what `crc.checksum()` gives
Topics: TypeAlias = "tuple[Int64s, Int64s, UInt8s, Int64s]"  # what `TopicTable.state` gives


def distinct(numbers: Int64s) -> Int64s:
    """Sort numbers and leave out those that are there twice.

    np.unique of numpy 2.3 and 2.4 hashes them: of 4.6 million, that takes 40 times as long.

    Args:
        numbers: int64, shape (n,).

    Returns:
        int64, shape (at most n,).
    """
    ordered = np.sort(numbers)
    is_new = np.ones(ordered.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]


def order_of(numbers: Int64s) -> Int64s:
    """Give the places of numbers in ascending order, equal ones as they stand.

    Args:
        numbers: int64, shape (n,).

    Returns:
        int64, shape (n,).
    """
    return in_order(numbers)[1]


def in_order(numbers: Int64s) -> tuple[Int64s, Int64s]:
    """Give numbers in ascending order, and where each stood, equal ones as they stood.

    A stable np.argsort of many takes six times as long as a sort of numbers that end in their
    places, which is done wherever both fit. A stable sort of these merges the runs that they come
    in; of few long ones that takes half the time.

    Args:
        numbers: int64, shape (n,).

    Returns:
        Twice int64, shape (n,).
    """
    if not numbers.size:
        return numbers, np.zeros(0, np.int64)
    lowest, bits = int(numbers.min()), int(numbers.size - 1).bit_length()
    if (int(numbers.max()) - lowest).bit_length() + bits > _LARGEST_BITS:
        places = np.argsort(numbers, kind="stable")
        return numbers[places], places
    places = (numbers - lowest) << bits
    places |= np.arange(numbers.size)
    runs = np.count_nonzero(numbers[1:] < numbers[:-1])
    places.sort(kind="stable" if runs * _LONG_RUN < numbers.size else "quicksort")
    ordered = places >> bits
    ordered += lowest
    places &= (1 << bits) - 1
    return ordered, places


def numbered(numbers: Int64s) -> tuple[Int64s, Int64s]:
    """Give the distinct ones among numbers, in order, and which of these each is.

    Args:
        numbers: int64, shape (n,), n at least 1.

    Returns:
        int64, shape (at most n,), and int64, shape (n,).
    """
    lowest = int(numbers.min())
    span = int(numbers.max()) - lowest + 1
    if span > numbers.size + _SMALL_TABLE:
        ordered = distinct(numbers)
        return ordered, np.searchsorted(ordered, numbers)
    places = np.zeros(span, np.int64)
    places[numbers - lowest] = 1
    ordered = np.flatnonzero(places)
    places[ordered] = np.arange(ordered.size)
    return ordered + lowest, places[numbers - lowest]


def is_in(wanted: Int64s, there: Int64s) -> npt.NDArray[np.bool_]:
    """Tell which numbers are among sorted ones.

    np.isin loads numpy.ma, which takes 5 ms, and, of many numbers, does what np.unique does.

    Args:
        wanted: int64, shape (n,).
        there: int64, shape (m,), sorted.

    Returns:
        bool, shape (n,).
    """
    if not there.size:
        return np.zeros(wanted.shape, np.bool_)
    places = np.minimum(np.searchsorted(there, wanted), there.size - 1)
    is_member: npt.NDArray[np.bool_] = there[places] == wanted
    return is_member


def stretches(marked: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Give begin and end of each stretch that is marked, in order.

    Args:
        marked: bool, shape (n,).
    """
    edges = np.zeros(len(marked) + 2, np.int8)
    edges[1:-1] = marked
    places = np.flatnonzero(np.diff(edges)).tolist()
    return [*zip(places[::2], places[1::2], strict=True)]


def are_within(offsets: Int64s, starts: Int64s, ends: Int64s) -> npt.NDArray[np.bool_]:
    """Tell which offsets lie in stretches that do not overlap.

    Args:
        offsets: int64, shape (n,).
        starts: int64, shape (m,), sorted.
        ends: int64, shape (m,), after the last byte of each.

    Returns:
        bool, shape (n,).
    """
    if not starts.size:
        return np.zeros(offsets.shape, np.bool_)
    places = np.searchsorted(starts, offsets, side="right") - 1
    within: npt.NDArray[np.bool_] = (places >= 0) & (offsets < ends[np.maximum(places, 0)])
    return within
