"""Codes of directories and file names: FS-*."""

from __future__ import annotations

from typing import Final

from rmqtool.findings.catalogue import (
    DAMAGE,
    DUMP,
    INFO,
    NOTE,
    REPAIR,
    REPAIR_GAP,
    TOPICS,
    VALIDATE,
    WARNING,
    Code,
    Owner,
)

FS_CHANGED: Final = Code(
    "FS-CHANGED",
    WARNING,
    Owner.PERSON,
    meaning="bytes of the commitlog differ from an earlier validation",
    consequence="the broker reads what is there now: it never changes appended bytes, so "
    "another program, a repair, a cut with new messages after it or the disk did",
    remedy="find out who did; compare with a copy of that time",
    command=DUMP,
)
FS_LEN: Final = Code(
    "FS-LEN",
    DAMAGE,
    Owner.FILES,
    meaning="a file of a mapped-file directory has another length than the configured one",
    consequence="the broker refuses to start; 5.1.3 and later delete an empty last file",
    remedy="extend it with zeros, and bridge or rebuild the missing middle; delete "
    "an empty last file; cut only what a direct write of 5.5.0 added past the length",
    command=REPAIR,
    also=(NOTE,),
    when="a note for the newest file while a running broker makes it",
)
FS_NAME: Final = Code(
    "FS-NAME",
    DAMAGE,
    Owner.FILES,
    also=(WARNING,),
    when="a warning for a directory with files of a queue whose number has a directory of its own, "
    "and for one whose name stands for no number",
    meaning="a file or directory has a name that no broker builds: no start offset of 20 digits, "
    "not a multiple of the file length, or not the number of a queue",
    consequence="a file whose name is not a number: the broker refuses to start; another number: "
    "offsets are looked up in the wrong file; a queue's directory: no broker reads it",
    remedy="rename a commitlog file to the offset that its records state; move away what holds no "
    "records",
    command=REPAIR,
)
FS_GAP: Final = Code(
    "FS-GAP",
    DAMAGE,
    Owner.FILES,
    meaning="a file is missing between two others",
    consequence="the broker only logs it; reads from the missing range fail, and recovery "
    "that crosses it cuts what comes after",
    remedy="repair bridges a missing commitlog file, whose messages are lost, and rebuilds a "
    "consume queue",
    command=REPAIR_GAP,
)
FS_DUP: Final = Code(
    "FS-DUP",
    DAMAGE,
    Owner.FILES,
    meaning="two directories hold a commitlog file of the same name",
    consequence="two files claim one range; which one is read depends on the loading order",
    remedy="compare them and move the inferior copy away",
    command=REPAIR,
)
FS_NOLOG: Final = Code(
    "FS-NOLOG",
    DAMAGE,
    Owner.PERSON,
    meaning="the store has no commitlog, though other files of it speak of one",
    consequence="a broker that is started on it deletes every consume queue, and begins an empty "
    "log; no message can be read",
    remedy="do not start a broker; mount or restore the commitlog directory, or correct "
    "storePathCommitLog in broker.conf",
    command=INFO,
)
FS_ZERO: Final = Code(
    "FS-ZERO",
    NOTE,
    Owner.NOTHING,
    meaning="a file after the tail holds only zeros: it was allocated ahead of need",
    consequence="none: recovery removes it and the broker allocates it again",
    remedy="none needed",
    command=f"{INFO} --section segments",
)
FS_DIR: Final = Code(
    "FS-DIR",
    WARNING,
    Owner.FILES,
    also=(DAMAGE,),
    when="damage for releases before 5.1.0, which refuse to start",
    meaning="a mapped-file directory holds a sub-directory",
    consequence="releases before 5.1.0 see a file of wrong length and refuse to start; "
    "later ones skip it",
    remedy="move it away",
    command=REPAIR,
)
FS_LOCK: Final = Code(
    "FS-LOCK",
    NOTE,
    Owner.NOTHING,
    meaning="a broker runs on this store: a process holds its lock",
    consequence="none for reading: records that arrive meanwhile are not checked. Commands that "
    "write refuse",
    remedy="none needed; to change the store, stop the broker first",
    command=INFO,
)
FS_OWNER: Final = Code(
    "FS-OWNER",
    DAMAGE,
    Owner.PERSON,
    also=(NOTE,),
    when="damage if the user of the broker cannot read and write it; a note if another user "
    "owns it; the user is given by --as-user; the default is the owner of most files of the store",
    meaning="owner or mode differs from the other files of the store",
    consequence="a broker of that user refuses to start, or takes a directory for empty; it may "
    "write no further",
    remedy="give it to the user of the broker: chown, and chmod u+rw",
    command=INFO,
)
FS_ORPHAN: Final = Code(
    "FS-ORPHAN",
    DAMAGE,
    Owner.PERSON,
    also=(WARNING, NOTE),
    when="damage for messages of a topic that is not configured; a warning for a queue past the "
    "configured number, which consumers may have emptied before; a note for expired messages and "
    "for light queues of another topic's messages",
    meaning="a consume queue belongs to no configured topic or queue",
    consequence="kept on disk and recovered at each start, but no client can consume it",
    remedy="bring topics.json back, or configure the topic again with mqadmin updateTopic; "
    "--reset-config of rmqtool repair puts the topics of the log into it; mqadmin cleanUnusedTopic "
    "deletes the queue and with it the way to its messages",
    command=TOPICS,
)
FS_READ: Final = Code(
    "FS-READ",
    WARNING,
    Owner.PERSON,
    meaning="a file or directory cannot be read, so nothing is known about it",
    consequence="unknown: a broker that cannot read it either refuses to start",
    remedy="fix the permission or the medium, or move a file that is too large away; "
    "then validate again",
    command=VALIDATE,
)
