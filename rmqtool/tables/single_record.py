"""One decoded record as a row: for lookups, and for messages inside of batches.

`record_columns` gives the same for batches of a scan; tests hold the two against each other.
"""

from __future__ import annotations

import base64
from functools import cached_property
from typing import TYPE_CHECKING, Final

from rmqtool.formats import properties
from rmqtool.tables.bodies import Body, BodyMode, BodyOptions, show
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.formats.message import Message
    from rmqtool.table import Table

NO_BODY: Final = BodyOptions()


class SingleRecord:
    """One record, as `record_tables.Records`.

    Args:
        message: its fields.
        segment: path of the file, relative to the store root.
        position: its first byte there.
        options: how its body is shown.
        code: finding code of damage that is known.
        number: which message of a batch it is.
    """

    def __init__(
        self,
        message: Message,
        segment: str,
        position: int,
        options: BodyOptions = NO_BODY,
        *,
        code: str | None = None,
        number: int | None = None,
    ) -> None:
        self.message, self.segment, self.position = message, segment, position
        self.options, self.code, self.number = options, code, number
        self.topic, self.version = message.topic, message.version
        self.born_host, self.store_host = message.born_host, message.store_host
        self.message_id, self.body_size = message.message_id, len(message.body)

    def row(self, table: Table) -> dict[str, object]:
        """Give its row of a table of messages; a column without a source is left out."""
        return {
            column.name: column.source.read(self)
            for column in table.columns
            if column.source is not None
        }

    def stored(self, field: str, _number: int) -> object:
        """Give a field as it is stored."""
        return getattr(self.message, field)

    def time(self, field: str, _number: int) -> str:
        """Give a field as a time."""
        return iso_time(getattr(self.message, field))

    def flag_word(self, word: Callable[[int], str]) -> str:
        """Give what the flags say."""
        return word(self.message.sys_flag)

    def property_value(self, name: str) -> str | None:
        """Give the value of a property."""
        return self.properties.get(name)

    @cached_property
    def properties(self) -> dict[str, str]:
        """Names and values as the broker's reader gives them."""
        return self.message.properties

    @property
    def keys(self) -> list[str]:
        """The user's keys."""
        return list(properties.keys(self.properties))

    @property
    def topic_b64(self) -> str | None:
        """The topic where it is not UTF-8."""
        return _exact(self.message.topic_bytes)

    @property
    def properties_b64(self) -> str | None:
        """The properties where names and values do not hold all of them."""
        raw = self.message.properties_bytes
        items = list(properties.items(raw))
        is_whole = len(items) == len(self.properties) and all(item.is_kept for item in items)
        return _exact(raw) if is_whole else _base64(raw)

    @cached_property
    def _shown(self) -> Body:
        if self.options.mode is BodyMode.NONE:
            return Body()
        owner = None
        if self.options.decoder is not None:
            from rmqtool.tables.decoders import BodyOwner  # few have a decoder

            owner = BodyOwner(self.topic, self.properties)
        return show(self.message.body, self.message.sys_flag, self.options, owner)

    @property
    def body(self) -> str | None:
        """The body as it was asked for."""
        return self._shown.body

    @property
    def body_b64(self) -> str | None:
        """The body where it is no text."""
        return self._shown.body_b64

    @property
    def body_error(self) -> str | None:
        """Why there is no body."""
        return self._shown.body_error


def _exact(raw: bytes) -> str | None:
    """Give bytes that are no UTF-8 as base64."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return _base64(raw)
    return None


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
