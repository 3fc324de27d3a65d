"""How rows are to look: what a command line can say about it, and what a writer needs to know.

Apart from `emit.py`, so that whoever reads or explains a command line loads no writer.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo


class Format(enum.StrEnum):
    """How rows are written."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    JSON_SCHEMA = "json-schema"  # what the rows are, in their place


class Color(enum.StrEnum):
    """When tables have colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Look(NamedTuple):
    """How rows are to look."""

    format: Format  # see `Format`
    # the fields that were asked for, in that order; None is the usual ones
    columns: tuple[str, ...] | None = None
    color: bool = False  # whether to colour a table
    # takes a remark for the person who looks, such as columns that had no room
    note: Callable[[str], None] = lambda _: None
    zone: tzinfo | None = None  # whose clock the times of a table follow; None is UTC
