"""The table of lost messages, declared: what `doctor`, `repair`, `report` and `sql` list.

Which these are is found in `query/lost.py`; a command that lists none does not load that.
"""

from __future__ import annotations

from typing import Final

from rmqtool.table import Column, Table, Type
from rmqtool.tables.record_tables import MESSAGES

LOST_MESSAGES: Final = Table(
    "lost_messages",
    "a message that is lost, or whose bytes are damaged",
    (
        Column(
            "fate",
            Type.TEXT,
            "lost; doubtful: damaged, or elsewhere; unlisted: too many; unknown: not looked for",
        ),
        MESSAGES["topic"],
        MESSAGES["queue_id"],
        MESSAGES["queue_offset"],
        Column("messages", Type.INT64, "messages in the record, more than one in a batch"),
        MESSAGES["physical_offset"],
        MESSAGES["size"],
        MESSAGES["store_time"],
        Column("stored_after", Type.TIME, "store time of the nearest record before it"),
        Column("stored_before", Type.TIME, "store time of the nearest record after it"),
        MESSAGES["keys"],
        MESSAGES["unique_key"],
        Column("key_hashes", Type.NUMBERS, "hashes of its keys, as the index has them"),
        Column("code", Type.TEXT, "finding code of the damage; null where no file holds the place"),
        Column("sources", Type.TEXTS, "source of each fact"),
    ),
    shown=(
        *("topic", "queue_id", "queue_offset", "physical_offset", "fate", "store_time"),
        *("stored_after", "stored_before", "unique_key", "keys", "code"),
    ),
)
