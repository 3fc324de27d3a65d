"""Codes of consume queues, their extension, batch queues and the compaction store: CQ CX BQ CC."""

from __future__ import annotations

from typing import Final

from rmqtool.findings.catalogue import (
    DAMAGE,
    DUMP,
    INFO,
    NOTE,
    REPAIR,
    STARTUP,
    WARNING,
    Code,
    Owner,
)

CQ_RANGE: Final = Code(
    "CQ-RANGE",
    DAMAGE,
    Owner.QUEUES,
    also=(NOTE,),
    when="a note while abort is present: a queue may have reached the disk before the log, and "
    "recovery cuts it",
    meaning="a unit points past the end of the commitlog",
    consequence="consumers stop there; recovery of the log cuts the queue at this unit",
    remedy="truncate the queue at this unit",
    command=REPAIR,
)
CQ_EXPIRED: Final = Code(
    "CQ-EXPIRED",
    NOTE,
    Owner.NOTHING,
    meaning="units point before the first commitlog file: their messages have expired",
    consequence="none: the queue's minimum is past them",
    remedy="none needed",
    command=f"{INFO} --section queues",
)
CQ_MISMATCH: Final = Code(
    "CQ-MISMATCH",
    DAMAGE,
    Owner.QUEUES,
    meaning="the record that the unit points to has another size, topic, queue or offset",
    consequence="consumers get a foreign message or garbage",
    remedy="rebuild the queue",
    command=REPAIR,
)
CQ_NOREC: Final = Code(
    "CQ-NOREC",
    DAMAGE,
    Owner.QUEUES,
    meaning="no valid record begins where the unit points to",
    consequence="consumers get nothing there; some pulls skip to the next segment",
    remedy="rebuild the queue",
    command=REPAIR,
)
CQ_SHIFT: Final = Code(
    "CQ-SHIFT",
    DAMAGE,
    Owner.QUEUES,
    meaning="the units are at other queue offsets than their records say, by a constant",
    consequence="a broker lost units before and appended after the gap: consumers see other "
    "offsets than the messages carry, and new offsets collide",
    remedy="rebuild by queueOffset (committed consumer offsets change their meaning)",
    command=REPAIR,
)
CQ_ORDER: Final = Code(
    "CQ-ORDER",
    DAMAGE,
    Owner.QUEUES,
    meaning="units do not point forward through the log",
    consequence="consumers get messages out of order or twice, and searches go astray",
    remedy="rebuild the queue",
    command=REPAIR,
)
CQ_GAP: Final = Code(
    "CQ-GAP",
    DAMAGE,
    Owner.QUEUES,
    also=(NOTE,),
    when="a note for a topic that is not configured and that no record of another topic names",
    meaning="records that belong into this queue have no unit, although later ones have",
    consequence="the messages are in the log, but no consumer gets them",
    remedy="rebuild the queue",
    command=REPAIR,
)
CQ_HOLE: Final = Code(
    "CQ-HOLE",
    DAMAGE,
    Owner.QUEUES,
    meaning="an invalid unit is followed by valid ones",
    consequence="in its last three files a broker cuts the queue here and loses the rest; "
    "further back consumers stumble over it",
    remedy="rebuild the queue",
    command=REPAIR,
)
CQ_EMPTY: Final = Code(
    "CQ-EMPTY",
    DAMAGE,
    Owner.QUEUES,
    meaning="the newest file of a queue holds no unit, only zeros",
    consequence="brokers count a unit in it: who pulls that gets an error, and the next message "
    "gets the wrong queue offset; a batch queue they take for empty",
    remedy="remove the file",
    command=REPAIR,
    also=(NOTE,),
    when="a note where it does not go on where the units end: recovery deletes it",
)
CQ_PREBLANK: Final = Code(
    "CQ-PREBLANK",
    DAMAGE,
    Owner.QUEUES,
    meaning="a pre-blank unit is after real ones, outside the queue's first file, or where a "
    "broker hands it out: the log begins at 0",
    consequence="consumers skip to the next segment for that pull and may lose neighbours",
    remedy="rebuild the queue",
    command=REPAIR,
)
CQ_TAG: Final = Code(
    "CQ-TAG",
    DAMAGE,
    Owner.QUEUES,
    meaning="the unit's tagsCode is not the one of its record",
    consequence="consumers with a tag filter miss the message, or delay delivers it at the "
    "wrong time",
    remedy="rewrite the field",
    command=REPAIR,
)
CQ_EXTADDR: Final = Code(
    "CQ-EXTADDR",
    DAMAGE,
    Owner.QUEUES,
    meaning="the unit's extension address leads to no fitting extension unit",
    consequence="the broker logs it and filters by the message itself, or drops the tag",
    remedy="rewrite the unit with the plain tagsCode: only the bit map is lost",
    command=REPAIR,
)
CQ_LAG: Final = Code(
    "CQ-LAG",
    NOTE,
    Owner.QUEUES,
    also=(WARNING,),
    when="a note when abort tells of a crash; a warning after a clean stop, which waits for "
    "the dispatch",
    meaning="the newest records have no unit yet: dispatch had not come to them",
    consequence="the next start writes their units; where it would not, they are missing (CQ-GAP)",
    remedy="see what the next start will do, or append the units",
    command=STARTUP,
)
CQ_EXTRA: Final = Code(
    "CQ-EXTRA",
    DAMAGE,
    Owner.PERSON,
    meaning="a unit points to a record that belongs into no queue, or into another one",
    consequence="consumers get a message that was not meant for them",
    remedy="decide by hand: a rebuild drops the unit, and a message whose sysFlag was damaged",
    command=DUMP,
)
CQ_LMQ: Final = Code(
    "CQ-LMQ",
    DAMAGE,
    Owner.LIGHT_QUEUES,
    meaning="a light message queue and INNER_MULTI_DISPATCH of the records do not agree",
    consequence="subscribers of the light queue miss messages or get foreign ones",
    remedy="rebuild the queue",
    command=REPAIR,
)
CX_SIZE: Final = Code(
    "CX-SIZE",
    DAMAGE,
    Owner.EXTENSIONS,
    meaning="an extension unit's size is not 20 + bitMapSize, or crosses the file",
    consequence="the broker's recovery stops here and cuts the extension",
    remedy="rebuild the queue with plain tagsCodes: only the bit maps are lost",
    command=REPAIR,
)
CX_BITMAP: Final = Code(
    "CX-BITMAP",
    NOTE,
    Owner.NOTHING,
    meaning="a bit map has another length than the configured Bloom filter",
    consequence="none: the broker ignores it and evaluates the expression on the message",
    remedy="none needed",
    command=DUMP,
)
BQ_UNIT: Final = Code(
    "BQ-UNIT",
    DAMAGE,
    Owner.BATCH_QUEUES,
    meaning="a batch queue unit is invalid, does not continue its predecessor, or is not what "
    "its record says",
    consequence="consumers of the batch topic skip or repeat messages",
    remedy="rebuild the queue",
    command=REPAIR,
)
CC_PAIR: Final = Code(
    "CC-PAIR",
    DAMAGE,
    Owner.PERSON,
    meaning="the files of a compaction log and of its queue do not pair up",
    consequence="a broker with a queue file and no log file does not start; a log file without a "
    "queue file is not loaded",
    remedy="move both away, never delete them: they hold the only copy of messages that the "
    "commitlog has expired. Without them a clean start shows an empty topic",
    command=DUMP,
)
CC_UNIT: Final = Code(
    "CC-UNIT",
    DAMAGE,
    Owner.PERSON,
    meaning="a unit of the compaction queue is not what its record says, or a record is damaged",
    consequence="consumers of the compaction topic get a wrong message, or none; a start cuts the "
    "log after the last unit",
    remedy="restore a backup; messages still in the commitlog are compacted again after both are "
    "moved away and a start with abort",
    command=DUMP,
)
CC_BASE: Final = Code(
    "CC-BASE",
    WARNING,
    Owner.PERSON,
    meaning="position-checkpoint says that a queue is compacted past its last unit",
    consequence="messages up to there are never compacted",
    remedy="lower the number",
    command=DUMP,
)
CC_BEHIND: Final = Code(
    "CC-BEHIND",
    DAMAGE,
    Owner.COMPACTION,
    also=(WARNING,),
    when="a warning where the next start hands them over: after a crash, as far as recovery comes",
    meaning="a compaction log lacks messages of its topic that the commitlog has",
    consequence="consumers do not get them: they read such a topic from compaction/ alone. After a "
    "clean stop no start hands them over again; the topic is empty where compaction/ is gone",
    remedy="restore compaction/ from a backup if it was deleted: it may hold the only copy. "
    "Otherwise repair leaves abort and takes checkpoint out: the next start hands over all of the "
    "log",
    command=REPAIR,
)
