"""Codes of consume queues, their extension, batch queues and the compaction store: CQ CX BQ CC."""

from __future__ import annotations

from typing import Final

from rmqtool.findings.catalogue import (
    DAMAGE,
    DUMP,
    INFO,
    NOTE,
    REBUILD_CQ,
    REPAIR,
    STARTUP,
    WARNING,
    Code,
)

CONSUME_QUEUE_CODES: Final = (
    Code(
        "CQ-RANGE",
        DAMAGE,
        also=(NOTE,),
        when="a note while abort is present: a queue may have reached the disk before the log, and "
        "recovery cuts it",
        meaning="a unit points behind the end of the commitlog",
        consequence="consumers stop there; recovery of the log cuts the queue at this unit",
        remedy="truncate the queue at this unit",
        command=REBUILD_CQ,
    ),
    Code(
        "CQ-EXPIRED",
        NOTE,
        meaning="units point before the first commitlog file: their messages have expired",
        consequence="none: the queue's minimum lies behind them",
        remedy="none needed",
        command=f"{INFO} --section queues",
    ),
    Code(
        "CQ-MISMATCH",
        DAMAGE,
        meaning="the record that the unit points to has another size, topic, queue or offset",
        consequence="consumers get a foreign message or garbage",
        remedy="rebuild the queue",
        command=REBUILD_CQ,
    ),
    Code(
        "CQ-NOREC",
        DAMAGE,
        meaning="no valid record begins where the unit points to",
        consequence="consumers get nothing there; some pulls skip to the next segment",
        remedy="rebuild the queue",
        command=REBUILD_CQ,
    ),
    Code(
        "CQ-SHIFT",
        DAMAGE,
        meaning="the units stand at other queue offsets than their records say, by a constant",
        consequence="a broker lost units before and appended behind the gap: consumers see other "
        "offsets than the messages carry, and new offsets collide",
        remedy="rebuild by queueOffset (committed consumer offsets change their meaning)",
        command=REBUILD_CQ,
    ),
    Code(
        "CQ-ORDER",
        DAMAGE,
        meaning="units do not point forward through the log",
        consequence="consumers get messages out of order or twice, and searches go astray",
        remedy="rebuild the queue",
        command=REBUILD_CQ,
    ),
    Code(
        "CQ-GAP",
        DAMAGE,
        also=(NOTE,),
        when="a note for a topic that is not configured any more",
        meaning="records that belong into this queue have no unit, although later ones have",
        consequence="the messages are in the log, but no consumer gets them",
        remedy="rebuild the queue",
        command=REBUILD_CQ,
    ),
    Code(
        "CQ-HOLE",
        DAMAGE,
        meaning="an invalid unit is followed by valid ones",
        consequence="in its last three files a broker cuts the queue here and loses the rest; "
        "further back consumers stumble over it",
        remedy="rebuild the queue",
        command=REBUILD_CQ,
    ),
    Code(
        "CQ-PREBLANK",
        WARNING,
        meaning="a pre-blank unit lies behind real ones or outside the queue's first file",
        consequence="consumers skip to the next segment for that pull and may lose neighbours",
        remedy="rebuild the queue",
        command=REBUILD_CQ,
    ),
    Code(
        "CQ-TAG",
        WARNING,
        meaning="the unit's tagsCode is not the one of its record",
        consequence="consumers with a tag filter miss the message, or delay delivers it at the "
        "wrong time",
        remedy="rewrite the field",
        command=REPAIR,
    ),
    Code(
        "CQ-EXTADDR",
        DAMAGE,
        meaning="the unit's extension address leads to no fitting extension unit",
        consequence="the broker logs it and filters by the message itself, or drops the tag",
        remedy="rewrite the unit with the plain tagsCode: only the bit map is lost",
        command=REBUILD_CQ,
    ),
    Code(
        "CQ-LAG",
        NOTE,
        also=(WARNING,),
        when="a note when abort tells of a crash; a warning after a clean stop, which waits for "
        "the dispatch",
        meaning="the newest records have no unit yet: dispatch was behind",
        consequence="brokers before 5.0 dispatch them at the next start; 5.0 and later only if "
        "recovery comes over them",
        remedy="see what the next start will do, or append the units",
        command=STARTUP,
    ),
    Code(
        "CQ-EXTRA",
        WARNING,
        meaning="a unit stands for a record that belongs into no queue, or into another one",
        consequence="consumers get a message that was not meant for them",
        remedy="rebuild the queue",
        command=REBUILD_CQ,
    ),
    Code(
        "CQ-LMQ",
        WARNING,
        meaning="a light message queue and INNER_MULTI_DISPATCH of the records do not agree",
        consequence="subscribers of the light queue miss messages or get foreign ones",
        remedy="rebuild the queue",
        command=REBUILD_CQ,
    ),
    Code(
        "CX-SIZE",
        DAMAGE,
        meaning="an extension unit's size is not 20 + bitMapSize, or crosses the file",
        consequence="the broker's recovery stops here and cuts the extension",
        remedy="rebuild the queue with plain tagsCodes: only the bit maps are lost",
        command=REBUILD_CQ,
    ),
    Code(
        "CX-BITMAP",
        NOTE,
        meaning="a bit map has another length than the configured Bloom filter",
        consequence="none: the broker ignores it and evaluates the expression on the message",
        remedy="none needed",
        command=DUMP,
    ),
    Code(
        "BQ-UNIT",
        DAMAGE,
        meaning="a batch queue unit is invalid, does not continue its predecessor, or is not what "
        "its record says",
        consequence="consumers of the batch topic skip or repeat messages",
        remedy="rebuild the queue",
        command=REBUILD_CQ,
    ),
    Code(
        "CC-PAIR",
        DAMAGE,
        meaning="the files of a compaction log and of its queue do not pair up",
        consequence="the broker does not load this compacted queue",
        remedy="delete both: they are compacted again from the commitlog",
        command=DUMP,
    ),
)
