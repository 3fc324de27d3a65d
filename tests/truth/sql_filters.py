"""The bitmap of a record, for the SQL92 expressions that the fixtures use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.bloom import BloomFilter, filter_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rmqtool.formats.config_shapes import ConsumerFilter
    from tests.truth.plain_reader import Record

EXPRESSIONS: Final[dict[str, Callable[[Mapping[str, str]], bool]]] = {
    "amount IS NOT NULL AND amount > 700": lambda values: int(values.get("amount", "0")) > 700,
    "region = 'r1' OR region = 'r3'": lambda values: values.get("region") in {"r1", "r3"},
    "TAGS IN ('TagA', 'TagB')": lambda values: values.get("TAGS") in {"TagA", "TagB"},
}


def bit_map(record: Record, filters: list[ConsumerFilter]) -> bytes:
    """Give the bits of all filters that were known when the record came and match it.

    A filter whose consumers are gone still sets its bits: brokers drop it days later.
    Source: CommitLogDispatcherCalcBitMap#dispatch; observed, fixtures/rocketmq-*-ext.
    """
    there = [
        filter_
        for filter_ in filters
        if filter_.topic == record.topic and (filter_.born_time or 0) < record.store_timestamp
    ]
    if not there:
        return b""
    bloom_filter = BloomFilter()
    names = [
        filter_name(filter_.group, filter_.topic)
        for filter_ in there
        if EXPRESSIONS[filter_.expression or ""](record.properties)
    ]
    return bloom_filter.bit_map(*names)
