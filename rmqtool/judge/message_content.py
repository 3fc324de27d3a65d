"""Judge what records hold: compressed bodies and inner batches (level deep), further queues.

Source: UtilAll#uncompress, CompressorFactory, MessageDecoder#decodeMessage,
ConsumeQueue#multiDispatchLmqQueue, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rmqtool.broker.dispatch import light_queue_texts
from rmqtool.errors import BadLength
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_commitlog import CL_BATCH, CL_DECOMP, CL_LMQ
from rmqtool.formats import inner_batch, properties
from rmqtool.formats.compression import decompress
from rmqtool.formats.java import parse_long, string_hash
from rmqtool.formats.properties import REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_OUT_MS
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.scan import columns as row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.findings.finding import Finding
    from rmqtool.scan.batch import Batch

UNKNOWN: Final = -(1 << 63)  # a fact of a timer message that was not looked for
LONGEST_TIME: Final = 18  # digits of a number that fits a long
NUMBERS: Final = re.compile(
    rb"(?:^|\x02)INNER_MULTI_QUEUE_OFFSET\x01[0-9]{1,18}(?:,[0-9]{1,18})*(?:\x02|$)"
)


def check_content(batch: Batch, number: int, at: At) -> Iterator[Finding]:
    """Judge one record that is compressed or a batch."""
    record = batch.matrix[:, number]
    start, flags = int(record[row.BODY_START]), int(record[row.SYS_FLAG])
    if start >= 0 and flags & (SysFlag.COMPRESSED_FLAG | SysFlag.INNER_BATCH_FLAG):
        body = batch.text(start, int(record[row.BODY_LENGTH]))
        content = decompress(body, flags)
        if content.body is None:
            yield finding(CL_DECOMP, at, expected="a body", actual=content.reason)
        elif flags & SysFlag.INNER_BATCH_FLAG:
            yield from _batch(content.body, int(record[row.INNER_NUM]), at)


def check_light_queues(
    batch: Batch, number: int, at: At, *, is_dispatched: bool, is_deep: bool
) -> Iterator[Finding]:
    """Compare the names of a record's further queues with their offsets.

    Args:
        batch: of the record.
        number: of the record in it.
        at: where it lies.
        is_dispatched: brokers read the numbers: at one that is not one, Java throws.
        is_deep: at level deep; else only the numbers matter, and a whole record costs little.
    """
    record = batch.matrix[:, number]
    raw = batch.text(int(record[row.PROPERTIES_START]), int(record[row.PROPERTIES_LENGTH]))
    if is_deep or not NUMBERS.search(raw):
        yield from _multi_dispatch(
            properties.decode(raw), at, is_dispatched=is_dispatched, is_deep=is_deep
        )


def _batch(body: bytes, stated: int, at: At) -> Iterator[Finding]:
    """Count the messages in the body of an inner batch."""
    count = 0
    try:
        for _ in inner_batch.messages(body):
            count += 1
    except BadLength as error:
        message = "the body of the batch cannot be taken apart"
        yield finding(CL_BATCH, at, message, expected=stated, actual=error.reason)
        return
    if count != stated:
        message = "the body does not hold as many messages as INNER_NUM says"
        yield finding(CL_BATCH, at, message, expected=stated, actual=count)


def _multi_dispatch(
    values: dict[str, str], at: At, *, is_dispatched: bool, is_deep: bool
) -> Iterator[Finding]:
    names, offsets = light_queue_texts(values)
    if len(names) != len(offsets):
        if is_deep:
            message = "the number of light queues differs from the number of their offsets"
            yield finding(CL_LMQ, at, message, expected=len(names), actual=len(offsets))
    elif any(parse_long(offset) is None for offset in offsets):
        yield finding(
            CL_LMQ,
            at,
            "the offset of a light queue is not a number",
            actual=values[properties.INNER_MULTI_QUEUE_OFFSET],
            severity=Severity.DAMAGE if is_dispatched else None,
        )


def timer_facts(batch: Batch, number: int) -> tuple[int, int, int]:
    """Give the topic's hash and the due time of a timer message, ms, and if it takes one back."""
    record = batch.matrix[:, number]
    start, length = int(record[row.PROPERTIES_START]), int(record[row.PROPERTIES_LENGTH])
    values = properties.decode(batch.text(start, length))
    topic, due = values.get(REAL_TOPIC), values.get(TIMER_OUT_MS, "")
    number_of_ms = int(due) if due.isdecimal() and len(due) <= LONGEST_TIME else UNKNOWN
    topic_hash = UNKNOWN if topic is None else string_hash(topic)
    return topic_hash, number_of_ms, int(TIMER_DEL_UNIQKEY in values)
