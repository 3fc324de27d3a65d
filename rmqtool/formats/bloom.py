"""The Bloom filter that stands for SQL92 subscriptions in ext units.

Source: BloomFilter, BitsArray, ConsumerFilterManager, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from mmh3 import hash64

from rmqtool.formats.java import to_int32

_BITS: Final = 8


class BloomFilter(NamedTuple):
    """A filter's size, and the bits of a text in it."""

    error_rate_percent: int = 20  # `maxErrorRateOfBloomFilter`
    expected_count: int = 32  # `expectConsumerNumUseFilter`

    @property
    def hash_count(self) -> int:
        """How many bits a text sets (`k`)."""
        return math.ceil(math.log(self.error_rate_percent / 100) / math.log(0.5))

    @property
    def bit_count(self) -> int:
        """How many bits the filter has (`m`), a multiple of 8."""
        rate = math.log(100 / self.error_rate_percent) / math.log(2)
        bits = math.ceil(self.expected_count * rate * (math.log(math.e) / math.log(2)))
        return -(-bits // _BITS) * _BITS

    def bit_positions(self, text: str) -> tuple[int, ...]:
        """Give the bits that a text sets; one may be there twice.

        Source: BloomFilter#calcBitPositions, 4.9.3 to 5.5.0.
        """
        value = hash64(text.encode("utf-8", "replace"), signed=True)[0]
        low, high = to_int32(value), to_int32(value >> 32)
        positions = []
        for turn in range(1, self.hash_count + 1):
            combined = to_int32(low + turn * high)
            positions.append((~combined if combined < 0 else combined) % self.bit_count)
        return tuple(positions)

    def bit_map(self, *texts: str) -> bytes:
        """Give the bitmap in which the bits of all these texts are set, lowest bit first."""
        bits = bytearray(self.bit_count // _BITS)
        for text in texts:
            for position in self.bit_positions(text):
                bits[position // _BITS] |= 1 << position % _BITS
        return bytes(bits)


def filter_name(consumer_group: str, topic: str) -> str:
    """Give the text that is hashed for a subscription: the group comes first."""
    return f"{consumer_group}#{topic}"


def is_hit(bit_map: bytes, positions: tuple[int, ...]) -> bool:
    """Tell whether all these bits are set; a bit past the end is not."""
    return all(
        position // _BITS < len(bit_map) and bit_map[position // _BITS] >> position % _BITS & 1
        for position in positions
    )
