"""What the pages of some commands say besides, and what `rmqtool(1)` says of remote stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.cli.manual.blocks import Section, Term, texts
from rmqtool.findings.registry_commitlog import CL_MIXDL, CL_QOFF_BACK, DL_ENTRY
from rmqtool.findings.registry_layout import FS_DUP, FS_GAP, FS_NAME, FS_READ
from rmqtool.findings.registry_state import CF_JSON, CO_RANGE, DO_RANGE

if TYPE_CHECKING:
    from rmqtool.cli.manual.blocks import Block
    from rmqtool.findings.catalogue import Code

PUT_BACK: Final = """
Some fields are covered by no checksum. Repair puts such a field back, and keeps its record, if
other bytes of the store hold the same value: the place in the log; topic and queue id, by the unit
of the record in its true consume queue, if no other record claims that place; the offsets of a
record in light queues, by their units there or by the gap between its neighbours in the log. If a
light-queue offset is not a number, a broker that recovers after a crash refuses to start. Where the
number cannot be recovered, repair writes spaces: brokers then skip the light queues, and the
message stays in its own queue.
"""
LEFT: Final[tuple[tuple[tuple[Code, ...], str], ...]] = (
    ((CL_QOFF_BACK,), (
        "The queue was deleted and made anew: newer messages have the numbers of older ones. "
        "rmqtool dump STORE --topic TOPIC --queue ID shows these; only sending them again "
        "delivers them."
    )),
    ((CL_MIXDL, DL_ENTRY), (
        "A DLedger log: what is committed, the other nodes of the group say. Move the node's data "
        "away and let it copy the leader's."
    )),
    ((FS_DUP,), (
        "Two commitlog files of one name that differ: rmqtool validate FILE judges each; move the "
        "worse one away. Of two that are the same, one is taken out; so is one that is all zeros."
    )),
    ((FS_NAME,), (
        "A commitlog file whose name is not a multiple of the segment size may hold records of the "
        "log. Rename it to where its first record says it lies, as the plan words it, or move it "
        "away: until then nothing can be judged against the log."
    )),
    ((FS_READ,), (
        "A link that is not followed, or a bad sector: what comes after it may be intact. Bring "
        "back what the link leads to, or remove it: a queue is then repaired from the log. Of a "
        "bad disk, repair a copy."
    )),
    ((FS_GAP,), (
        "A segment is missing: it may be in a backup. With --bridge-missing a file of bridges "
        "takes its place."
    )),
    ((CO_RANGE, DO_RANGE), (
        "Offsets ahead of their queue: --clamp-offsets sets them to its end, and those below its "
        "first message to that message."
    )),
    ((CF_JSON,), (
        "JSON that cannot be parsed, and no .bak that can: bring it back from a backup. With a "
        ".bak that cannot be parsed either a broker refuses to start; without one it starts as if "
        "the file had never been."
    )),
)  # fmt: skip
REMOTE: Final = """
Every command that reads a store takes a URI in the place of a path, such as
s3://bucket/prefix/store. It may name a directory or a file of the store. Files are read by ranges,
as far as they are needed; nothing is downloaded as a whole. rebuild and export take a URI for
--output, too; repair and --in-place need a local store. s3:// and file: are tested; gs://, abfs://
and hdfs:// are opened the same way, untested.

Credentials, region and endpoint come from the usual places: AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL, ~/.aws, the machine's role. On a
cluster those of each executor count. They may stand in the URI:
s3://KEY:SECRET@bucket/store?region=eu-west-1, or ?scheme=http&endpoint_override=HOST:PORT. They are
never shown.

An object has the time of its upload instead of the file's own, and there are no empty directories.
Whether a broker holds the lock is not known. Many jobs help: --jobs 16 keeps as many requests under
way.
"""
FILES: Final = """
Each file holds what one task read: names are part-TASK-PIECE.parquet, in the order of the log. With
--partition-by they lie in directories such as topic=orders/date=2026-11-21. Those columns are not
in the files, as readers take them off the names; date is text there. Characters that mean something
to a file system are % and two hexadecimal digits; a row without the value, as damage is, lies in
__HIVE_DEFAULT_PARTITION__, and a value of more than 255 bytes is cut and has a digest after it.
Some readers take 007 in a name for a number: tell them that topics are text.

Every topic of a day makes a file a task: for many topics choose a larger --split or partition by
date alone.

_SUCCESS appears when all is there, everything could be read and no row tells of damage. It holds
the counts. Where rows tell of damage, _DAMAGED appears instead, and the exit code is 1: all that
can be read is there. Until then, _export.json says what is exported and _receipts what is done: the
same command goes on from there. Files of an unfinished export are complete, each by itself.

With --since-last, DIR has a directory batch=000001 for the first run, and one more for each run
that finds something new. _places says where each begins and ends in the log. Each batch is an
export of its own, with its own _SUCCESS or _DAMAGED. Readers that know partitions read DIR as one
table, with the column batch. A last record that a broker is still writing is left for the next
batch. A run is refused where the log no longer has the last record that was exported. It is
refused, too, where files expired before their messages were exported. Let one run end before
another one begins.

Damage is rows with an extent or a code, as in dump; see rmqtool-tables(5). The times of Parquet are
microseconds in UTC, keys a list, properties a map.
"""
TABLES: Final = """
messages, queue_units and index_entries have the columns of dump --as commitlog, consume-queue and
index. findings has those of validate, segments one row for each segment of the log.

In messages, queue_units and index_entries a row with an extent is no record: a gap in the log, for
example, has the extent gap, the code of the finding and neither topic nor time. Most questions want
WHERE extent IS NULL. What could not be read has the code FS-READ, and makes the exit code 3. Where
other rows with a code were read, for whatever answer, the exit code is 1: see rmqtool-tables(5).

Only the columns that a question refers to are decoded, and the code. All of a table is read, but
for a LIMIT without a filter.
"""


def sections(command: str) -> list[Block]:
    """Give the sections that the page of a command has besides those of all."""
    if command == "repair":
        left = [Term(", ".join(codes), (text,)) for codes, text in LEFT]
        put_back = texts(PUT_BACK)
        return [Section("WHAT IS PUT BACK"), *put_back, Section("WHAT A PERSON DECIDES"), *left]
    if command == "export":
        return [Section("FILES"), *texts(FILES)]
    if command == "sql":
        from rmqtool.spark.views import VIEWS

        views = [Term(view.name, (_sentence(view.meaning),)) for view in VIEWS.values()]
        return [Section("TABLES"), *texts(TABLES), Section("VIEWS"), *views]
    return []


def remote() -> list[Block]:
    """Give the section about remote stores."""
    return [Section("REMOTE STORES"), *texts(REMOTE)]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
