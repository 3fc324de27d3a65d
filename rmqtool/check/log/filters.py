"""Judge the Bloom filters of SQL92 subscriptions in `consumerFilter.json`: BF-*.

Source: ConsumerFilterManager#decode, BloomFilter#calcBitPositions, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.broker.conf import BLOOM_CONSUMERS, BLOOM_ERROR_RATE
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_state import BF_PARAM, BF_POS
from rmqtool.formats import config_shapes
from rmqtool.formats.bloom import BloomFilter, filter_name
from rmqtool.formats.config_names import FILTERS_JSON

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding

WHOLE: Final = 100  # per cent: no broker starts with such a rate


def check(inspection: Inspection) -> Iterator[Finding]:
    """Compare each filter's size with the configured one, and its bits with its name."""
    filters = inspection.document_with_path(FILTERS_JSON)
    if filters is None:
        return
    document, path = filters
    bloom = configured_filter(inspection)
    for entry in config_shapes.consumer_filters(document):
        name = filter_name(entry.group, entry.topic)
        size = (entry.bit_count, len(entry.bit_positions))
        wanted = (bloom.bit_count, bloom.hash_count)
        if size != wanted:
            yield finding(
                BF_PARAM,
                At(path, topic=entry.topic),
                f"the filter of {name} has another size, so the broker ignores the whole file",
                expected="{} bits, {} set".format(*wanted),
                actual="{} bits, {} set".format(*size),
            )
        elif entry.bit_positions != bloom.bit_positions(name):
            yield finding(
                BF_POS,
                At(path, topic=entry.topic),
                f"the bits of {name} are not the ones of this name",
                expected=", ".join(map(str, bloom.bit_positions(name))),
                actual=", ".join(map(str, entry.bit_positions)),
                severity=None if inspection.family("ext_queues") else Severity.NOTE,
            )


def configured_filter(inspection: Inspection) -> BloomFilter:
    """Give the Bloom filter that the broker is configured for, or its default."""
    broker_conf = inspection.store.broker_conf
    rate, count = BLOOM_ERROR_RATE.of(broker_conf), BLOOM_CONSUMERS.of(broker_conf)
    return BloomFilter(rate, count) if 0 < rate < WHOLE and count > 0 else BloomFilter()
