"""The tables of a carving: the stores that were found, and a line for each record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.table import Column, Table, Type
from rmqtool.tables.record_tables import MESSAGES

if TYPE_CHECKING:
    import pyarrow as pa

    from rmqtool.carve.reading import FoundRecords

GRADES: Final = ("lone", "chain", "crc")

CARVED: Final = Table(
    "carved",
    "a store that records were found of",
    (
        Column("store", Type.TEXT, "store host of its records, the first one found"),
        Column("hosts", Type.INT32, "store hosts whose records follow each other in its log"),
        Column("records", Type.INT64, "records written", "records"),
        Column("bytes", Type.INT64, "their length", "bytes"),
        Column("crc", Type.INT64, "of them, records that a checksum proves", "records"),
        Column(
            "chain",
            Type.INT64,
            "of them, records without a body that follow their neighbours in the log",
            "records",
        ),
        Column(
            "lone",
            Type.INT64,
            "of them, records without checksum or neighbour to confirm them",
            "records",
        ),
        Column("duplicates", Type.INT64, "copies of records, left out", "records"),
        Column(
            "conflicts",
            Type.INT64,
            "records written that claim bytes of the log that another one claims, too",
            "records",
        ),
        Column("fragments", Type.INT64, "stretches of the log without a gap"),
        Column(
            "physical_offset", Type.INT64, "place of the first record in the commitlog", "bytes"
        ),
        Column("physical_offset_end", Type.INT64, "where the last record ends there", "bytes"),
        Column("first_store_time", Type.TIME, "when the earliest record was stored"),
        Column("last_store_time", Type.TIME, "when the latest record was stored"),
        Column("file", Type.TEXT, "the file that they are in"),
    ),
    shown=("store", "records", "crc", "chain", "lone", "fragments", "duplicates"),
)
CARVED_RECORDS: Final = Table(
    "carved records",
    "a record that was found in an image",
    (
        Column("image", Type.TEXT, "image that holds the record, as given", has_few=True),
        MESSAGES["position"]._replace(meaning="first byte of the record in the image"),
        MESSAGES["physical_offset"]._replace(meaning="place of the record in its commitlog"),
        MESSAGES["size"],
        Column("store", Type.TEXT, "the first store host of its store", has_few=True),
        *(
            MESSAGES[name]
            for name in ("store_host", "topic", "topic_b64", "queue_id", "queue_offset")
        ),
        MESSAGES["store_time"],
        Column(
            "grade",
            Type.TEXT,
            "crc: a checksum proves it; chain: neighbours confirm it; lone: nothing confirms it",
            has_few=True,
        ),
    ),
)


def record_rows(some: FoundRecords, store: str) -> pa.RecordBatch:
    """Give the rows of records.

    Args:
        some: the records.
        store: that they are of.
    """
    import base64

    import numpy as np
    import pyarrow as pa

    from rmqtool.scan import columns as row
    from rmqtool.tables import arrow
    from rmqtool.tables.record_columns import store_hosts
    from rmqtool.tables.texts import TextStretches, strings

    columns, count = some.columns, some.columns.shape[1]
    stretches = TextStretches(some.window, columns[row.TOPIC_START], columns[row.TOPIC_LENGTH])
    topics = strings(stretches)
    exact: list[str | None] = [None] * count
    for number, topic in (
        enumerate(topics.to_pylist()) if "\ufffd" in "".join(topics.unique().to_pylist()) else ()
    ):
        raw = stretches.raw(number)
        if topic.encode() != raw:
            exact[number] = base64.b64encode(raw).decode()
    grades = np.zeros(count, np.int64) if some.run.is_lone else 1 + some.proven
    values = {
        "image": arrow.constant(some.image.name, count),
        "position": pa.array(columns[row.POSITION]),
        "physical_offset": pa.array(columns[row.PHYSICAL_OFFSET]),
        "size": pa.array(columns[row.SIZE]),
        "store": arrow.constant(store, count),
        "store_host": store_hosts(some.window, columns[row.RECORD_START], columns[row.SYS_FLAG]),
        "topic": topics,
        "topic_b64": pa.array(exact, pa.string()),
        "queue_id": pa.array(columns[row.QUEUE_ID].astype(np.int32)),
        "queue_offset": pa.array(columns[row.QUEUE_OFFSET]),
        "store_time": arrow.times(columns[row.STORE_TIMESTAMP]),
        "grade": arrow.words(grades, GRADES),
    }
    return arrow.batch(CARVED_RECORDS.arrow, values, count)
