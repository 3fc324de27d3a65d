"""`rmqtool-spark(7)`: stores as Spark tables, the engine of bulk commands, and how they grow."""

from __future__ import annotations

from typing import Final

from rmqtool.cli.manual.blocks import Block, Page, Section, Subsection, Term, Verbatim, texts
from rmqtool.cli.manual.commands import MISCELLANEOUS, SPARK, see_also
from rmqtool.spark.options import NAMES

ENGINES: Final = """
validate, rebuild, rebuild-cq, rebuild-index, dump and query --scan run in this process by default,
with threads. --master URL, or --engine spark, hands the same per-segment functions to Spark:
local[*], spark://HOST:PORT, yarn, k8s://..., or sc://HOST for Spark Connect. Results are the same
bytes. --engine auto takes Spark when --master, SPARK_REMOTE, SPARK_MASTER or spark.master in
spark-defaults.conf names a master, or when the store is remote. It says so on standard error.

Spark needs Java 17 or newer and pip install 'rmqtool[spark]'. Executors need Python of the same
release with the dependencies of rmqtool; rmqtool itself is sent to them. PYSPARK_PYTHON names their
Python; a session that you start yourself takes python3 without it. What that Python lacks is said
before anything is read. The store's path must be the same for all executors: a shared file system,
or a URI. So must be the output of rebuild-cq.

local[*], a standalone cluster, a job of spark-submit on it, and a Spark Connect server are tested,
all on one machine; YARN and Kubernetes are not. A client of Spark Connect needs no Java but
pip install 'pyspark[connect]'.

Spark's own words are dropped; --verbose keeps them in a file. Ctrl-C cancels the job. What Spark
has to put somewhere is in the directory for temporary files (TMPDIR), and goes with the process.
"""
FAILURES: Final = """
A task whose process or machine is lost is tried again, four times in all, and gives the same bytes.
A segment that cannot be read is a finding, a row with the code FS-READ or a named loss, as without
Spark: the rest is done and the exit code is 3.

rebuild-cq --output writes each queue by one task, into a directory of that try inside of the staged
output; the driver adopts one try of each and renames the output when all is on the disk. Killed at
any moment it leaves no output, or all of it.
"""
SOURCE: Final = """
The tables of a store are a data source. In Python:
"""
EXAMPLE: Final = """
from rmqtool.spark import register
from rmqtool.spark.session import session

spark = register(session("local[*]"))
store = spark.read.format("rocketmq").option("path", "/data/store")
store.option("columns", "topic,size").load().groupBy("topic").sum().show()
store.option("table", "findings").load().show()

nights = spark.read.format("rocketmq").option("table", "segments")
nights.load("s3://backups/*/2026-11-2?/store").groupBy("store").sum("records").show()
"""
TABLES: Final = """
messages, queue_units and index_entries have the rows of dump, damage among them; findings those of
validate; segments has one row a segment of the log: bytes of records, blanks, gaps and unused
tails, first and last record, what is damaged first, or why it could not be read. A row with a code
tells of damage: count(code) says whether a store is as it was, see rmqtool-tables(5). To find out
takes all of a record: leave the column code out to read less. One task reads one segment, or a
split of it; any split gives the same rows. Small segments share a task, 128 MiB by default. Offsets
and times leave out segments, and what lies before and after the wanted rows in a segment: reading
begins at a record that a queue unit names. Store times are trusted to five minutes, and not at all
where the log is not in the order of its times.

Options choose what is read, and belong to one DataFrame. Filters of a query choose rows after they
were read: Spark keeps one reader for all queries of a DataFrame. So give offsets, from and to as
options where the log is large.

Rows are written by df.write and df.writeTo, as those of any source. Packages of Iceberg and Delta
must be for the release of Spark that runs. On Spark 4.3.0, Iceberg 1.12.0 for Spark 4.1 makes no
table, and Delta 4.4.0 for Spark 4.2 writes one and cannot read it.

The option limit ends a task after so many rows; sql gives it where a question takes the first rows
of a table, so LIMIT 10 reads 64 KiB. After a filter, LIMIT reads a task at a time until it has
its rows, and each task runs ahead of what Spark takes. Spark has no metrics for sources such as
this one. sql says at the end how many bytes of the store it read; export has the column read.
In a session of yours set spark.sql.pyspark.worker.logging.enabled before a query, then ask:
"""
BYTES_READ: Final = """
SELECT sum(context['bytes_read']) FROM python_worker_logs()
WHERE logger = 'rmqtool.bytes_read'
"""
FLEET: Final = """
Many stores are read as one table, on disks and in buckets. Name them by a pattern such as
/backups/*/2026-11-2?/store, a list of paths or a file of stores (stores_file). The columns store
and broker come first in each row. store is the path of the store. broker is the name in the file
of stores, else that in brokerIdentity (5.1.1 and later); without both it is null. The segments of
all stores are one pool of tasks, so small stores share a task.

A store that cannot be opened does not stop the others. It is one row with code FS-READ, in segments
a row with unread; a pattern that nothing matches is such a row, too. A stream follows one store.
"""
STREAM: Final = """
messages can be followed while a broker writes: spark.readStream.format("rocketmq"). The place of a
stream is a physical offset in Spark's checkpoint, so it goes on at exactly the next record. A last
record that is not written to its end is left for the next batch.

The place also names records that were read, by physical offset, store time and a CRC of their
heads. A broker that recovers cuts the log and writes other records to the same offsets; files
expire. Where the log no longer has what the stream has read, or would read next, the stream stops.
It says what happened and where it can go on. With failOnDataLoss=false it goes on, with a row whose
extent is gap. Code FS-GAP: these bytes were deleted before they were read. Code FS-CHANGED: the log
was cut after it was read, and differs within these bytes. The stream then reads them again: no
record is missing, and some may come twice. Replace what was given of these bytes before.
"""
SIZE: Final = """
Measured, as CPU time on one core with the bytes in memory: a segment of 1 GiB with records of 470
bytes takes about 0.9 seconds to validate, and 0.6 to derive its queues. To decode all columns of
messages takes 5, topic and size alone 1.4, segments 0.2: 0.2 to 1 GB/s a core. Disks and networks
are slower than that: count bytes first. Spark starts in 5 to 12 seconds, and each Python process
loads the kernels once, in a second; on a machine that has never run this rmqtool it compiles them
first, in some ten seconds for each command.

Beside this process, a store of 2 GiB on local[2], warm, start of Spark apart: validate takes 1.13
times as long, rebuild-cq 1.07 times. Of that, 0.1 to 0.2 seconds are the start of their jobs, which
a log of 128 KiB costs as well. So on one machine Spark saves nothing; it is for many machines, and
for stores that are not on one. export of all columns reads 0.7 GB/s on two cores, of seven columns
2.4 GB/s: 1.8 and 3.9 times what dump reads to write JSON lines. The driver of validate takes 231 MB
and that of rebuild-cq 149 MB, the same for 2 and 8 GiB.

Each record makes 20 bytes of queue: 4.3 % of the log. rebuild-cq shuffles them in one compressed
blob for each writer and part of 64 MiB: a quarter of that where messages are alike, at most all of
it. Tasks of validate compare queues and index themselves, and send what differs: the driver gets
200 bytes for each MiB of a sound log, from rebuild-cq 27. It reads the index files once more, for
their chains. Results of dump and rebuild-index go through the driver. On a cluster they come in
waves of at most 128 MiB, two at a time. On one machine they are temporary files, of 1 GiB and twice
that at most. So its memory does not grow with the store.
"""
ROWS: Final = """
                             1 TiB          100 TiB
segments, tasks              1,024          102,400
core hours: validate         0.3            26
core hours: queues           0.2            17
core hours: messages         1.4            142
reading at 1 GB/s            18 min         31 h
reading at 50 GB/s           22 s           35 min
records of 470 bytes         2.3e9          2.3e11
shuffle of rebuild-cq, most  47 GB          4.7 TB
queue files of 6 MB          7,800          780,000
results of validate          0.2 GB         21 GB
index entries, two a record  94 GB          9.4 TB
"""
LIMITS: Final = """
These are computed from the figures above, not measured. 100 executors of 4 cores validate 1 TiB as
fast as storage gives it. What limits first is the bandwidth of the storage. Then, for validate, it
is the one driver that walks the chains of the index. For dump and rebuild-index it is the one
driver that takes all results, from some 10 TiB on. For rebuild-cq it is nothing of ours before the
disks of the shuffle, as no unit goes through the driver; for the table messages only cores. A
store is one broker's, and no broker has 100 TiB: run one driver a store, as many as there are, and
each is in the left column. One queue is written by one task: a topic with a single queue is written
at the speed of one disk.
"""


def spark_page() -> Page:
    """Give the whole page."""
    blocks: list[Block] = [
        Section("DESCRIPTION"),
        *texts(ENGINES),
        Section("FAILURES"),
        *texts(FAILURES),
        Section("DATA SOURCE"),
        *texts(SOURCE),
        Verbatim(tuple(EXAMPLE.strip().splitlines())),
        *texts(TABLES),
        Verbatim(tuple(BYTES_READ.strip().splitlines())),
        Subsection("Many stores"),
        *texts(FLEET),
        Subsection("Options"),
        *(Term(name, (f"{meaning[:1].upper()}{meaning[1:]}.",)) for name, meaning in NAMES.items()),
        Subsection("Streams"),
        *texts(STREAM),
        Section("PLAN FOR SIZE"),
        *texts(SIZE),
        Verbatim(tuple(ROWS.strip("\n").splitlines())),
        *texts(LIMITS),
    ]
    blocks += see_also(SPARK)
    return Page(
        SPARK, MISCELLANEOUS, "stores as Spark tables, and bulk work on a cluster", tuple(blocks)
    )
