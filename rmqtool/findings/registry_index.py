"""Codes of the key index: IX-*."""

from __future__ import annotations

from typing import Final

from rmqtool.findings.catalogue import (
    DAMAGE,
    DUMP,
    NOTE,
    REPAIR,
    STARTUP,
    WARNING,
    Code,
    Owner,
)

IX_LEN: Final = Code(
    "IX-LEN",
    DAMAGE,
    Owner.INDEX,
    meaning="the file is not as long as its slots and entries need",
    consequence="the broker maps it with the configured length: a short file is filled with "
    "zeros, of a long one the end is ignored, and lookups find garbage or nothing",
    remedy="rebuild the index",
    command=REPAIR,
)
IX_COUNT: Final = Code(
    "IX-COUNT",
    DAMAGE,
    Owner.INDEX,
    meaning="the header's indexCount lies outside 1 to the number of entries",
    consequence="new keys are written in the wrong place or the file counts as full",
    remedy="rebuild the index",
    command=REPAIR,
)
IX_STALE: Final = Code(
    "IX-STALE",
    WARNING,
    Owner.INDEX,
    also=(NOTE,),
    when="a note while abort is present: a broker writes entries before their number",
    meaning="entry bytes lie at or past indexCount, or an entry before it is all zero",
    consequence="keys of a torn write are lost; the bytes after them are overwritten",
    remedy="rebuild the index",
    command=REPAIR,
)
IX_SLOTCOUNT: Final = Code(
    "IX-SLOTCOUNT",
    WARNING,
    Owner.INDEX,
    meaning="the header's hashSlotCount is not the number of slots in use",
    consequence="none for lookups; the figure is only reported",
    remedy="rewrite the header field",
    command=REPAIR,
)
IX_SLOT: Final = Code(
    "IX-SLOT",
    DAMAGE,
    Owner.INDEX,
    also=(NOTE,),
    when="a note for a slot ahead of indexCount while abort is present, likewise",
    meaning="a slot names an entry that does not exist",
    consequence="every key of this slot is not found; the next one starts a new chain and "
    "the old entries stay unreachable",
    remedy="rebuild the index",
    command=REPAIR,
)
IX_CHAIN: Final = Code(
    "IX-CHAIN",
    DAMAGE,
    Owner.INDEX,
    meaning="an entry is not where its chain should hold it: wrong predecessor, wrong slot, "
    "unreachable, or a cycle",
    consequence="keys after the broken link are not found, or foreign ones are",
    remedy="rebuild the index",
    command=REPAIR,
)
IX_HEAD: Final = Code(
    "IX-HEAD",
    WARNING,
    Owner.INDEX,
    meaning="the header's first or last offset or time differs from the first or last entry",
    consequence="time-limited queries skip the file, expiry removes it too early or too late, "
    "and dispatch indexes records twice or not at all",
    remedy="rewrite the header field",
    command=REPAIR,
)
IX_KEY: Final = Code(
    "IX-KEY",
    DAMAGE,
    Owner.INDEX,
    also=(NOTE,),
    when="a note for entries past the log's end while abort is present",
    meaning="no record at the entry's offset has a key with the entry's hash",
    consequence="a query by key answers with a foreign message or with none",
    remedy="rebuild the index",
    command=REPAIR,
)
IX_TIME: Final = Code(
    "IX-TIME",
    WARNING,
    Owner.INDEX,
    meaning="an entry's time is not the record's store time rounded down to seconds",
    consequence="a query with a time window misses the message",
    remedy="rebuild the index",
    command=REPAIR,
)
IX_MISSING: Final = Code(
    "IX-MISSING",
    WARNING,
    Owner.INDEX,
    also=(NOTE,),
    when="a note for keys that the next start indexes, for tags before 5.4.0, and between files",
    meaning="a key of a record in the range of the index has no entry",
    consequence="the message is not found by this key",
    remedy="rebuild the index",
    command=REPAIR,
)
IX_DUP: Final = Code(
    "IX-DUP",
    NOTE,
    Owner.NOTHING,
    meaning="a key of one record has two entries",
    consequence="none: the last record is dispatched again after a restart",
    remedy="none needed",
    command=DUMP,
)
IX_ORDER: Final = Code(
    "IX-ORDER",
    WARNING,
    Owner.INDEX,
    meaning="the order of the file names is not the order of their offsets",
    consequence="queries walk the files in the wrong order and may stop too early; the wrong "
    "file goes on being filled",
    remedy="rename the files",
    command=REPAIR,
)
IX_CRASH: Final = Code(
    "IX-CRASH",
    WARNING,
    Owner.CHECKPOINT,
    also=(NOTE,),
    when="a note for the newest file, which no checkpoint covers while a broker runs, and for "
    "files whose every record recovery dispatches again; beside a broker for the file before, too",
    meaning="abort is present and this file ends past checkpoint.indexMsgTimestamp",
    consequence="the next start destroys this file and indexes only what recovery dispatches: "
    "older keys in it are lost",
    remedy="rebuild the index and set indexMsgTimestamp, or accept the loss",
    command=STARTUP,
)
IX_CAP: Final = Code(
    "IX-CAP",
    NOTE,
    Owner.NOTHING,
    meaning="a newer file follows although this one is not full",
    consequence="none: the broker had destroyed or lost files in between",
    remedy="none needed",
    command=DUMP,
)
