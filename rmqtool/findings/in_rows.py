"""Which rows of a table tell of damage: those with the code of a defect that may be damage.

A torn tail and what lies past the last entry of an index have a code, too, and are none: what a
validation calls a warning or a note keeps no read from being complete.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Final

from rmqtool.findings.catalogue import Severity
from rmqtool.findings.registry import CODES
from rmqtool.findings.registry_layout import FS_READ
from rmqtool.rows import JsonLines, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from rmqtool.findings.finding import Finding
    from rmqtool.rows import Chunk

CODE: Final = "code"
SEVERITY: Final = "severity"  # of a finding: it is decided there


def is_damage(defect: Finding) -> bool:
    """Tell whether a finding keeps a read from being complete and right."""
    return defect.severity is Severity.DAMAGE or defect.code == FS_READ


@cache
def tells_of_damage(name: str) -> bool:
    """Tell whether a row with a code is about damage, or about what could not be read."""
    code = CODES.get(name)
    return code is None or Severity.DAMAGE in {code.severity, *code.also} or code == FS_READ


def count_damage(codes: Iterable[str | None]) -> int:
    """Count rows that tell of damage; those without a code do not."""
    return sum(n for code, n in Counter(codes).items() if code and tells_of_damage(code))


def damaged_rows(rows: pa.Table | pa.RecordBatch) -> int:
    """Count the rows that tell of damage, as far as the columns say."""
    names = rows.schema.names
    if SEVERITY in names:
        return sum(level == Severity.DAMAGE for level in rows.column(SEVERITY).to_pylist())
    if CODE not in names or rows.column(CODE).null_count == rows.num_rows:
        return 0
    return count_damage(rows.column(CODE).to_pylist())


def damaged_in(chunk: Chunk) -> int:
    """Give how many rows of a chunk tell of damage."""
    if isinstance(chunk, JsonLines) and not chunk.coded:
        return 0
    codes = (row.get(CODE) for row in rows_of(chunk))
    return count_damage(str(code) for code in codes if code)
