"""What a public table is: its name and its promised columns."""

from __future__ import annotations

from typing import Final, NamedTuple


class Table(NamedTuple):
    """A public table.

    Attributes:
        name: what its rows are, plural.
        columns: all fields, in the promised order.
        optional: fields that JSON leaves out where they are null.
        shown: fields of a table for people, the most important first.
    """

    name: str
    columns: tuple[str, ...]
    optional: frozenset[str] = frozenset()
    shown: tuple[str, ...] = ()


MESSAGES: Final = Table(
    "messages",
    columns=(
        *("physical_offset", "size", "segment", "position", "version", "topic", "topic_b64"),
        *("queue_id", "queue_offset", "flag", "sys_flag", "transaction", "compression"),
        *("born_time", "born_host", "store_time", "store_host", "reconsume_times"),
        *("prepared_transaction_offset", "body_crc", "body_size", "tags", "keys", "unique_key"),
        *("message_id", "properties", "properties_b64", "body", "body_b64", "body_error"),
        *("extent", "code"),
    ),
    optional=frozenset(
        {"topic_b64", "properties_b64", "body", "body_b64", "body_error", "extent", "code"}
    ),
    shown=(
        *("physical_offset", "topic", "queue_id", "queue_offset", "store_time", "extent", "code"),
        *("body", "body_error", "tags", "keys", "size", "unique_key", "transaction", "born_host"),
    ),
)
