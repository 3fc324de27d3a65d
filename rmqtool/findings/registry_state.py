"""Codes of the state beside the log: CP AB TW TL TC EP CF CO DO BF."""

from __future__ import annotations

from typing import Final

from rmqtool.findings.catalogue import (
    DAMAGE,
    DUMP,
    INFO,
    NOTE,
    REPAIR,
    REPAIR_OFFSETS,
    RESET_CONFIG,
    STARTUP,
    TOPICS,
    WARNING,
    Code,
    Owner,
)

FROM_LOG: Final = (
    "bring it back from a backup; without one, repair --reset-config writes what the log proves"
)
CP_AHEAD: Final = Code(
    "CP-AHEAD",
    DAMAGE,
    Owner.CHECKPOINT,
    also=(NOTE,),
    when="a note up to three seconds: recovery starts that much earlier; and while a message "
    "waits for the next file of a running broker",
    meaning="a time in the checkpoint is later than the data it speaks of",
    consequence="recovery after a crash starts too late and leaves what it skips undispatched",
    remedy="lower it to the newest data",
    command=REPAIR,
)
CP_LOGICOFF: Final = Code(
    "CP-LOGICOFF",
    DAMAGE,
    Owner.CHECKPOINT,
    also=(WARNING,),
    when="damage when it is later than the data; a warning when no record starts there",
    meaning="logicsPhysicalOffset (5.5.0) does not fit the log or the queues",
    consequence="recovery of 5.5.0 after a crash starts at the wrong segment",
    remedy="lower it, or set it and logicsMsgTimestamp to 0",
    command=REPAIR,
)
CP_REACH: Final = Code(
    "CP-REACH",
    WARNING,
    Owner.PERSON,
    meaning="recovery would have to begin before the ten newest commitlog files",
    consequence="5.4.0 and later do not go back further: older messages get no queue unit",
    remedy="raise commitLogRecoverMaxNum, or rebuild offline",
    command=STARTUP,
)
CP_ZERO: Final = Code(
    "CP-ZERO",
    NOTE,
    Owner.NOTHING,
    meaning="the checkpoint is missing or zero",
    consequence="after a crash recovery starts at the first file: slow, but complete",
    remedy="none needed",
    command=STARTUP,
)
CP_LEN: Final = Code(
    "CP-LEN",
    WARNING,
    Owner.CHECKPOINT,
    also=(NOTE,),
    when="a note for bytes after the fields that this release of rmqtool knows",
    meaning="the checkpoint is not 4096 bytes long, or has more than its fields",
    consequence="the broker extends it with zeros when it maps it",
    remedy="extend it with zeros",
    command=REPAIR,
)
CP_CONFIRM: Final = Code(
    "CP-CONFIRM",
    WARNING,
    Owner.CHECKPOINT,
    meaning="confirmPhyOffset is past the end of the log",
    consequence="a controller-mode broker may dispatch or truncate at the wrong place",
    remedy="lower it",
    command=REPAIR,
)
AB_PRESENT: Final = Code(
    "AB-PRESENT",
    NOTE,
    Owner.NOTHING,
    meaning="abort exists: the broker crashed, was killed, or is running",
    consequence="the next start recovers as after a crash",
    remedy="none needed; do not delete it unless all other files are sound",
    command=STARTUP,
)
TW_LEN: Final = Code(
    "TW-LEN",
    DAMAGE,
    Owner.TIMER,
    meaning="the timer wheel has not the length that its slots need",
    consequence="the broker refuses to start",
    remedy="delete it, and set lastTimerLogFlushPos of timercheck to the start of the timer log: a "
    "start then rebuilds the wheel",
    command=REPAIR,
)
TW_POS: Final = Code(
    "TW-POS",
    DAMAGE,
    Owner.TIMER,
    also=(NOTE,),
    when="a note for a place past the timer log while abort is present",
    meaning="a slot of the timer wheel points to no timer log record of its time",
    consequence="timer messages of that slot are delivered late, twice or never",
    remedy="delete the wheel, and set lastTimerLogFlushPos of timercheck to the start of the "
    "timer log: a start then rebuilds the wheel; without that, older timers are lost with the "
    "wheel",
    command=REPAIR,
)
TW_LOST: Final = Code(
    "TW-LOST",
    DAMAGE,
    Owner.TIMER,
    meaning="the timer log has waiting timers, and the wheel (zeroed or gone) has no slot for them",
    consequence="these timer messages are never delivered: a start reads only the last two files "
    "of the timer log again",
    remedy="set lastTimerLogFlushPos of timercheck to the start of the timer log before the start",
    command=REPAIR,
)
TL_REC: Final = Code(
    "TL-REC",
    DAMAGE,
    Owner.TIMER,
    also=(WARNING, NOTE),
    when="a warning for a link to another record than the one before it in its slot, and for "
    "a reserved field that is set; a note for such a link while abort is present",
    meaning="a timer log record is malformed",
    consequence="recovery cuts the timer log here; timers after it are read again from the "
    "timer topic",
    remedy="truncate the timer log",
    command=REPAIR,
)
TL_REF: Final = Code(
    "TL-REF",
    DAMAGE,
    Owner.NOTHING,
    also=(NOTE,),
    when="a note for a message past the log's end while abort is present",
    meaning="a timer log record points to no timer message",
    consequence="this timer is skipped when it is due",
    remedy="none: no other field has a copy of the value",
    command=DUMP,
)
TC_AHEAD: Final = Code(
    "TC-AHEAD",
    DAMAGE,
    Owner.TIMER,
    meaning="timercheck is ahead of the timer log or of the timer topic's queue",
    consequence="timer messages in between are never delivered",
    remedy="lower it",
    command=REPAIR,
)
TC_GONE: Final = Code(
    "TC-GONE",
    DAMAGE,
    Owner.CONFIG,
    meaning="timercheck is missing, and the timer's topic has messages",
    consequence="the timer reads its topic from the first message on: timers that were delivered "
    "or recalled come again, some of them several times",
    remedy=FROM_LOG,
    command=RESET_CONFIG,
)
EP_CRC: Final = Code(
    "EP-CRC",
    WARNING,
    Owner.CONFIG,
    meaning="the epoch file's count, checksum or order is wrong",
    consequence="the broker reads the .bak instead, or starts without epochs and copies "
    "the log from the master again",
    remedy="restore it from the .bak",
    command=REPAIR,
)
EP_RANGE: Final = Code(
    "EP-RANGE",
    DAMAGE,
    Owner.PERSON,
    also=(NOTE,),
    when="a note for epochs that end before the log begins",
    meaning="an epoch begins past the end of the log, or inside a record",
    consequence="a replica cuts its log at an epoch: it cuts inside a record; past the end, a new "
    "master cannot add its own epoch",
    remedy="copy the file from a replica that has the same log, or take the line out",
    command=DUMP,
)
CF_JSON: Final = Code(
    "CF-JSON",
    DAMAGE,
    Owner.CONFIG,
    also=(WARNING, NOTE),
    when="a warning for a .bak whose file is sound; a note while a running broker may be "
    "writing it",
    meaning="a configuration file is not JSON as brokers write it",
    consequence="the broker loads the .bak; without one it starts with defaults, and topics, "
    "groups or offsets are gone; with one that cannot be parsed either it refuses to start",
    remedy="restore it from the .bak, or from a backup",
    command=REPAIR,
)
CF_VERSION: Final = Code(
    "CF-VERSION",
    NOTE,
    Owner.PERSON,
    meaning="a configuration file is older than its .bak, or gone where that is there",
    consequence="the broker uses the older one",
    remedy="compare the two files; of one that is gone the .bak has all but the last change",
    command=DUMP,
)
CF_QUEUES: Final = Code(
    "CF-QUEUES",
    WARNING,
    Owner.PERSON,
    meaning="a topic has fewer queues for consumers than for producers",
    consequence="producers write to queues that brokers give to no consumer: readQueueNums is the "
    "limit of a pull, and messages past it wait until they expire",
    remedy="raise readQueueNums to writeQueueNums, with mqadmin updateTopic once the broker runs; "
    "to have fewer queues, lower writeQueueNums first and readQueueNums when they are empty",
    command=TOPICS,
)
CF_GONE: Final = Code(
    "CF-GONE",
    DAMAGE,
    Owner.CONFIG,
    also=(WARNING,),
    when="damage where nothing of it is there; a warning for settings of groups alone",
    meaning="configuration that brokers load is missing",
    consequence="a broker starts with defaults and says nothing: no client finds a route to the "
    "topics, delayed messages are delivered again, groups of consumers start over",
    remedy=FROM_LOG,
    command=RESET_CONFIG,
)
CF_TOPICS: Final = Code(
    "CF-TOPICS",
    DAMAGE,
    Owner.CONFIG,
    meaning="the configuration of topics is missing",
    consequence="a broker starts without topics: no client finds a route to them until each is "
    "created again; with queues in RocksDB it deletes queues of topics that it does not know",
    remedy=FROM_LOG,
    command=RESET_CONFIG,
)
CO_GONE: Final = Code(
    "CO-GONE",
    DAMAGE,
    Owner.CONFIG,
    also=(NOTE,),
    when="a note after a crash, if nothing tells of a group: a broker writes it after ten seconds",
    meaning="the offsets of all groups of consumers are missing",
    consequence="each group starts over, as its clients are set: from the first message, so that "
    "all are consumed again, or from the last, so that those in between are skipped",
    remedy="bring it back from a backup; no log tells what was consumed",
    command=RESET_CONFIG,
)
DO_GONE: Final = Code(
    "DO-GONE",
    DAMAGE,
    Owner.CONFIG,
    meaning="the offsets of delayed messages are missing",
    consequence="a broker delivers all delayed messages again that are still in the log, and "
    "the waiting ones",
    remedy=FROM_LOG,
    command=RESET_CONFIG,
)
CO_RANGE: Final = Code(
    "CO-RANGE",
    WARNING,
    Owner.OFFSETS,
    also=(NOTE,),
    when="warning ahead of the queue; a note below its minimum, where expiry overtook a slow "
    "consumer",
    meaning="a committed consumer offset lies outside its queue",
    consequence="the broker corrects the consumer to the queue's minimum or maximum: messages "
    "are consumed again or skipped",
    remedy="clamp it on request",
    command=REPAIR_OFFSETS,
)
CO_TOPIC: Final = Code(
    "CO-TOPIC",
    NOTE,
    Owner.NOTHING,
    meaning="a consumer offset belongs to an unknown topic or group",
    consequence="none; the broker drops it in time",
    remedy="none needed: the group subscribes to a topic that is not here",
    command=INFO,
)
DO_RANGE: Final = Code(
    "DO-RANGE",
    WARNING,
    Owner.OFFSETS,
    meaning="a delay offset lies outside its queue of the schedule topic",
    consequence="delayed messages of this level are skipped or delivered again",
    remedy="set it to the first message that has no delivered copy",
    command=REPAIR_OFFSETS,
)
BF_PARAM: Final = Code(
    "BF-PARAM",
    WARNING,
    Owner.NOTHING,
    meaning="a consumer filter was made for another Bloom filter than the configured one",
    consequence="the broker ignores all of consumerFilter.json until consumers register again",
    remedy="none: no other field has a copy of the value",
    command=DUMP,
)
BF_POS: Final = Code(
    "BF-POS",
    DAMAGE,
    Owner.NOTHING,
    also=(NOTE,),
    when="a note if no queue has an extension: brokers then do not use the bits",
    meaning="a consumer filter's bit positions are not those of its group and topic",
    consequence="the group misses messages that its expression accepts",
    remedy="none: no other field has a copy of the value",
    command=DUMP,
)
