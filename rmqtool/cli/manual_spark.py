"""What the pages of `export` and `sql` say besides, and what `rmqtool(1)` says of remote stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.cli.manual_page import Item, Section, texts
from rmqtool.spark.views import VIEWS

if TYPE_CHECKING:
    from rmqtool.cli.manual_page import Block

REMOTE: Final = """
Every command that reads a store takes a URI in the place of a path, such as
s3://bucket/prefix/store, for the whole store or for a directory or file of it. Files are read by
ranges, as far as they are needed; nothing is downloaded as a whole. rebuild and export take a URI
for --output, too; repair and --in-place need a local store. s3:// and file: are tested; gs://,
abfs:// and hdfs:// are opened the same way, untested.

Credentials, region and endpoint come from the usual places (AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL, ~/.aws, the machine's role), on a
cluster those of each executor, or from the URI: s3://KEY:SECRET@bucket/store?region=eu-west-1, or
?scheme=http&endpoint_override=HOST:PORT. They are never shown.

An object has the time of its upload instead of the file's own, there are no empty directories, and
nobody can tell whether a broker holds the lock. Many jobs help: --jobs 16 keeps as many requests
under way.
"""
FILES: Final = """
Each file holds what one task read: names are part-TASK-PIECE.parquet, in the order of the log. With
--partition-by they lie in directories such as topic=orders/date=2026-11-21. Those columns are not
in the files, as readers take them off the names; date is text there. Characters that mean something
to a file system are % and two hexadecimal digits; a row without the value, as damage is, lies in
__HIVE_DEFAULT_PARTITION__, and a value of more than 255 bytes is cut and has a digest behind it.
Some readers take 007 in a name for a number: tell them that topics are text.

Every topic of a day makes a file a task: for many topics choose a larger --split or partition by
date alone.

_SUCCESS appears when all is there and everything could be read, and holds the counts. Until then,
_export.json says what is exported and _receipts what is done: the same command goes on from there.
Files of an unfinished export are complete, each by itself.

Damage is rows with an extent or a code, as in dump. The times of Parquet are microseconds in UTC,
keys a list, properties a map.
"""
TABLES: Final = """
messages, queue_units and index_entries have the columns of dump --as commitlog, consume-queue and
index. findings has those of validate, segments one row for each segment of the log.

In messages, queue_units and index_entries a row with an extent is no record: a gap in the log, for
example, has the extent gap, the code of the finding and neither topic nor time. Most questions want
WHERE extent IS NULL. What could not be read has the code FS-READ; a file that cannot be opened
makes the exit code 3 as well.

Only the columns that a question refers to are decoded, and filters on topic, queue_id, store_time
and offsets leave out segments and records, in questions that read a table in one place.
"""


def sections(command: str) -> list[Block]:
    """Give the sections that the page of a command has besides those of all."""
    if command == "export":
        return [Section("FILES"), *texts(FILES)]
    if command == "sql":
        views = [Item(view.name, (_sentence(view.meaning),)) for view in VIEWS.values()]
        return [Section("TABLES"), *texts(TABLES), Section("VIEWS"), *views]
    return []


def remote() -> list[Block]:
    """Give the section about remote stores."""
    return [Section("REMOTE STORES"), *texts(REMOTE)]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
