"""Codes of the commitlog: CL-*, and DL-* of a DLedger log."""

from __future__ import annotations

from typing import Final

from rmqtool.findings.catalogue import (
    DAMAGE,
    DUMP,
    DUMP_FILLERS,
    DUMP_HEX,
    INFO,
    NOTE,
    REPAIR,
    STARTUP,
    WARNING,
    Code,
    Owner,
)

# What CL-TRANTYPE says of such a record.
BRIDGE_NOTE: Final = "a bridge that rmqtool repair has put over damage"
_CUT = "recovery that comes here cuts the log: everything after it is dropped, valid or not"

CL_MAGIC: Final = Code(
    "CL-MAGIC",
    DAMAGE,
    Owner.LOG,
    meaning="where a record must start, its magic code is missing",
    consequence=_CUT + "; dispatch skips the rest of the file",
    remedy="bridge the damaged stretch, so that what comes after it survives",
    command=REPAIR,
)
CL_SIZE: Final = Code(
    "CL-SIZE",
    DAMAGE,
    Owner.LOG,
    meaning="a record's size is impossible, or is not the sum of its parts",
    consequence=_CUT,
    remedy="bridge the damaged stretch, so that what comes after it survives",
    command=REPAIR,
)
CL_CRC: Final = Code(
    "CL-CRC",
    DAMAGE,
    Owner.LOG,
    meaning="the body does not have the CRC that the broker stored",
    consequence=_CUT + "; outside the recovered range the damaged body is delivered",
    remedy="the content is lost and kept as evidence; bridge the record",
    command=REPAIR,
)
CL_PROPCRC: Final = Code(
    "CL-PROPCRC",
    DAMAGE,
    Owner.LOG,
    also=(WARNING,),
    when="damage in the commitlog; warning in a compaction log, whose copies have another "
    "physical offset than the one the CRC was made over",
    meaning="the record does not have the CRC that its property __CRC32# holds",
    consequence="header, topic or properties have changed; a broker with forceVerifyPropCRC "
    "cuts the log here, others deliver the record",
    remedy="the content is lost; bridge the record if the broker verifies property CRCs",
    command=REPAIR,
)
CL_NOPROPCRC: Final = Code(
    "CL-NOPROPCRC",
    WARNING,
    Owner.PERSON,
    also=(DAMAGE,),
    when="damage when forceVerifyPropCRC is set",
    meaning="a property CRC is configured, but the record has none",
    consequence="with forceVerifyPropCRC recovery cuts the log here",
    remedy="switch forceVerifyPropCRC off for this store",
    command=STARTUP,
)
CL_PHYOFF: Final = Code(
    "CL-PHYOFF",
    DAMAGE,
    Owner.LOG,
    meaning="the record's physicalOffset is not where it lies",
    consequence="the broker does not notice and copies the wrong offset into queue and index: "
    "consumers get a foreign message or none",
    remedy="rewrite the field, if the rest of the record is right",
    command=REPAIR,
)
CL_CHAIN: Final = Code(
    "CL-CHAIN",
    DAMAGE,
    Owner.LOG,
    meaning="a segment that is followed by others does not end in a blank record",
    consequence=_CUT + "; dispatch stops at the end of this file",
    remedy="write a blank, if the rest is unused and at least 8 bytes long",
    command=REPAIR,
)
CL_BLANKLEN: Final = Code(
    "CL-BLANKLEN",
    WARNING,
    Owner.LOG,
    also=(DAMAGE,),
    when="damage when it is longer than the rest of the file, where 5.3.2 and later cut the "
    "log; and when it is negative, where 5.5.1 and later do",
    meaning="the blank's size is not what is left of the file",
    consequence="a shorter one is ignored. A longer or negative one is a bad record to some "
    "releases: they delete the log from there on",
    remedy="rewrite the blank's size",
    command=REPAIR,
)
CL_BLANKSIZE: Final = Code(
    "CL-BLANKSIZE",
    WARNING,
    Owner.LOG,
    meaning="the end-of-file blank is larger than needed: the segment was closed early",
    consequence="none: the file was closed early; records there may have been lost",
    remedy="repair bridges records that a false blank hides; a segment that was closed early "
    "needs nothing",
    command=REPAIR,
)
CL_FOREIGN: Final = Code(
    "CL-FOREIGN",
    DAMAGE,
    Owner.PERSON,
    meaning="the records of this file name another broker than those around it, and another time",
    consequence="its own messages are lost to this broker, and queues lead to another's",
    remedy="put back the broker's own file; without one move this file away from the commitlog, "
    "then rmqtool repair --bridge-missing",
    command=DUMP,
)
CL_BLANKDATA: Final = Code(
    "CL-BLANKDATA",
    NOTE,
    Owner.NOTHING,
    meaning="after the header of the blank are bytes that are not zero",
    consequence="none: recycled buffers leave parts of older messages there",
    remedy="none needed",
    command=DUMP_FILLERS,
)
CL_STALE: Final = Code(
    "CL-STALE",
    WARNING,
    Owner.LOG,
    meaning="after the tail are records of an earlier time, left by a truncation or by a "
    "write of whole pages",
    consequence="when the log grows to exactly their start, recovery may treat them as new",
    remedy="zero them",
    command=REPAIR,
)
CL_TAIL: Final = Code(
    "CL-TAIL",
    NOTE,
    Owner.LOG,
    also=(WARNING,),
    when="a note when abort tells of a crash; a warning after a clean stop",
    meaning="the last record was written only in part",
    consequence="recovery cuts it off; its producer got no confirmation, unless it asked for none",
    remedy="zero it from its start",
    command=REPAIR,
)
CL_QOFF_DUP: Final = Code(
    "CL-QOFF-DUP",
    DAMAGE,
    Owner.PLACES,
    meaning="two records of a queue have the same queueOffset",
    consequence="only the first has a unit in the queue: the second is never consumed",
    remedy="repair restores a damaged queueOffset where the queue or its neighbours prove it; "
    "otherwise the queue keeps the first record",
    command=REPAIR,
)
CL_QOFF_GAP: Final = Code(
    "CL-QOFF-GAP",
    WARNING,
    Owner.PLACES,
    also=(NOTE,),
    when="a note where a rebuild has written units that brokers skip",
    meaning="queueOffset jumps forward inside a queue",
    consequence="a broker that dispatches this range again shifts all later units",
    remedy="repair restores a damaged queueOffset where the queue or its neighbours prove it; "
    "otherwise a record was lost, or the queue was recreated",
    command=REPAIR,
)
CL_QOFF_BACK: Final = Code(
    "CL-QOFF-BACK",
    WARNING,
    Owner.PERSON,
    meaning="queueOffset goes back inside a queue",
    consequence="consumers that stand further ahead do not see the new messages",
    remedy="decide which messages to keep: the queue was deleted and created again, or cut too "
    "short by a recovery",
    command=DUMP,
)
CL_TIME: Final = Code(
    "CL-TIME",
    WARNING,
    Owner.NOTHING,
    meaning="storeTimestamp is 0 or goes back",
    consequence="recovery and time search may start at the wrong place",
    remedy="none: no other field has a copy of the value",
    command=DUMP,
)
CL_SYSFLAG: Final = Code(
    "CL-SYSFLAG",
    WARNING,
    Owner.NOTHING,
    meaning="sysFlag has bits that no broker sets, or that contradict each other",
    consequence="clients may fail to decode the body",
    remedy="none: no other field has a copy of the value",
    command=DUMP_HEX,
)
CL_DECOMP: Final = Code(
    "CL-DECOMP",
    DAMAGE,
    Owner.NOTHING,
    meaning="the compressed body cannot be decompressed",
    consequence="consumers fail on this message, and keep failing until they skip it",
    remedy="none; the body was stored like this when its CRC is right",
    command=DUMP_HEX,
)
CL_TRANTYPE: Final = Code(
    "CL-TRANTYPE",
    NOTE,
    Owner.NOTHING,
    meaning="a record has transaction type PREPARED or ROLLBACK",
    consequence="it is in no queue: an old broker, a direct send, or a bridge over damage",
    remedy="none needed",
    command=DUMP,
)
CL_TRANREF: Final = Code(
    "CL-TRANREF",
    WARNING,
    Owner.NOTHING,
    also=(NOTE,),
    when="warning for a commit without its half record; a note for half records without an "
    "end, which the broker goes on asking for",
    meaning="the two halves of a transaction do not refer to each other",
    consequence="a commit is still delivered; an undecided half is checked again",
    remedy="none: no other field has a copy of the value",
    command=DUMP,
)
CL_PROPS: Final = Code(
    "CL-PROPS",
    WARNING,
    Owner.NOTHING,
    also=(NOTE,),
    when="a note for values that brokers themselves write: items without a value, and up to 5.3.3 "
    "the properties of a batch after those of its messages",
    meaning="the properties hold items that a reader drops, twice the same name, or bytes "
    "that are not UTF-8",
    consequence="consumers do not see these properties, or see one of the two",
    remedy="none: no other field has a copy of the value",
    command=DUMP_HEX,
)
CL_TOPIC: Final = Code(
    "CL-TOPIC",
    DAMAGE,
    Owner.LOG,
    also=(NOTE,),
    when="a note for a name that brokers refuse, but that can be a directory: a plugin or another "
    "protocol stored it, and finds it",
    meaning="the topic's length is impossible or its text illegal",
    consequence="a negative length ends the log for recovery; an illegal name makes a "
    "queue that no client can read",
    remedy="put the name back where the record's queue or the index prove it; otherwise bridge "
    "the record where the text is impossible; a name that brokers only refuse may stay",
    command=REPAIR,
)
CL_VERSION: Final = Code(
    "CL-VERSION",
    DAMAGE,
    Owner.PERSON,
    meaning="the record is of a version that the release named by --broker-version does not know: "
    "a topic of more than 127 bytes, stored by 5.1.0 or newer",
    consequence=_CUT,
    remedy="start a broker of 5.1.0 or newer; with an older one, startup says what it loses",
    command=STARTUP,
)
CL_LMQ: Final = Code(
    "CL-LMQ",
    WARNING,
    Owner.LIGHT_QUEUES,
    meaning="INNER_MULTI_DISPATCH and INNER_MULTI_QUEUE_OFFSET do not fit together",
    consequence="the record is not dispatched to its light queues; if an offset is not a "
    "number, a broker that recovers after a crash refuses to start",
    remedy="the number that the queue's unit gives, or its neighbours in the log",
    command=REPAIR,
    also=(DAMAGE,),
    when="damage where a broker dispatches the record and an offset is not a number",
)
CL_BATCH: Final = Code(
    "CL-BATCH",
    WARNING,
    Owner.NOTHING,
    meaning="INNER_NUM, INNER_BASE, the batch bits and the body do not fit together",
    consequence="consumers of the batch get other messages than the queue counts",
    remedy="none needed where the fields are right; repair restores INNER_BASE or queueOffset "
    "where one damaged byte changed it",
    command=DUMP_HEX,
)
CL_FIELD: Final = Code(
    "CL-FIELD",
    WARNING,
    Owner.NOTHING,
    also=(NOTE,),
    when="a note where applications can bring it about; found at --level deep",
    meaning="a field that no checksum covers contradicts the record or its neighbours",
    consequence="consumers get the message with a wrong time, address or number of attempts",
    remedy="none: no other field has a copy of the value",
    command=DUMP_HEX,
)
CL_MIXDL: Final = Code(
    "CL-MIXDL",
    NOTE,
    Owner.NOTHING,
    meaning="plain commitlog files precede the DLedger log",
    consequence="none: the store was converted",
    remedy="none needed",
    command=f"{INFO} --section segments",
)
DL_ENTRY: Final = Code(
    "DL-ENTRY",
    DAMAGE,
    Owner.PERSON,
    also=(WARNING,),
    when="a warning where nothing of the index is left: the library rebuilds it",
    meaning="a DLedger entry or index unit contradicts its place or its neighbours",
    consequence="DLedger recovery cuts the log here, or answers with the wrong entry",
    remedy="delete index/ of the DLedger store: the library rebuilds it from data/",
    command=DUMP_HEX,
)
