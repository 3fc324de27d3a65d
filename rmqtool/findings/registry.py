"""Every finding code.

Source: the table of defects in the description of the store's formats, section 12. Codes are
permanent: a code may be added, none may change its meaning.
"""

from __future__ import annotations

from typing import Final

from rmqtool.findings import (
    registry_commitlog,
    registry_conf,
    registry_consume_queue,
    registry_index,
    registry_layout,
    registry_rocksdb,
    registry_state,
)
from rmqtool.findings.catalogue import Code

CODES: Final[dict[str, Code]] = {
    code.name: code
    for module in (
        registry_layout,
        registry_commitlog,
        registry_consume_queue,
        registry_index,
        registry_state,
        registry_conf,
        registry_rocksdb,
    )
    for code in vars(module).values()
    if isinstance(code, Code)
}
